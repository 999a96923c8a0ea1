package plot

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/evald/evald/engine/score"
)

// The colours of curves. People with colour blindness can tell them apart (after Okabe and Ito).
var colours = []color.RGBA{{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}}

// chart is a diagram of curves. The axes cover all points, and reach to their own bounds if those are farther apart.
type chart struct {
	title     []string // lines above the diagram
	x, y      axis
	top, left bool // the corner of the legend; bottom right without them
	curves    []curve
}

// axis is one axis of a chart.
type axis struct {
	label    string
	min, max float64 // both 0: the bounds of the points
	ticks    []tick  // nil: at round numbers
}

// tick is a marked place of an axis. Its label may have two lines.
type tick struct {
	at     float64
	labels []string
}

// curve is a row of points, joined by a line unless it has only dots.
type curve struct {
	name   string
	colour color.RGBA
	points []point
	dots   dots
}

// dots says how the points of a curve are drawn.
type dots int

const (
	noDots   dots = iota // a line
	fullDots             // a line with dots
	rings                // a line with rings
	onlyDots             // dots without a line
)

// point is a point of a curve with its interval, which is empty if low and high are y.
type point struct{ x, y, low, high float64 }

// percent is a rate with its interval, at a position of the x axis.
func percent(x float64, rate score.Mean) point {
	return point{x, 100 * rate.Value, 100 * rate.Low, 100 * rate.High}
}

// exact is a value without an interval.
func exact(x, y float64) point { return point{x, y, y, y} }

// Sizes in pixels.
const (
	chartWidth, chartHeight = 680, 370
	leftOf, rightOf         = 70, 24 // beside the frame
	above, below            = 16, 58 // over the frame, where each line of a title adds lineHeight, and under it
	lineHeight              = 18
)

// draw draws charts below each other.
func draw(w io.Writer, charts ...chart) error {
	height := 0
	for _, c := range charts {
		height += c.height()
	}
	var p picture
	p.printf(`<?xml version="1.0" encoding="UTF-8"?>`)
	p.begin(chartWidth, height)
	height = 0
	for _, c := range charts {
		c.draw(&p, height)
		height += c.height()
	}
	return p.end(w)
}

func (c *chart) height() int { return chartHeight + lineHeight*len(c.title) }

// draw draws a chart, top pixels below the picture's edge.
func (c *chart) draw(p *picture, top int) {
	for i, line := range c.title {
		p.text(chartWidth/2, top+lineHeight*(i+1), `font-size="15" text-anchor="middle"`, line)
	}
	left, right, bottom := leftOf, chartWidth-rightOf, top+c.height()-below
	top += above + lineHeight*len(c.title)
	var xs, ys []float64
	for _, curve := range c.curves {
		for _, at := range curve.points {
			xs, ys = append(xs, at.x), append(ys, at.low, at.high)
		}
	}
	c.x.cover(xs)
	c.y.cover(ys)
	x := func(v float64) float64 { return float64(left) + float64(right-left)*c.x.place(v) }
	y := func(v float64) float64 { return float64(bottom) - float64(bottom-top)*c.y.place(v) }

	for _, t := range c.x.marks(10) {
		p.line(x(t.at), float64(top), x(t.at), float64(bottom), `stroke="#ddd"`)
		for i, label := range t.labels {
			p.text(int(x(t.at)), bottom+lineHeight*(i+1), `text-anchor="middle"`, label)
		}
	}
	for _, t := range c.y.marks(6) {
		p.line(float64(left), y(t.at), float64(right), y(t.at), `stroke="#ddd"`)
		p.text(left-8, int(y(t.at))+5, `text-anchor="end"`, t.labels[0])
	}
	p.printf(`<path d="M%d %dV%dH%d" fill="none" stroke="#222"/>`, left, top, bottom, right)
	p.text((left+right)/2, bottom+below-8, `text-anchor="middle"`, c.x.label)
	p.printf(`<g transform="translate(18 %d) rotate(-90)">`, (top+bottom)/2)
	p.text(0, 0, `text-anchor="middle"`, c.y.label)
	p.printf(`</g>`)

	for _, curve := range c.curves {
		curve.draw(p, x, y)
	}
	c.legend(p, left, right, top, bottom)
}

// draw draws a curve. x and y give the places of values in pixels.
func (c curve) draw(p *picture, x, y func(float64) float64) {
	colour := hex(c.colour)
	if c.dots != onlyDots {
		p.WriteString(`<polyline fill="none" stroke-width="1.6" stroke="` + colour + `" points="`)
		for _, at := range c.points {
			fmt.Fprintf(p, "%.1f,%.1f ", x(at.x), y(at.y))
		}
		p.printf(`"/>`)
	}
	for _, at := range c.points {
		if at.low < at.high {
			p.line(x(at.x), y(at.low), x(at.x), y(at.high), `stroke="`+colour+`"`)
		}
		c.dot(p, x(at.x), y(at.y))
	}
}

// dot draws a point of the curve.
func (c curve) dot(p *picture, x, y float64) {
	fill := hex(c.colour)
	switch c.dots {
	case noDots:
		return
	case rings:
		fill = "white"
	}
	p.printf(`<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s" stroke="%s"/>`, x, y, fill, hex(c.colour))
}

// legend draws the names of the curves into a corner of the frame.
func (c *chart) legend(p *picture, left, right, top, bottom int) {
	const sample = 26 // pixels of a curve
	text, anchor, from := right-sample-16, "end", right-sample-8
	if c.left {
		text, anchor, from = left+sample+16, "start", left+8
	}
	for i, curve := range c.curves {
		row := top + lineHeight*(i+1)
		if !c.top {
			row = bottom - lineHeight*(len(c.curves)-i) + lineHeight/2
		}
		p.text(text, row+5, `text-anchor="`+anchor+`"`, curve.name)
		x, y := float64(from), float64(row)
		if curve.dots != onlyDots {
			p.line(x, y, x+sample, y, `stroke-width="1.6" stroke="`+hex(curve.colour)+`"`)
		}
		curve.dot(p, x+sample/2, y)
	}
}

// cover widens an axis so that it covers all values, and is not empty.
func (a *axis) cover(values []float64) {
	if a.min < a.max {
		values = append(values, a.min, a.max)
	}
	if len(values) > 0 {
		a.min, a.max = slices.Min(values), slices.Max(values)
	}
	if a.min == a.max {
		a.min, a.max = a.min-1, a.max+1
	}
}

// place is the place of a value between the ends of the axis, 0 to 1.
func (a *axis) place(v float64) float64 { return (v - a.min) / (a.max - a.min) }

// marks are the axis's ticks, or at most most at round numbers.
func (a *axis) marks(most int) []tick {
	if a.ticks != nil {
		return a.ticks
	}
	span := a.max - a.min
	step := math.Pow(10, math.Floor(math.Log10(span/float64(most))))
	for _, factor := range []float64{1, 2, 5, 10} {
		if span/(factor*step) < float64(most) {
			step *= factor
			break
		}
	}
	decimals := max(0, int(-math.Floor(math.Log10(step)+1e-9)))
	var ticks []tick
	for n := math.Ceil(a.min/step - 1e-9); n*step <= a.max+1e-9*step; n++ {
		ticks = append(ticks, tick{n * step, []string{strconv.FormatFloat(n*step+0, 'f', decimals, 64)}})
	}
	return ticks
}

// hex is a colour as SVG writes it.
func hex(c color.RGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }
