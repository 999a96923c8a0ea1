package diagram

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
)

// PNG returns the picture as a PNG whose longer side has size pixels, MinSize to MaxSize. The corners outside the board are
// transparent. The error names the limits of size.
func (d *Diagram) PNG(size int) ([]byte, error) {
	m, err := d.Image(size)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = png.Encode(&out, m)
	return out.Bytes(), err
}

// Image draws the picture with size pixels on its longer side.
func (d *Diagram) Image(size int) (*image.NRGBA, error) {
	scale, width, height, err := d.pixels(size)
	if err != nil {
		return nil, err
	}
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for _, s := range d.shapes() {
		solid := over(color.NRGBA{}, s.paint(), 1)
		x0, y0, x1, y1 := s.bounds()
		for py := max(0, int(y0*scale)-1); py < min(height, int(math.Ceil(y1*scale))+1); py++ {
			for px := max(0, int(x0*scale)-1); px < min(width, int(math.Ceil(x1*scale))+1); px++ {
				// A pixel whose centre is half a pixel or more inside the shape is covered, half a pixel or more outside is not, else in part.
				away := s.distance((float64(px)+0.5)/scale, (float64(py)+0.5)/scale) * scale
				if cover := min(max(0.5-away, 0), 1); cover == 1 {
					m.SetNRGBA(px, py, solid)
				} else if cover > 0 {
					m.SetNRGBA(px, py, over(m.NRGBAAt(px, py), s.paint(), cover))
				}
			}
		}
	}
	return m, nil
}

// over returns the colour of a pixel after a colour, 0xrrggbb, has covered a part of it.
func over(below color.NRGBA, paint uint32, cover float64) color.NRGBA {
	under := float64(below.A) / 0xff * (1 - cover) // the share of the colour below in the result
	alpha := cover + under
	mix := func(top uint32, under8 uint8) uint8 {
		return uint8((float64(top&0xff)*cover+float64(under8)*under)/alpha + 0.5)
	}
	return color.NRGBA{mix(paint>>16, below.R), mix(paint>>8, below.G), mix(paint, below.B), uint8(alpha*0xff + 0.5)}
}
