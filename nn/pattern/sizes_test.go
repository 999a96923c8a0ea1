package pattern

import (
	"bytes"
	"encoding/csv"
	"flag"
	"image/color"
	"os"
	"strconv"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

var update = flag.Bool("update", false, "draw sizes.svg anew")

// sizes.svg is the picture of what was measured, sizes.csv: LOG.md says how.
func TestSizesPicture(t *testing.T) {
	file, err := os.ReadFile("sizes.csv")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(file)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	drawn := drawSizes(t, rows)
	if *update {
		if err := os.WriteFile("sizes.svg", drawn, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := os.ReadFile("sizes.svg"); err != nil || !bytes.Equal(kept, drawn) {
		t.Errorf("sizes.svg is not the picture of sizes.csv: draw it anew by go test ./nn/pattern -run Sizes -update (%v)", err)
	}
}

// drawSizes draws a curve for each column of accuracies, by positions a second, as SVG. The colours are those of package plot.
func drawSizes(t *testing.T, rows [][]string) []byte {
	p := plot.New()
	p.Title.Text = "Good moves by speed on one core; numbers are lanes"
	p.Title.Padding = 3 * vg.Millimeter
	p.X.Label.Text = "positions a second, without a search"
	p.Y.Label.Text = "% of positions"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.X.Min, p.X.Max = 1e4, 4e7
	p.Y.Min, p.Y.Max = 90, 100
	p.Add(plotter.NewGrid())
	p.Legend.Left, p.Legend.Padding = true, 2*vg.Millimeter
	for i, c := range []color.RGBA{{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}} {
		var points plotter.XYs
		var names []string
		for _, row := range rows[1:] {
			if row[2+i] == "" {
				continue
			}
			points = append(points, plotter.XY{X: number(t, row[1]), Y: number(t, row[2+i])})
			names = append(names, row[0])
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			t.Fatal(err)
		}
		line.Color, dots.Color = c, c
		line.Width, dots.Shape, dots.Radius = vg.Points(1.5), draw.CircleGlyph{}, vg.Points(2.5)
		p.Add(line, dots)
		p.Legend.Add(rows[0][2+i], line, dots)
		if i > 0 {
			continue
		}
		labels, err := plotter.NewLabels(plotter.XYLabels{XYs: points, Labels: names})
		if err != nil {
			t.Fatal(err)
		}
		for k := range labels.TextStyle {
			labels.TextStyle[k].XAlign, labels.TextStyle[k].YAlign = draw.XLeft, draw.YTop
		}
		labels.Offset = vg.Point{X: vg.Millimeter}
		p.Add(labels)
	}
	canvas := vgsvg.New(7*vg.Inch, 4.2*vg.Inch)
	p.Draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func number(t *testing.T, s string) float64 {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}
