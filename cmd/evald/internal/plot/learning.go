package plot

import (
	"fmt"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/evald/evald/nn/learn"
)

// Learning draws the accuracy of a run's networks over its generations, with their ratings and losses below.
func Learning(w io.Writer, title string, generations []learn.Generation) error {
	if len(generations) == 0 {
		return fmt.Errorf("plot: the run has no generations yet")
	}
	accuracy, elo, loss := plot.New(), plot.New(), plot.New()
	accuracy.Title.Text, accuracy.Title.Padding = title, 3*vg.Millimeter
	accuracy.Y.Label.Text, elo.Y.Label.Text, loss.Y.Label.Text, loss.X.Label.Text = "% of positions", "Elo", "loss, nats", "generation"
	plots := []*plot.Plot{accuracy, elo, loss}
	for _, p := range plots {
		p.Add(plotter.NewGrid())
		p.Legend.Padding, p.Legend.XOffs = 2*vg.Millimeter, -4*vg.Millimeter
		p.X.Min, p.X.Max, p.X.Tick.Marker = -0.3, float64(len(generations))-0.7, whole(len(generations))
	}
	accuracy.Y.Max, loss.Legend.Top = 100, true
	curves := 0
	for i, a := range generations[0].Accuracy {
		if a.Kind != learn.AllKinds {
			continue
		}
		who := "policy"
		if a.Visits > 0 {
			who = fmt.Sprintf("%d visits", a.Visits)
		}
		var good, perfect []point
		for _, g := range generations {
			good = append(good, point{float64(g.Number), g.Accuracy[i].Good})
			perfect = append(perfect, point{float64(g.Number), g.Accuracy[i].Perfect})
		}
		if err := add(accuracy, who+", good moves"+gap, colours[curves%len(colours)], good); err != nil {
			return err
		}
		if err := add(accuracy, who+", perfect moves"+gap, colours[(curves+1)%len(colours)], perfect); err != nil {
			return err
		}
		curves += 2
	}
	accuracy.Y.Min -= (100 - accuracy.Y.Min) / 2 // room for the names of the curves
	if err := ratings(elo, generations); err != nil {
		return err
	}
	for i := range 3 {
		var points plotter.XYs
		name := ""
		for _, g := range generations {
			if g.Metrics == nil {
				continue
			}
			if c := g.Metrics.Curves()[i]; c.Metric != nil {
				name = c.Name
				points = append(points, plotter.XY{X: float64(g.Number), Y: c.Loss})
			}
		}
		if len(points) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.Color, line.Width, dots.Color, dots.Shape = colours[i], vg.Points(1.2), colours[i], draw.CircleGlyph{}
		loss.Add(line, dots)
		loss.Legend.Add(name+gap, line, dots)
	}
	canvas := vgsvg.New(width, 2.4*height)
	tiles := draw.Tiles{Rows: 3, Cols: 1, PadY: 4 * vg.Millimeter, PadRight: 4 * vg.Millimeter}
	grid := [][]*plot.Plot{{accuracy}, {elo}, {loss}}
	for i, c := range plot.Align(grid, tiles, draw.New(canvas)) {
		plots[i].Draw(c[0])
	}
	_, err := canvas.WriteTo(w)
	return err
}

// gap keeps a name at the right edge away from its line: a viewer's letters may be wider than the ones measured here.
const gap = "\u00a0\u00a0\u00a0\u00a0\u00a0\u00a0"

// whole puts a tick at each generation, or at every few if there are many.
func whole(generations int) plot.ConstantTicks {
	var ticks []plot.Tick
	for g := 0; g < generations; g += 1 + generations/20 {
		ticks = append(ticks, plot.Tick{Value: float64(g), Label: fmt.Sprint(g)})
	}
	return ticks
}

// ratings draws the networks' ratings with their intervals. Promoted networks are filled.
func ratings(p *plot.Plot, generations []learn.Generation) error {
	xys, errs := make(plotter.XYs, len(generations)), make(plotter.YErrors, len(generations))
	var promoted plotter.XYs
	for i, g := range generations {
		xys[i] = plotter.XY{X: float64(g.Number), Y: g.Elo}
		errs[i].Low, errs[i].High = g.EloError, g.EloError
		if g.Promoted {
			promoted = append(promoted, xys[i])
		}
	}
	line, dots, bars, err := withErrors(xys, errs)
	if err != nil {
		return err
	}
	line.Color, dots.Color, bars.Color, dots.Shape, dots.Radius = colours[0], colours[0], colours[0], draw.RingGlyph{}, vg.Points(3)
	p.Add(line, dots, bars)
	p.Legend.Add("rating"+gap, line, dots)
	if len(promoted) == 0 {
		return nil
	}
	filled, err := plotter.NewScatter(promoted)
	if err != nil {
		return err
	}
	filled.Color, filled.Shape, filled.Radius = colours[0], draw.CircleGlyph{}, vg.Points(3)
	p.Add(filled)
	p.Legend.Add("promoted"+gap, filled)
	return nil
}
