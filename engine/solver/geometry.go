package solver

import (
	"math/bits"

	"github.com/evald/evald/engine/game"
)

// geometry is a board of at most 64 bits prepared for the fast search: masks, and data on each cell for the static bounds. It is immutable.
//
// A column's cells are paired from the top: (top, second), (third, fourth) and so on. top holds the upper cell of each pair, low the lower
// one; the single cell at the foot of a column of odd height belongs to top.
type geometry struct {
	board   *game.Board
	columns uint
	stride  uint // rows + 1: the distance between columns in bits
	cells   int
	four    bool // InARow is 4, and all shifts of the test for it are below 64

	full, bottom uint64
	top, low     uint64

	below  [64]uint64 // cells under this one in its column
	column [64]uint64 // the whole column of this cell
	above  [64]int8   // number of cells above this one
	centre [64]int8   // number of lines through this cell, for ordering
}

func newGeometry(b *game.Board) *geometry {
	g := &geometry{
		board: b, columns: uint(b.Columns()),
		stride: uint(b.Rows() + 1), cells: b.Cells(), full: b.Full().Lo,
	}
	g.four = b.InARow() == 4 && 3*(g.stride+1) < 64
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
	return g
}

// landing returns the cells in which a stone can land now.
func (g *geometry) landing(all uint64) uint64 { return (all + g.bottom) & g.full }

// threats returns the cells that complete a line together with the stones s. It includes occupied cells; the caller masks them out.
func (g *geometry) threats(s uint64) uint64 {
	if g.four {
		return game.CompletesFour(s, g.stride)
	}
	return g.board.Completes(game.Bits{Lo: s}).Lo
}

// won reports whether the stones s contain a line.
func (g *geometry) won(s uint64) bool {
	if !g.four {
		return g.board.Won(game.Bits{Lo: s})
	}
	d := g.stride
	a, b, c, e := s&(s>>1), s&(s>>((d-1)&63)), s&(s>>(d&63)), s&(s>>((d+1)&63))
	return a&(a>>2)|b&(b>>(2*(d-1)&63))|c&(c>>(2*d&63))|e&(e>>(2*(d+1)&63)) != 0
}

// openLines rates the stones s for ordering: 10 for each line of four with two of them and two empty cells, and 2 for each with one and
// three.
func (g *geometry) openLines(s, empty uint64) (value int) {
	for _, d := range [4]uint{1, g.stride - 1, g.stride, g.stride + 1} {
		a, b := s^s>>(d&63), s&(s>>(d&63)) // one, or both, of a cell and its neighbour
		p, q := a>>(2*d&63), b>>(2*d&63)   // the same for the next two cells
		open := s | empty
		open &= open >> (d & 63)
		open &= open >> (2 * d & 63)
		value += 10*bits.OnesCount64(open&(a&p|(b^q)&^(a|p))) + 2*bits.OnesCount64(open&(a^p)&^(b|q))
	}
	return value
}
