// Package plot draws the program's curves as SVG.
package plot

import (
	"fmt"
	"image/color"
	"io"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/evald/evald/engine/score"
)

// Size of every picture.
const (
	width  = 7 * vg.Inch
	height = 4.2 * vg.Inch
)

// The colours of curves. People with colour blindness can tell them apart (after Okabe and Ito).
var colours = []color.RGBA{{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}}

// point is a rate with its interval, at a position of the x axis.
type point struct {
	x    float64
	rate score.Mean
}

// Accuracy draws the rates of a report over the plies, with their 95% intervals.
func Accuracy(w io.Writer, title string, r score.Report) error {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s\n%d positions: %.1f%% good moves, %.1f%% perfect",
		title, r.All.Positions, 100*r.All.Good.Value, 100*r.All.Perfect.Value)
	p.Title.Padding = 3 * vg.Millimeter
	p.X.Label.Text = "plies (positions)"
	p.Y.Label.Text = "% of positions"
	p.Y.Min, p.Y.Max = 0, 100
	p.Add(plotter.NewGrid())
	p.Legend.Top, p.Legend.Left = false, true
	p.Legend.Padding = 2 * vg.Millimeter
	for i, curve := range []struct {
		name string
		of   func(score.Summary) (score.Mean, bool)
	}{
		{"good move", func(s score.Summary) (score.Mean, bool) { return s.Good, true }},
		{"perfect move", func(s score.Summary) (score.Mean, bool) { return s.Perfect, true }},
		{"good move where one can go wrong", func(s score.Summary) (score.Mean, bool) { return s.CriticalGood, s.Critical > 0 }},
		{"result foretold", func(s score.Summary) (score.Mean, bool) { return s.ValueSign, true }},
	} {
		var points []point
		for k, band := range r.Bands {
			if rate, ok := curve.of(band); ok {
				points = append(points, point{float64(k) + 0.06*float64(i) - 0.09, rate})
			}
		}
		if err := add(p, curve.name, colours[i], points); err != nil {
			return err
		}
	}
	var names []string
	for _, b := range r.Bands {
		names = append(names, fmt.Sprintf("%s\n(%d)", strings.TrimPrefix(b.Name, "plies "), b.Positions))
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.5, float64(len(names))-0.5 // room for the names at both ends
	canvas := vgsvg.New(width, height)
	p.Draw(draw.New(canvas))
	_, err := canvas.WriteTo(w)
	return err
}

// add draws one curve with its error bars.
func add(p *plot.Plot, name string, c color.Color, points []point) error {
	if len(points) == 0 {
		return nil
	}
	xys, errs := make(plotter.XYs, len(points)), make(plotter.YErrors, len(points))
	for i, pt := range points {
		xys[i] = plotter.XY{X: pt.x, Y: 100 * pt.rate.Value}
		errs[i].Low, errs[i].High = 100*(pt.rate.Value-pt.rate.Low), 100*(pt.rate.High-pt.rate.Value)
	}
	line, dots, bars, err := withErrors(xys, errs)
	if err != nil {
		return err
	}
	line.Color, dots.Color, bars.Color = c, c, c
	line.Width, bars.Width = vg.Points(1.5), vg.Points(0.7)
	dots.Shape, dots.Radius = draw.CircleGlyph{}, vg.Points(2.5)
	p.Add(line, dots, bars)
	p.Legend.Add(name, line, dots)
	return nil
}

// withErrors returns a curve through points with error bars.
func withErrors(xys plotter.XYs, errs plotter.YErrors) (*plotter.Line, *plotter.Scatter, *plotter.YErrorBars, error) {
	line, dots, err := plotter.NewLinePoints(xys)
	if err != nil {
		return nil, nil, nil, err
	}
	bars, err := plotter.NewYErrorBars(struct {
		plotter.XYs
		plotter.YErrors
	}{xys, errs})
	return line, dots, bars, err
}
