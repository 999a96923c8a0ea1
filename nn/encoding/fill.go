package encoding

import (
	"fmt"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/pattern"
)

// Number is the Go type of an input's elements; uint8 also serves for Bool.
type Number interface {
	float32 | float64 | uint8 | int8 | int32 | int64
}

// Fill writes input c.Inputs[in] of positions [N] into dst [N*Size]. It allocates nothing, and panics if dst has another length. The
// positions' games should not be over.
func Fill[T Number](c *Codec, in int, pos []game.Position, dst []T) {
	input := &c.Inputs[in]
	if len(dst) != len(pos)*input.Size {
		panic(fmt.Sprintf("encoding: input %s of %d positions has %d numbers, and room for %d", input.Name, len(pos), len(pos)*input.Size, len(dst)))
	}
	for _, p := range pos {
		row := dst[:input.Size:input.Size]
		dst = dst[input.Size:]
		switch {
		case input.mask:
			fillMask(c, p, row)
		case c.describe.Layout == Patterns:
			var numbers [pattern.Each]int32
			for i, x := range pattern.AppendRows(numbers[:0], p) {
				row[i] = T(x)
			}
		default:
			fillPlanes(c, p, row)
		}
	}
}

// fillMask writes 1 for each legal move, and 0 for all others.
func fillMask[T Number](c *Codec, p game.Position, row []T) {
	clear(row)
	for set := c.board.Legal(p); !set.IsZero(); set = set.WithoutFirst() {
		row[c.action(set.First())] = 1
	}
}

// action returns the index, in policy and mask, of the action that lands in a cell, given by its bit.
func (c *Codec) action(bit int) int {
	if c.describe.Policy.Actions == Columns {
		return c.board.Action(bit)
	}
	return c.cells[bit]
}

func fillPlanes[T Number](c *Codec, p game.Position, row []T) {
	b := c.board
	h, w, mover := b.Rows(), b.Columns(), p.Mover()-1
	sets := [3]game.Bits{1: p.Own, 2: p.Other()}
	sets[0] = b.Full().AndNot(p.All)
	var playable game.Bits
	// The player to move fills every second row of the last column; see package net.
	evenRow := (b.Cells() - h + p.Plies()) & 1
	for i := range c.planes {
		plane := &c.planes[i]
		at := row[i*c.planeStep:]
		value := &plane.cell[mover]
		fillCells(at, h*w, c.cellStep, T(value[0]))
		for k := 1; k < len(sets); k++ {
			if value[k] == value[0] {
				continue
			}
			for set := sets[k]; !set.IsZero(); set = set.WithoutFirst() {
				at[c.cells[set.First()]*c.cellStep] = T(value[k])
			}
		}
		if plane.playable != 0 {
			if playable.IsZero() {
				playable = b.Legal(p)
			}
			for set := playable; !set.IsZero(); set = set.WithoutFirst() {
				at[c.cells[set.First()]*c.cellStep] += T(plane.playable)
			}
		}
		if plane.parity != 0 {
			for r := evenRow; r < h; r += 2 { // from the bottom
				first := c.cells[b.Index(0, r)]
				for cell := first; cell < first+w; cell++ {
					at[cell*c.cellStep] += T(plane.parity)
				}
			}
		}
	}
}

// fillCells writes one value to all cells of a plane.
func fillCells[T Number](at []T, cells, step int, value T) {
	if step == 1 {
		at = at[:cells]
		for i := range at {
			at[i] = value
		}
		return
	}
	for i := range cells {
		at[i*step] = value
	}
}
