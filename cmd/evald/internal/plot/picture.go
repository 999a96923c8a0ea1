// Package plot draws the program's curves and tables as SVG.
package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
)

// picture is an SVG under construction.
type picture struct{ bytes.Buffer }

// begin begins an SVG of a size in pixels.
func (p *picture) begin(width, height int) {
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="Liberation Sans, Arial, Helvetica, sans-serif" font-size="13" fill="#222">`, width, height, width, height)
	p.printf(`<rect width="%d" height="%d" fill="white"/>`, width, height)
}

// end ends the SVG and writes it.
func (p *picture) end(w io.Writer) error {
	p.printf("</svg>\n")
	_, err := w.Write(p.Bytes())
	return err
}

func (p *picture) printf(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// text writes text with the given attributes.
func (p *picture) text(x, y int, attributes, what string) {
	var escaped bytes.Buffer
	_ = xml.EscapeText(&escaped, []byte(what)) // writing to a buffer cannot fail
	p.printf(`<text x="%d" y="%d" %s>%s</text>`, x, y, attributes, escaped.String())
}

// line draws a straight line with the given attributes.
func (p *picture) line(x1, y1, x2, y2 float64, attributes string) {
	p.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`, x1, y1, x2, y2, attributes)
}
