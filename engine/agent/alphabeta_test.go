package agent

import (
	"math"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
)

// slowMinimax is the value that alphaBeta.search must find: all lines to the end of the depth, without bounds, table and order.
func slowMinimax(b *game.Board, h *heuristic.Bitsquares, p game.Position, depth, ply int) float64 {
	if !b.Wins(p).IsZero() {
		return float64(wonScore - ply)
	}
	if depth == 0 {
		return h.Score(b, p)
	}
	best := math.Inf(-1)
	for _, action := range actions(b, p) {
		value := 0.0
		if child := b.Play(p, action); child.All != b.Full() {
			value = -slowMinimax(b, h, child, depth-1, ply+1)
		}
		best = max(best, value)
	}
	return best
}

// searched deepens one ply at a time, as Move does, and returns the last value.
func (a *alphaBeta) searched(t testing.TB, b *game.Board, p game.Position, depth int) (value float64) {
	a.ctx, a.board, a.nodes, a.over = t.Context(), b, 0, false
	a.order.actions = b.FromCentre()
	a.order.reset()
	clear(a.table)
	for d := 1; d <= min(depth, b.Cells()-p.Plies()); d++ {
		if value = a.search(p, d, 0, math.Inf(-1), math.Inf(1)); math.Abs(value) > wonScore/2 {
			break // as Move does: the next depth would find the same
		}
	}
	return value
}

func newSearch(t testing.TB) *alphaBeta {
	return gametest.Must(newAlphaBeta(Spec{Heuristic: heuristic.Usual(eval.Bitsquares)}, Shared{}))(t).(*alphaBeta)
}

// Table, killers and history change no value, and the root's move reaches it, on boards of all kinds.
func TestAlphaBetaMinimax(t *testing.T) {
	t.Parallel()
	h, a, won := heuristic.NewBitsquares(heuristic.DefaultPower), newSearch(t), 0
	for i, b := range gametest.Boards() {
		depth := 5
		for b.Actions() > 5 && math.Pow(float64(b.Actions()), float64(depth)) > 3000 {
			depth--
		}
		for _, p := range gametest.Open(gametest.Rand(uint64(i)), b, 20) {
			got, want := a.searched(t, b, p, depth), slowMinimax(b, h, p, depth, 0)
			if math.Abs(want) > wonScore/2 {
				won++
			}
			reached := 0.0
			if wins := b.Wins(p); wins.IsZero() {
				if child := b.Play(p, a.root); child.All != b.Full() {
					reached = -slowMinimax(b, h, child, depth-1, 1)
				}
			} else if reached = wonScore; wins.And(b.Cell(p, a.root)).IsZero() {
				reached = 0
			}
			if got != want || reached != want {
				t.Fatalf("%s to depth %d: %v, want %v; move %d reaches %v", b.Text(p), depth, got, want, a.root, reached)
			}
		}
	}
	if won < 10 {
		t.Errorf("only %d positions are won or lost", won)
	}
}

// History and killers save nodes. Without them, with the table's move and the order from the centre alone, there were 6,620,497 and 2,164,391.
func TestAlphaBetaNodes(t *testing.T) {
	t.Parallel()
	a, b, random := newSearch(t), game.MustBoard(game.Connect4), 0
	for _, p := range gametest.Open(gametest.Rand(7), b, 300) {
		a.searched(t, b, p, 9)
		random += a.nodes
	}
	early, r := 0, gametest.Rand(4)
	for n := 0; n < 20; {
		p := gametest.Position(r, b, 4, true)
		if o := b.Outlook(p); o.Result == game.Ongoing && o.Plies == 0 {
			a.searched(t, b, p, 11)
			early, n = early+a.nodes, n+1
		}
	}
	t.Logf("%d nodes of random positions, %d of early ones", random, early)
	if random > 6_200_000 || early > 1_850_000 {
		t.Errorf("%d nodes of random positions, %d of early ones", random, early)
	}
}
