package solver

import (
	"math/bits"

	"github.com/evald/evald/engine/game"
)

// geometry is a board of at most 64 bits prepared for the fast search: its masks, and what the static bounds need to know
// about each cell. It is immutable.
//
// A column's cells are paired from the top: (top, second), (third, fourth) and so on. top holds the upper cell of each
// pair, low the lower one; a column of odd height leaves a single cell at its foot that belongs to top.
type geometry struct {
	rows, columns, inARow uint
	stride                uint // rows + 1: the distance between columns in bits
	cells                 int
	four                  bool // four in a row, and every shift that this needs is below 64

	full, bottom uint64
	top, low     uint64

	below  [64]uint64 // cells under this one in its column
	column [64]uint64 // the whole column of this cell
	above  [64]int8   // number of cells above this one
	centre [64]int8   // number of lines through this cell, for ordering

	swaps     []swap // see mirror
	mirrorPad uint
}

// swap is one step of the column mirror: x>>shift&mask | x&mask<<shift.
type swap struct {
	shift uint
	mask  uint64
}

func newGeometry(b *game.Board) *geometry {
	g := &geometry{
		rows: uint(b.Rows()), columns: uint(b.Columns()), inARow: uint(b.InARow()),
		stride: uint(b.Rows() + 1), cells: b.Cells(), full: b.Full().Lo,
	}
	g.four = g.inARow == 4 && 3*(g.stride+1) < 64
	for c := range b.Columns() {
		g.bottom |= 1 << b.Index(c, 0)
		var below uint64
		for row := range b.Rows() {
			i := b.Index(c, row)
			over := b.Rows() - 1 - row
			g.above[i] = int8(over)
			g.below[i] = below
			below |= 1 << i
			if over%2 == 0 {
				g.top |= 1 << i
			} else {
				g.low |= 1 << i
			}
		}
		for row := range b.Rows() {
			g.column[b.Index(c, row)] = below
		}
	}
	for _, line := range b.Lines() {
		for l := line.Lo; l != 0; l &= l - 1 {
			g.centre[bits.TrailingZeros64(l)]++
		}
	}
	g.planMirror()
	return g
}

// planMirror prepares the mirror of the columns: it swaps halves, then quarters and so on, of a power-of-two number of
// columns. If that many columns do not fit in 64 bits, swaps stays empty and there is no mirror.
func (g *geometry) planMirror() {
	slots := uint(1) << bits.Len(g.columns-1)
	if slots*g.stride > 64 {
		return
	}
	g.mirrorPad = (slots - g.columns) * g.stride
	for half := slots / 2; half >= 1; half /= 2 {
		s := swap{shift: half * g.stride}
		for c := range slots {
			if c&half == 0 {
				s.mask |= (1<<g.stride - 1) << (c * g.stride)
			}
		}
		g.swaps = append(g.swaps, s)
	}
}

// mirror reverses the columns of a word in which nothing crosses from one column into the next: stones, or a key.
func (g *geometry) mirror(x uint64) uint64 {
	if g.stride == 7 && g.columns == 7 {
		x = x>>28&0xfffffff | x&0xfffffff<<28
		x = x>>14&0x3fff0003fff | x&0x3fff0003fff<<14
		x = x>>7&0x1fc07f01fc07f | x&0x1fc07f01fc07f<<7
		return x >> 7
	}
	for _, s := range g.swaps {
		x = x>>(s.shift&63)&s.mask | x&s.mask<<(s.shift&63)
	}
	return x >> (g.mirrorPad & 63)
}

// hasMirror reports whether mirror works on this board and is not the identity.
func (g *geometry) hasMirror() bool { return g.columns > 1 && len(g.swaps) > 0 }

// landing returns the cells where a stone can land now.
func (g *geometry) landing(all uint64) uint64 { return (all + g.bottom) & g.full }

// threats returns the cells that complete a line together with the stones s. It includes cells that are taken; the caller
// masks them out.
func (g *geometry) threats(s uint64) uint64 {
	if !g.four {
		return g.threatsAny(s)
	}
	// Constant distances let the compiler shift by immediates. These shifts take most of the search's time.
	switch g.stride {
	case 7:
		return s<<1&(s<<2)&(s<<3) | along7(s) | along6(s) | along8(s)
	case 6:
		return s<<1&(s<<2)&(s<<3) | along6(s) | along5(s) | along7(s)
	}
	return s<<1&(s<<2)&(s<<3) | along(s, g.stride-1) | along(s, g.stride) | along(s, g.stride+1)
}

// along returns the cells that complete four in one direction; d is the distance between neighbours in it. Either the two
// cells before hold stones, and the third before or the first behind; or the two behind, and the third behind or the first
// before.
func along(s uint64, d uint) uint64 {
	before, behind := s<<(d&63), s>>(d&63)
	two := before & (s << (2 * d & 63))
	r := two & (s<<(3*d&63) | behind)
	two = behind & (s >> (2 * d & 63))
	return r | two&(s>>(3*d&63)|before)
}

func along5(s uint64) uint64 {
	before, behind := s<<5, s>>5
	return before&(s<<10)&(s<<15|behind) | behind&(s>>10)&(s>>15|before)
}

func along6(s uint64) uint64 {
	before, behind := s<<6, s>>6
	return before&(s<<12)&(s<<18|behind) | behind&(s>>12)&(s>>18|before)
}

func along7(s uint64) uint64 {
	before, behind := s<<7, s>>7
	return before&(s<<14)&(s<<21|behind) | behind&(s>>14)&(s>>21|before)
}

func along8(s uint64) uint64 {
	before, behind := s<<8, s>>8
	return before&(s<<16)&(s<<24|behind) | behind&(s>>16)&(s>>24|before)
}

// threatsAny is threats for any number in a row: j stones behind the cell and the other inARow-1-j before it.
func (g *geometry) threatsAny(s uint64) uint64 {
	var r uint64
	for _, d := range [4]uint{1, g.stride - 1, g.stride, g.stride + 1} {
		// before[j] has the cells whose j predecessors all hold stones. The loop below uses its last entry alone first, then
		// shorter ones while behind grows.
		var before [64]uint64
		before[0] = ^uint64(0)
		for j := uint(1); j < g.inARow; j++ {
			before[j&63] = before[(j-1)&63] & (s << (j * d))
		}
		behind := ^uint64(0)
		for j := uint(0); j < g.inARow; j++ {
			if j > 0 {
				behind &= s >> (j * d)
			}
			r |= before[(g.inARow-1-j)&63] & behind
		}
	}
	return r
}

// won reports whether the stones s contain a line.
func (g *geometry) won(s uint64) bool {
	if !g.four {
		return g.wonAny(s)
	}
	d := g.stride
	a, b, c, e := s&(s>>1), s&(s>>((d-1)&63)), s&(s>>(d&63)), s&(s>>((d+1)&63))
	return a&(a>>2)|b&(b>>(2*(d-1)&63))|c&(c>>(2*d&63))|e&(e>>(2*(d+1)&63)) != 0
}

func (g *geometry) wonAny(s uint64) bool {
	for _, d := range [4]uint{1, g.stride - 1, g.stride, g.stride + 1} {
		m := s
		for j := uint(1); j < g.inARow; j++ {
			m &= s >> (j * d)
		}
		if m != 0 {
			return true
		}
	}
	return false
}
