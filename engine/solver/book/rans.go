package book

// Symbols are coded by rANS, a range variant of asymmetric numeral systems (Duda, 2013, https://arxiv.org/abs/1311.2540): with frequencies
// f[s] that sum to scale, a symbol takes log2(scale/f[s]) bits. The state is one number x, which the encoder begins with 0. Encoding
// appends s to it:
//
//	x = x/f[s]*scale + x%f[s] + sum(f[:s])
//
// and decoding undoes that, so symbols are encoded from the last to the first. To keep x small, its lowest bytes move to the text while it is
// large, and back while it is small. Thus a text may be empty, and no text needs more than scaleBits bits per symbol and three bytes.
const (
	scaleBits = 12
	scale     = 1 << scaleBits
	smallest  = 1 << 16 // the decoder reads a byte while x is less
)

// model has the sums of frequencies of the symbols before each symbol, and at the end scale; or only zeros if it is not in use.
type model []uint16

// newModel returns frequencies that are proportional to counts, as far as they are whole numbers, and at least 1 for each count that is.
func newModel(counts []int) model {
	total, left := 0, scale
	for _, c := range counts {
		total += c
	}
	f, most := make([]int, len(counts)), 0
	for s, c := range counts {
		if c > 0 {
			f[s] = max(1, c*scale/total)
		}
		left -= f[s]
		if f[s] > f[most] {
			most = s
		}
	}
	m := make(model, len(counts)+1)
	if total == 0 {
		return m
	}
	f[most] += left // the rest of rounding
	for s := range f {
		m[s+1] = m[s] + uint16(f[s])
	}
	return m
}

// coded is a symbol to encode. The frequency of the symbol must not be 0.
type coded struct {
	model  model
	symbol int
}

func encode(symbols []coded) []byte {
	var x uint32
	var text []byte // from its end
	for i := len(symbols) - 1; i >= 0; i-- {
		m, s := symbols[i].model, symbols[i].symbol
		from, f := uint32(m[s]), uint32(m[s+1]-m[s])
		for x >= f*(smallest>>scaleBits)<<8 {
			text = append(text, byte(x))
			x >>= 8
		}
		x = x/f<<scaleBits + x%f + from
	}
	for ; x > 0; x >>= 8 {
		text = append(text, byte(x))
	}
	for i, j := 0, len(text)-1; i < j; i, j = i+1, j-1 {
		text[i], text[j] = text[j], text[i]
	}
	return text
}

// decoder decodes a text. Of other bytes it makes some symbols.
type decoder struct {
	x    uint32
	text []byte
}

// next decodes a symbol with the model that encoded it.
func (d *decoder) next(m model) int {
	for d.x < smallest && len(d.text) > 0 {
		d.x, d.text = d.x<<8|uint32(d.text[0]), d.text[1:]
	}
	at, s := uint16(d.x%scale), 0
	for s+2 < len(m) && m[s+1] <= at {
		s++
	}
	d.x = d.x>>scaleBits*uint32(m[s+1]-m[s]) + uint32(at-m[s])
	return s
}
