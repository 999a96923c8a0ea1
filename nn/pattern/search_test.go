package pattern

import (
	"context"
	"slices"
	"testing"

	"github.com/evald/evald/engine/eval/evaltest"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts"
)

// byPath answers by steps.
type byPath struct{ *Path }

func (byPath) Attributes() eval.Attributes { return eval.Attributes{Rows: 64, Invariant: true} }

func (e byPath) Compute(_ context.Context, b *eval.Batch) error {
	for i, p := range b.Pos {
		e.Start(p)
		e.Path.Evaluate(b, i)
	}
	return nil
}

// A search finds the same alone, in company and with answers by steps, bit for bit.
func TestSearchCompany(t *testing.T) {
	e := NewBackend(random(t))
	positions := gametest.Open(gametest.Rand(6), board, 40)
	search := func(e *eval.Evaluator, batch int, b *eval.Batch) {
		t.Helper()
		s, err := mcts.NewEvaluator(e, mcts.DefaultConfig(), mcts.Limits{Visits: 200, Batch: batch, Leaves: 8})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Evaluate(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	together := eval.NewBatch(board, len(positions))
	copy(together.Pos, positions)
	search(evaltest.Raw(e), 256, together)
	for i, p := range positions {
		for name, of := range map[string]eval.Backend{"alone": e, "by steps": byPath{e.NewPath()}} {
			one := eval.NewBatch(board, 1)
			one.Pos[0] = p
			search(evaltest.Raw(of), 1, one)
			if !slices.Equal(one.WDL, together.WDLRow(i)) || !slices.Equal(one.Policy, together.PolicyRow(i)) {
				t.Fatalf("position %+v, %s: %v %v, in company %v %v", p, name, one.WDL, one.Policy, together.WDLRow(i), together.PolicyRow(i))
			}
		}
	}
}
