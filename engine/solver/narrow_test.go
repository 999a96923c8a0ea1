package solver

import (
	"context"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// Narrow ends between its bounds, whatever the nodes; with nodes enough it has the score, or the nearer bound.
func TestNarrow(t *testing.T) {
	gametest.OneGoroutine(t)
	for _, b := range gametest.Boards() {
		s := mustNew(t, b, Options{TableMiB: 1, Bounded: true})
		r := gametest.Rand(5)
		for i := range uint64(40) {
			p := nearEnd(i, b, 9)
			if b.Cells()-p.Plies() > 9 {
				continue
			}
			want := minimax(b, p)
			least, most := s.ScoreBounds(p)
			if want < least || want > most {
				t.Fatalf("%v %+v: the score is %d, outside of %d to %d", b.Rules(), p, want, least, most)
			}
			low := least + r.IntN(most-least+1)
			high := low + r.IntN(most-low+1)
			for _, nodes := range []uint64{0, 50, 1 << 40} {
				l, h, _ := s.Narrow(t.Context(), p, low, high, nodes)
				near := min(max(want, low), high)
				if l > near || h < near || l < low || h > high || nodes > 50 && l != h {
					t.Errorf("%v %+v within %d nodes: %d to %d of %d to %d, is %d", b.Rules(), p, nodes, l, h, low, high, want)
				}
			}
		}
	}
}

// Nodes of a second call continue the first, and a context that has ended changes nothing.
func TestNarrowContinues(t *testing.T) {
	gametest.OneGoroutine(t)
	b := game.MustBoard(game.Connect4)
	p, _, err := b.ParseMoves("44444252215")
	gametest.OK(t, err)
	s := mustNew(t, b, Options{})
	want := gametest.Must(s.Score(t.Context(), p))(t).Score
	s.Reset()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	low, high := s.ScoreBounds(p)
	if l, h, _ := s.Narrow(ended, p, low, high, 1<<40); l != low || h != high {
		t.Errorf("cancelled: %d to %d, began with %d to %d", l, h, low, high)
	}
	for calls := 0; low < high; calls++ {
		if calls > 1000 {
			t.Fatalf("no end: %d to %d", low, high)
		}
		l, h, _ := s.Narrow(t.Context(), p, low, high, 20_000)
		if l < low || h > high || l > want || h < want {
			t.Fatalf("%d to %d became %d to %d, is %d", low, high, l, h, want)
		}
		low, high = l, h
	}
	if low != want {
		t.Errorf("score %d, want %d", low, want)
	}
}
