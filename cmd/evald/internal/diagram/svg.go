package diagram

import (
	"bytes"
	"encoding/xml"
	"fmt"
)

// SVG returns the picture as an SVG with the title and the description. Its longer side is size, MinSize to MaxSize. The error names the
// limits of size.
func (d *Diagram) SVG(size int) ([]byte, error) {
	_, width, height, err := d.pixels(size)
	if err != nil {
		return nil, err
	}
	w, h := d.size()
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %s %s" role="img" aria-labelledby="title desc">`+"\n", width, height, decimal(w), decimal(h))
	for _, e := range []struct{ name, text string }{{"title", d.Title()}, {"desc", d.Description()}} {
		fmt.Fprintf(&out, `<%s id="%s">`, e.name, e.name)
		_ = xml.EscapeText(&out, []byte(e.text)) // writing to a buffer cannot fail
		fmt.Fprintf(&out, "</%s>\n", e.name)
	}
	for _, s := range d.shapes() {
		s.svg(&out)
		out.WriteByte('\n')
	}
	out.WriteString("</svg>\n")
	return out.Bytes(), nil
}
