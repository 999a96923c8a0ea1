package pattern

import (
	"slices"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts"
)

// A search finds the same alone and in company, bit for bit.
func TestSearchCompany(t *testing.T) {
	e := NewBackend(random(t))
	positions := gametest.Open(gametest.Rand(6), board, 10)
	search := func(e *eval.Evaluator, batch int, b *eval.Batch) {
		t.Helper()
		s := gametest.Must(mcts.NewEvaluator(e, mcts.DefaultConfig(mcts.PUCT), mcts.Limits{Visits: 200, Batch: batch, Leaves: 8}))(t)
		gametest.OK(t, s.Evaluate(t.Context(), b))
	}
	together := eval.NewBatch(board, len(positions))
	copy(together.Pos, positions)
	search(evaltest.Raw(e), 256, together)
	for i, p := range positions {
		one := eval.NewBatch(board, 1)
		one.Pos[0] = p
		search(evaltest.Raw(e), 1, one)
		if !slices.Equal(one.WDL, together.WDLRow(i)) || !slices.Equal(one.Policy, together.PolicyRow(i)) {
			t.Fatalf("position %+v alone: %v %v, in company %v %v", p, one.WDL, one.Policy, together.WDLRow(i), together.PolicyRow(i))
		}
	}
}
