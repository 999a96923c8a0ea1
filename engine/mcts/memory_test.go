package mcts_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts"
)

// If memory is full, a search with many leaves under way gives the best move the same share of the visits as one with a single
// leaf. (The two may prefer different moves: a tree that cannot grow depends on the evaluations of a few leaves.)
func TestMemoryFullManyLeaves(t *testing.T) {
	if gametest.Race {
		t.Skip("6 s under the race detector, and TestCompany searches in the same goroutines")
	}
	b := game.MustBoard(game.Connect4)
	for _, s := range []mcts.Selection{mcts.PUCT, mcts.UCT} {
		c := config(s)
		c.MaxNodes = 3000
		searched, shares := 0, [2]int{}
		for _, p := range gametest.Positions(gametest.Rand(11), b, 20, true) {
			var share [2]int
			for k, leaves := range []int{1, 32} {
				tr := tree(t, b, c, p)
				gametest.OK(t, mcts.Search(t.Context(), evaluator(t, eval.Bitsquares), []*mcts.Tree{tr}, mcts.Limits{Visits: 10_000, Batch: 1, Leaves: leaves}))
				if tr.Result() == game.Ongoing {
					most := 0
					for _, m := range tr.Moves(nil) {
						most = max(most, m.Visits)
					}
					share[k] = most * 100 / tr.Visits()
				}
			}
			if share[0] > 0 && share[1] > 0 { // neither is proved
				searched++
				shares[0] += share[0]
				shares[1] += share[1]
			}
		}
		if searched < 5 || shares[1] < shares[0]-5*searched {
			t.Errorf("%v: the best move has %d%% of the visits, one leaf at a time, and %d%%, 32 under way, in %d searches",
				s, shares[0]/max(1, searched), shares[1]/max(1, searched), searched)
		}
	}
}

// Memory limits the number of trees that an Evaluator searches at once.
func TestEvaluatorMemory(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	for visits, want := range map[int]int{800: 64, 100_000: 10, 1 << 20: 1} {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		most := 0
		counting := &evaltest.Stub{Source: eval.CPU, Before: func(_ context.Context, b *eval.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			most = max(most, len(b.Pos))
			cancel() // the first leaves are enough
			return nil
		}}
		c := mcts.DefaultConfig(mcts.PUCT)
		c.MaxNodes = 1 << 30
		e := gametest.Must(mcts.NewEvaluator(evaltest.Raw(counting), c, mcts.Limits{Visits: visits, Batch: 256}))(t)
		if err := e.Evaluate(ctx, eval.NewBatch(b, 64)); !errors.Is(err, context.Canceled) || most != want {
			t.Errorf("%d visits: %d trees at once, error %v; want %d", visits, most, err, want)
		}
	}
}

// Advance keeps visits and values, and no more nodes than it may.
func TestAdvanceKeepsPart(t *testing.T) {
	gametest.OneGoroutine(t)
	b := game.MustBoard(game.Connect4)
	for s, c := range searches {
		c.MaxNodes = 8000
		tr := tree(t, b, c, game.Position{})
		search(t, evaluator(t, eval.Bitsquares), tr, 3000)
		before := tr.Moves(nil)
		best := tr.Best()
		tr.Advance(best)
		if tr.Nodes() > 1001 || tr.Nodes() < 500 || tr.Visits() != before[best].Visits || math.Abs(tr.Value()+before[best].Q) > 1e-12 {
			t.Errorf("%s: %d nodes, %d visits, value %v; want at most 1001, %d, %v", s, tr.Nodes(), tr.Visits(), tr.Value(), before[best].Visits, -before[best].Q)
		}
		search(t, evaluator(t, eval.Bitsquares), tr, 5000)
		if tr.Result() == game.Ongoing && tr.Visits() != 5000 {
			t.Errorf("%s: %d visits after going on to 5000", s, tr.Visits())
		}
		tr.Advance(0) // the move may have no visits: the tree begins anew
		tr.Advance(0)
		if tr.Root() != b.Play(b.Play(b.Play(game.Position{}, best), 0), 0) {
			t.Errorf("%s: the root is %v", s, tr.Root())
		}
	}
}

func TestMemoryFull(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	for s, c := range searches {
		c.MaxNodes = 100
		tr := tree(t, b, c, game.Position{})
		search(t, evaluator(t, eval.Bitsquares), tr, 5000)
		if tr.Nodes() > 100 || tr.Visits() != 5000 {
			t.Errorf("%s: %d nodes, %d visits; want at most 100 and 5000", s, tr.Nodes(), tr.Visits())
		}
	}
}
