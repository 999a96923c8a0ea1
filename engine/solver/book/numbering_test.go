package book

import (
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// Every position of a game has a slot of its own, with its mirror image, and each slot's position has that slot. Positions whose
// game is over count, too; the numbers of all positions of 7x6 are those of OEIS A212693.
func TestNumbering(t *testing.T) {
	for _, c := range []struct {
		rules game.Rules
		known []int // positions by number of stones, mirror images counted apart
		most  int
	}{
		{game.Connect4, []int{1, 7, 49, 238, 1120, 4263, 16422, 54859, 184275, 558186, 1662623, 4568683, 12236101}, 8},
		{game.Rules{Rows: 4, Columns: 5, InARow: 4, Gravity: true}, nil, 12},
		{game.Rules{Rows: 5, Columns: 4, InARow: 3, Gravity: true}, nil, 14},
		{game.Rules{Rows: 7, Columns: 8, InARow: 4, Gravity: true}, nil, 5},
		{game.Rules{Rows: 1, Columns: 9, InARow: 4, Gravity: true}, nil, 8},
	} {
		if gametest.Soak() && c.known != nil {
			c.most = len(c.known) - 1
		}
		board := game.MustBoard(c.rules)
		b := &Book{board: board}
		gametest.OK(t, b.enumerate(c.most))
		for stones := range c.most + 1 {
			n := newNumbering(board, stones)
			if shapes, colourings := leastSlots(board, stones); len(n.shapes) < shapes || 3*len(n.shapes) > 4*shapes+3 || len(n.masks) != colourings {
				t.Errorf("%v: %d shapes and %d colourings with %d stones, and leastSlots are %d, %d", c.rules, len(n.shapes), len(n.masks), stones, shapes, colourings)
			}
			slots, all := map[[2]int]game.Position{}, 0
			add := func(p game.Position) {
				shape, colouring, ok := n.slot(p)
				at, canonical := [2]int{shape, colouring}, canonical(board, p)
				if before, has := slots[at]; !ok || has && before != canonical {
					t.Fatalf("%v: %+v has slot %v, %v, as %+v has", c.rules, p, at, ok, before)
				} else if has {
					return
				}
				slots[at] = canonical
				cells := n.cells(shape)
				if got := n.position(shape, &cells, colouring); got != canonical {
					t.Fatalf("%v: %+v has the slot of %+v", c.rules, p, got)
				}
				if mirrored, mirror, ok := n.slot(board.Mirror(p)); !ok || [2]int{mirrored, mirror} != at {
					t.Fatalf("%v: the mirror image of %+v has slot %d, %d, want %v", c.rules, p, mirrored, mirror, at)
				}
				if all++; board.Mirror(p) != p {
					all++
				}
			}
			if stones == 0 {
				add(game.Position{})
			} else {
				for _, key := range b.levels[stones-1] {
					p := b.position(key)
					for l := board.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
						add(board.PlayCell(p, l.LowBit()))
					}
				}
			}
			if c.known != nil && all != c.known[stones] {
				t.Errorf("%v: %d positions with %d stones, want %d", c.rules, all, stones, c.known[stones])
			}
		}
	}
	n := newNumbering(game.MustBoard(game.Connect4), 12)
	if len(n.shapes) != 7702 || len(n.masks) != 924 {
		t.Errorf("12 stones of 7x6 have %d shapes and %d colourings", len(n.shapes), len(n.masks))
	}
}

// Positions of no game have no slot: stones float, or a side has too many.
func TestNoSlot(t *testing.T) {
	board := game.MustBoard(game.Connect4)
	n := newNumbering(board, 2)
	for _, p := range []game.Position{
		{All: game.Bits{Lo: 0b101}, Own: game.Bits{Lo: 1}},
		{All: game.Bits{Lo: 0b11}},
		{All: game.Bits{Lo: 0b11}, Own: game.Bits{Lo: 0b11}},
		{All: game.Bits{Lo: 0b11}, Own: game.Bits{Lo: 0b100}},
		{All: game.Bits{Lo: 0b111}, Own: game.Bits{Lo: 1}},
		{All: game.Bits{Lo: 1 | 1<<6}, Own: game.Bits{Lo: 1}},
		{All: game.Bits{Lo: 1, Hi: 1}, Own: game.Bits{Lo: 1}},
		{},
	} {
		if shape, colouring, ok := n.slot(p); ok {
			t.Errorf("%+v has slot %d, %d", p, shape, colouring)
		}
	}
}

func canonical(b *game.Board, p game.Position) game.Position {
	p, _ = b.Canonical(p)
	return p
}
