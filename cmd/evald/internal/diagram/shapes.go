package diagram

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// shape is one part of a picture, in the units of the SVG.
type shape interface {
	svg(out *bytes.Buffer)
	// distance returns the distance of a point from the shape's edge in units, negative inside. Within half a pixel of the edge it
	// determines how much of a pixel is covered.
	distance(x, y float64) float64
	bounds() (x0, y0, x1, y1 float64)
	paint() uint32 // 0xrrggbb
}

type (
	// rectangle has round corners.
	rectangle struct {
		x, y, width, height, radius float64
		colour                      uint32
	}
	disc struct {
		x, y, radius float64
		colour       uint32
	}
	// ring is the outline of a circle; radius is the radius of its middle.
	ring struct {
		x, y, radius, width float64
		colour              uint32
	}
	// stroke is a line through points, with round ends.
	stroke struct {
		points []point
		width  float64
		colour uint32
	}
	point struct{ x, y float64 }
)

func (r rectangle) paint() uint32 { return r.colour }
func (d disc) paint() uint32      { return d.colour }
func (r ring) paint() uint32      { return r.colour }
func (s stroke) paint() uint32    { return s.colour }

func (r rectangle) bounds() (x0, y0, x1, y1 float64) { return r.x, r.y, r.x + r.width, r.y + r.height }

func (d disc) bounds() (x0, y0, x1, y1 float64) {
	return d.x - d.radius, d.y - d.radius, d.x + d.radius, d.y + d.radius
}

func (r ring) bounds() (x0, y0, x1, y1 float64) {
	return disc{r.x, r.y, r.radius + r.width/2, r.colour}.bounds()
}

func (s stroke) bounds() (x0, y0, x1, y1 float64) {
	x0, y0, x1, y1 = math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, p := range s.points {
		x0, y0, x1, y1 = min(x0, p.x-s.width/2), min(y0, p.y-s.width/2), max(x1, p.x+s.width/2), max(y1, p.y+s.width/2)
	}
	return x0, y0, x1, y1
}

func (r rectangle) distance(x, y float64) float64 {
	// dx and dy are the point's distances beyond the inner rectangle, whose corners are the centres of the round corners.
	dx := math.Abs(x-r.x-r.width/2) - r.width/2 + r.radius
	dy := math.Abs(y-r.y-r.height/2) - r.height/2 + r.radius
	if dx <= 0 || dy <= 0 {
		return max(dx, dy) - r.radius
	}
	return length(dx, dy) - r.radius
}

func (d disc) distance(x, y float64) float64 { return length(x-d.x, y-d.y) - d.radius }

func (r ring) distance(x, y float64) float64 {
	return math.Abs(length(x-r.x, y-r.y)-r.radius) - r.width/2
}

func (s stroke) distance(x, y float64) float64 {
	nearest := math.Inf(1)
	from := s.points[0]
	for _, to := range s.points {
		dx, dy := to.x-from.x, to.y-from.y
		along := 0.0 // position of the nearest point on the line from..to, 0..1
		if square := dx*dx + dy*dy; square > 0 {
			along = min(max(((x-from.x)*dx+(y-from.y)*dy)/square, 0), 1)
		}
		nearest = min(nearest, length(x-from.x-along*dx, y-from.y-along*dy))
		from = to
	}
	return nearest - s.width/2
}

func (r rectangle) svg(out *bytes.Buffer) {
	fmt.Fprintf(out, `<rect x="%s" y="%s" width="%s" height="%s" rx="%s" fill="#%06x"/>`, decimal(r.x), decimal(r.y), decimal(r.width), decimal(r.height), decimal(r.radius), r.colour)
}

func (d disc) svg(out *bytes.Buffer) {
	fmt.Fprintf(out, `<circle cx="%s" cy="%s" r="%s" fill="#%06x"/>`, decimal(d.x), decimal(d.y), decimal(d.radius), d.colour)
}

func (r ring) svg(out *bytes.Buffer) {
	fmt.Fprintf(out, `<circle cx="%s" cy="%s" r="%s" fill="none" stroke="#%06x" stroke-width="%s"/>`, decimal(r.x), decimal(r.y), decimal(r.radius), r.colour, decimal(r.width))
}

func (s stroke) svg(out *bytes.Buffer) {
	fmt.Fprintf(out, `<path d="`)
	for i, p := range s.points {
		out.WriteByte("ML"[min(i, 1)])
		out.WriteString(decimal(p.x) + " " + decimal(p.y))
	}
	if len(s.points) == 1 || s.points[0] == s.points[len(s.points)-1] && len(s.points) == 2 {
		out.WriteString("h0") // a dot
	}
	fmt.Fprintf(out, `" fill="none" stroke="#%06x" stroke-width="%s" stroke-linecap="round" stroke-linejoin="round"/>`, s.colour, decimal(s.width))
}

// length is math.Hypot for numbers that cannot overflow, several times as fast.
func length(x, y float64) float64 { return math.Sqrt(x*x + y*y) }

// decimal writes a number with two decimals at most.
func decimal(x float64) string { return strconv.FormatFloat(math.Round(100*x)/100, 'f', -1, 64) }
