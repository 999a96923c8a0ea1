package net

import (
	"fmt"

	"gorgonia.org/tensor"

	"github.com/evald/evald/engine/game"
)

// The planes, in order. The package documentation defines them.
const (
	planeOwn = iota
	planeOther
	planePlayable
	planeParity
	planeBoard
)

// PlanesSize is the number of floats in the planes of n positions: n * 5 * H * W.
func PlanesSize(board *game.Board, n int) int { return n * PlaneCount * board.Cells() }

// Planes writes the planes of every position into dst [N,5,H,W], N = len(pos), H = Rows from the top, W = Columns. All
// values are 0 or 1, except InARow/4 in the board plane. It panics if dst does not have PlanesSize.
func Planes(board *game.Board, pos []game.Position, dst []float32) {
	if want := PlanesSize(board, len(pos)); len(dst) != want {
		panic(fmt.Sprintf("net: planes of %d positions need %d values, have %d", len(pos), want, len(dst)))
	}
	h, w, cells := board.Rows(), board.Columns(), board.Cells()
	for _, p := range pos {
		plane := func(i int) []float32 { return dst[i*cells : (i+1)*cells] }
		setCells(board, p.Own, plane(planeOwn))
		setCells(board, p.Other(), plane(planeOther))
		setCells(board, board.Legal(p), plane(planePlayable))
		parity, plies := plane(planeParity), p.Plies()
		for top := range h {
			fromBottom := h - 1 - top
			odd := (fromBottom + cells - h + plies) & 1
			fill(parity[top*w:(top+1)*w], float32(1-odd))
		}
		fill(plane(planeBoard), float32(board.InARow())/4)
		dst = dst[PlaneCount*cells:]
	}
}

// NewPlanes returns the planes of one or more positions as a new tensor [N,5,H,W].
func NewPlanes(board *game.Board, pos []game.Position) *tensor.Dense {
	values := make([]float32, PlanesSize(board, len(pos)))
	Planes(board, pos, values)
	return newTensor(values, len(pos), PlaneCount, board.Rows(), board.Columns())
}

// setCells writes 1 in the cells of the set and 0 elsewhere. plane is [H,W] with the top row first; the set's bits are column by column
// from the bottom.
func setCells(board *game.Board, set game.Bits, plane []float32) {
	clear(plane)
	for ; !set.IsZero(); set = set.WithoutFirst() {
		plane[board.Flat(set.First())] = 1
	}
}

func fill(dst []float32, value float32) {
	for i := range dst {
		dst[i] = value
	}
}
