package book

import (
	"math/bits"
	"slices"

	"github.com/evald/evald/engine/game"
)

// numbering numbers the positions with a given number of stones, so that a file needs no keys. A slot is a pair of numbers:
//
//	shape      the index of the occupied cells, All, among those of canonical positions, in ascending order: 7,702 for 12 stones of 7x6
//	colouring  the index of the side to move's stones among the stones, as a mask of one bit for each stone from the lowest cell on, in
//	           ascending order of masks: C(12, 6) = 924
//
// A position and its mirror image have the same slot. In some slots no position of a game is: a side has a line, or no order of moves leads
// there, or, if a shape is its own mirror image, another slot has the mirror image.
type numbering struct {
	board  *game.Board
	stones int
	shapes []uint64
	masks  []uint16 // by colouring
	ranks  []uint16 // by mask: the inverse of masks
}

// mostPacked is the maximum number of stones of a numbering, because a mask has 16 bits. 7x6 has 143 million slots with 16 stones.
const mostPacked = 16

func newNumbering(b *game.Board, stones int) *numbering {
	n := &numbering{board: b, stones: stones, ranks: make([]uint16, 1<<stones)}
	var add func(all uint64, column, left int)
	add = func(all uint64, column, left int) {
		if column == b.Columns() {
			p := game.Position{All: game.Bits{Lo: all}}
			if _, mirrored := b.Canonical(p); left == 0 && !mirrored {
				n.shapes = append(n.shapes, all)
			}
			return
		}
		for height := range min(b.Rows(), left) + 1 {
			add(all|(1<<height-1)<<b.Index(column, 0), column+1, left-height)
		}
	}
	add(0, 0, stones)
	slices.Sort(n.shapes)
	own := stones / 2 // the side to move has as many stones as the other, or one less
	for mask := range 1 << stones {
		if bits.OnesCount(uint(mask)) == own {
			n.ranks[mask] = uint16(len(n.masks))
			n.masks = append(n.masks, uint16(mask))
		}
	}
	return n
}

// slot is the inverse of position, for a position or its mirror image. ok is false if the sides have wrong numbers of stones, or if stones
// float.
func (n *numbering) slot(p game.Position) (shape, colouring int, ok bool) {
	p, _ = n.board.Canonical(p)
	if p.Own.OnesCount() != n.stones/2 || p.Plies() != n.stones || !p.Own.AndNot(p.All).IsZero() {
		return 0, 0, false
	}
	if shape, ok = slices.BinarySearch(n.shapes, p.All.Lo); !ok {
		return 0, 0, false
	}
	mask, bit := 0, 1
	for all := p.All.Lo; all != 0; all &= all - 1 {
		if p.Own.Lo&all&-all != 0 {
			mask |= bit
		}
		bit <<= 1
	}
	return shape, int(n.ranks[mask]), true
}

// cells lists the stones of a shape.
func (n *numbering) cells(shape int) (cells [mostPacked]uint64) {
	all := n.shapes[shape]
	for i := range n.stones {
		cells[i] = all & -all
		all &= all - 1
	}
	return cells
}

// position is the position of a slot; cells are those of its shape.
func (n *numbering) position(shape int, cells *[mostPacked]uint64, colouring int) (p game.Position) {
	p.All.Lo = n.shapes[shape]
	for mask := n.masks[colouring]; mask != 0; mask &= mask - 1 {
		p.Own.Lo |= cells[bits.TrailingZeros16(mask)%mostPacked]
	}
	return p
}
