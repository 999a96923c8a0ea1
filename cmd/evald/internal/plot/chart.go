package plot

import (
	"cmp"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/evald/evald/engine/score"
)

// colours are the colours of curves, which people with colour blindness can distinguish (after Okabe and Ito).
var colours = []color.RGBA{{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}}

// chart is a diagram of curves. The axes cover all points, and at least the range from their min to their max.
type chart struct {
	title  []string // lines above the diagram
	x, y   axis
	curves []curve
}

// axis is one axis of a chart.
type axis struct {
	label    string
	min, max float64 // both 0: the range of the points
	ticks    []tick  // nil: ticks at round numbers
}

// tick is a mark on an axis with a label of one or two lines.
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

// percent returns the point of a rate with its interval.
func percent(x float64, rate score.Mean) point {
	return point{x, 100 * rate.Value, 100 * rate.Low, 100 * rate.High}
}

// exact returns a point without an interval.
func exact(x, y float64) point { return point{x, y, y, y} }

// Sizes in pixels.
const (
	frameWidth, frameHeight = 580, 280
	leftOf, above, below    = 70, 16, 14 // margins left of, above and below the frame, where each line of text adds lineHeight
	lineHeight              = 18
	nameAt, rightOf         = 40, 16 // from the frame to the names of the curves, and right of the longest name
)

// draw draws charts below each other.
func draw(w io.Writer, charts ...chart) error {
	height, longest := 0, 0
	for _, c := range charts {
		height += c.height()
		for _, curve := range c.curves {
			longest = max(longest, utf8.RuneCountInString(curve.name))
		}
	}
	var p picture
	p.printf(`<?xml version="1.0" encoding="UTF-8"?>`)
	p.begin(leftOf+frameWidth+nameAt+int(charWidth*float64(longest))+rightOf, height)
	top := 0
	for _, c := range charts {
		c.draw(&p, top)
		top += c.height()
	}
	return p.end(w)
}

func (c *chart) height() int { return c.over() + frameHeight + c.under() }

// over and under return the space above and below the frame, in pixels.
func (c *chart) over() int { return above + lineHeight*len(c.title) }

func (c *chart) under() int {
	lines := 1
	for _, t := range c.x.ticks {
		lines = max(lines, len(t.labels))
	}
	if c.x.label != "" {
		lines++
	}
	return below + lineHeight*lines
}

// draw draws a chart top pixels below the upper edge of the picture.
func (c *chart) draw(p *picture, top int) {
	left, right := leftOf, leftOf+frameWidth
	for i, line := range c.title {
		p.text((left+right)/2, top+lineHeight*(i+1), `font-size="15" text-anchor="middle"`, line)
	}
	top += c.over()
	bottom := top + frameHeight
	var xs, ys []float64
	for _, curve := range c.curves {
		for _, at := range curve.points {
			xs, ys = append(xs, at.x), append(ys, at.low, at.high)
		}
	}
	c.x.cover(xs)
	if len(ys) > 0 { // leave space for the dots of the extreme points
		room := 0.03 * (slices.Max(ys) - slices.Min(ys))
		ys = append(ys, slices.Min(ys)-room, slices.Max(ys)+room)
	}
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
	p.text((left+right)/2, bottom+c.under()-8, `text-anchor="middle"`, c.x.label)
	p.printf(`<g transform="translate(18 %d) rotate(-90)">`, (top+bottom)/2)
	p.text(0, 0, `text-anchor="middle"`, c.y.label)
	p.printf(`</g>`)

	for _, curve := range c.curves {
		curve.draw(p, x, y)
	}
	c.names(p, right, bottom, y)
}

// draw draws a curve. x and y convert values to pixels.
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

// names draws the names of the curves to the right of the frame, each as near to the end of its curve as the other names allow.
func (c *chart) names(p *picture, right, bottom int, y func(float64) float64) {
	ends := func(c curve) float64 { return y(c.points[len(c.points)-1].y) }
	curves := slices.SortedStableFunc(slices.Values(c.curves), func(a, b curve) int { return cmp.Compare(ends(a), ends(b)) })
	rows := make([]float64, len(curves))
	for i, curve := range curves {
		rows[i] = ends(curve)
		if i > 0 {
			rows[i] = max(rows[i], rows[i-1]+lineHeight)
		}
	}
	last := float64(bottom)
	for i, curve := range slices.Backward(curves) {
		rows[i] = min(rows[i], last)
		last = rows[i] - lineHeight
		from, to := float64(right+8), float64(right+nameAt-8)
		if curve.dots != onlyDots {
			p.line(from, rows[i], to, rows[i], `stroke-width="1.6" stroke="`+hex(curve.colour)+`"`)
		}
		curve.dot(p, (from+to)/2, rows[i])
		p.text(right+nameAt, int(rows[i])+5, ``, curve.name)
	}
}

// cover widens an axis so that it covers all values and is not empty.
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

// place returns the position of a value between the ends of the axis, 0 to 1.
func (a *axis) place(v float64) float64 { return (v - a.min) / (a.max - a.min) }

// marks returns the axis's ticks, or else at most most ticks at round numbers.
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

func hex(c color.RGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }
