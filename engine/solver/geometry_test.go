package solver

import (
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// TestOpenLines compares openLines with a loop over the lines.
func TestOpenLines(t *testing.T) {
	for _, b := range gametest.Boards() {
		if b.Wide() || !b.Rules().Gravity || b.InARow() != 4 {
			continue
		}
		g := newGeometry(b)
		for seed := range uint64(100) {
			p := nearEnd(seed, b, b.Cells()-1)
			want := 0
			for _, line := range b.Lines() {
				if line.And(p.Other()).IsZero() {
					want += map[int]int{1: 2, 2: 10}[line.And(p.Own).OnesCount()]
				}
			}
			if got := g.openLines(p.Own.Lo, g.full&^p.All.Lo); !g.four || got != want {
				t.Fatalf("%v, %+v: %d, want %d", b.Rules(), p, got, want)
			}
		}
	}
}
