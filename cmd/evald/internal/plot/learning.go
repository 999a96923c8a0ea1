//go:build !first

package plot

import (
	"fmt"
	"io"

	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/nn/learn"
)

// Learning draws the accuracy, ratings and losses of a run's networks over its generations. If the run has several games, it also draws the
// rates of good moves in each.
func Learning(w io.Writer, title string, generations []learn.Generation) error {
	if len(generations) == 0 {
		return fmt.Errorf("plot: the run has no generations yet")
	}
	x := axis{min: -0.3, max: float64(len(generations)) - 0.7}
	for g := 0; g < len(generations); g += 1 + len(generations)/20 {
		x.ticks = append(x.ticks, tick{float64(g), []string{fmt.Sprint(g)}})
	}
	accuracy := chart{title: []string{title}, x: x, y: axis{label: "% of positions"}}
	for _, a := range generations[len(generations)-1].Accuracy {
		if !a.Whole() {
			continue
		}
		next := len(accuracy.curves)
		style := []dots{fullDots, rings}[next/len(colours)%2]
		accuracy.curves = append(accuracy.curves,
			curve{a.Player() + ", good moves", colours[next%len(colours)], accuracies(generations, a, good), style},
			curve{a.Player() + ", perfect moves", colours[(next+1)%len(colours)], accuracies(generations, a, perfect), style})
	}

	x.label = "generation"
	loss := chart{x: x, y: axis{label: "loss, nats"}}
	for i := range 3 {
		next := curve{colour: colours[i], dots: fullDots}
		for _, g := range generations {
			if g.Metrics == nil {
				continue
			}
			if c := g.Metrics.Curves()[i]; c.Metric != nil {
				next.name, next.points = c.Name, append(next.points, exact(float64(g.Number), c.Loss))
			}
		}
		if next.points != nil {
			loss.curves = append(loss.curves, next)
		}
	}
	x.label = ""
	// The networks' ratings with their intervals. Filled dots are promoted networks.
	rating := curve{name: "rating", colour: colours[0], dots: rings}
	promoted := curve{name: "promoted", colour: colours[0], dots: onlyDots}
	for _, g := range generations {
		rating.points = append(rating.points, point{float64(g.Number), g.Elo, g.Elo - g.EloError, g.Elo + g.EloError})
		if g.Promoted {
			promoted.points = append(promoted.points, exact(float64(g.Number), g.Elo))
		}
	}
	elo := chart{x: x, y: axis{label: "Elo"}, curves: []curve{rating}}
	if promoted.points != nil {
		elo.curves = append(elo.curves, promoted)
	}
	return draw(w, append(append([]chart{accuracy}, byGame(x, generations)...), elo, loss)...)
}

func good(a learn.Accuracy) score.Mean    { return a.Good }
func perfect(a learn.Accuracy) score.Mean { return a.Perfect }

// accuracies returns a rate of the accuracies that are about the same as a, in those generations
// that have one: older versions measured less.
func accuracies(generations []learn.Generation, a learn.Accuracy, rate func(learn.Accuracy) score.Mean) (points []point) {
	for _, g := range generations {
		for _, other := range g.Accuracy {
			if other.Rules == a.Rules && other.Kind == a.Kind && other.Player() == a.Player() {
				points = append(points, percent(float64(g.Number), rate(other)))
			}
		}
	}
	return points
}

// most is the maximum number of curves of a chart, which leaves room for their names.
const most = 12

// byGame returns charts of the rates of good moves in each game of a run: charts for the policy, and for each search. It returns none if the
// run has one game.
func byGame(x axis, generations []learn.Generation) (charts []chart) {
	player := "" // of the last chart
	for _, a := range generations[len(generations)-1].Accuracy {
		if a.Rules == "" {
			continue
		}
		if a.Player() != player || len(charts[len(charts)-1].curves) == most {
			player = a.Player()
			charts = append(charts, chart{x: x, y: axis{label: "% good moves, " + player}})
		}
		last := &charts[len(charts)-1]
		next := len(last.curves)
		last.curves = append(last.curves, curve{a.Rules, colours[next%len(colours)], accuracies(generations, a, good), []dots{fullDots, rings, noDots}[next/len(colours)]})
	}
	return charts
}
