package plot

import (
	"fmt"
	"io"
	"strings"

	"github.com/evald/evald/engine/score"
)

// rates lists the rates that are drawn for each band of plies. of returns ok false if a band has no such rate.
var rates = []struct {
	name string
	of   func(score.Summary) (rate score.Mean, ok bool)
}{
	{"good move", func(s score.Summary) (score.Mean, bool) { return s.Good, true }},
	{"perfect move", func(s score.Summary) (score.Mean, bool) { return s.Perfect, true }},
	{"good move where one can go wrong", func(s score.Summary) (score.Mean, bool) { return s.CriticalGood, s.Critical > 0 }},
	{"result foretold", func(s score.Summary) (score.Mean, bool) { return s.ValueSign, s.ValueSign != score.Mean{} }},
}

// Accuracy draws the rates of a report over the plies, with their 95% confidence intervals. A report of several games gets a panel for each
// game, without intervals.
func Accuracy(w io.Writer, title string, r score.Report) error {
	if len(r.Boards) > 1 {
		return panels(w, title, r)
	}
	c := chart{
		title: []string{title, fmt.Sprintf("%d positions: %.1f%% good moves, %.1f%% perfect",
			r.All.Positions, 100*r.All.Good.Value, 100*r.All.Perfect.Value)},
		x: axis{label: "plies (positions)", min: -0.5, max: float64(len(r.Bands)) - 0.5},
		y: axis{label: "% of positions", max: 100},
	}
	for i, rate := range rates {
		next := curve{name: rate.name, colour: colours[i], dots: fullDots}
		for k, band := range r.Bands {
			if value, ok := rate.of(band); ok {
				next.points = append(next.points, percent(float64(k)+0.06*float64(i)-0.09, value))
			}
		}
		if next.points != nil {
			c.curves = append(c.curves, next)
		}
	}
	for k, b := range r.Bands {
		_, numbers, _ := strings.Cut(b.Name, " ") // after "plies"
		c.x.ticks = append(c.x.ticks, tick{float64(k), []string{numbers, fmt.Sprintf("(%d)", b.Positions)}})
	}
	return draw(w, c)
}
