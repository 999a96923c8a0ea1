package plot

import (
	"fmt"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/evald/evald/nn/train"
)

// Training draws a run's losses over its steps, with its accuracies below.
func Training(w io.Writer, title string, metrics []train.Metrics) error {
	if len(metrics) == 0 {
		return fmt.Errorf("plot: the run has no metrics yet")
	}
	loss, accuracy := plot.New(), plot.New()
	loss.Title.Text, loss.Title.Padding = title, 3*vg.Millimeter
	loss.Y.Label.Text, accuracy.Y.Label.Text, accuracy.X.Label.Text = "loss, nats", "accuracy, %", "steps"
	accuracy.Legend.Top = false
	loss.Legend.Top = true
	for _, p := range []*plot.Plot{loss, accuracy} {
		p.Add(plotter.NewGrid())
		p.Legend.Padding = 2 * vg.Millimeter
		p.Legend.XOffs = -4 * vg.Millimeter
		p.X.Min, p.X.Max = 0, float64(metrics[len(metrics)-1].Step)
	}
	for i, curve := range metrics[0].Curves() {
		if curve.Metric == nil {
			continue
		}
		var losses, accuracies plotter.XYs
		for _, m := range metrics {
			if c := m.Curves()[i]; c.Metric != nil {
				losses = append(losses, plotter.XY{X: float64(m.Step), Y: c.Loss})
				accuracies = append(accuracies, plotter.XY{X: float64(m.Step), Y: 100 * c.Accuracy})
			}
		}
		for _, part := range []struct {
			plot   *plot.Plot
			points plotter.XYs
		}{{loss, losses}, {accuracy, accuracies}} {
			line, err := plotter.NewLine(part.points)
			if err != nil {
				return err
			}
			line.Color, line.Width = colours[i], vg.Points(1.2)
			part.plot.Add(line)
			part.plot.Legend.Add(curve.Name, line)
		}
	}
	canvas := vgsvg.New(width, 1.6*height)
	tiles := draw.Tiles{Rows: 2, Cols: 1, PadY: 4 * vg.Millimeter, PadRight: 4 * vg.Millimeter}
	plots := [][]*plot.Plot{{loss}, {accuracy}}
	for i, c := range plot.Align(plots, tiles, draw.New(canvas)) {
		plots[i][0].Draw(c[0])
	}
	_, err := canvas.WriteTo(w)
	return err
}
