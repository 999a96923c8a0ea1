package train

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// An evaluator's taste replaces the shares of moves that are equally good, and no others; bad moves stay bad, and what others hold of an
// example does not change.
func TestTaste(t *testing.T) {
	b := game.MustBoard(game.Rules{Columns: 5, Rows: 4, InARow: 4})
	examples := randomExamples(5, b, 400)
	var kept []Example
	for _, e := range examples {
		e.Policy = append([]float32(nil), e.Policy...)
		kept = append(kept, e)
	}
	source := func(step int, dst []Example) error {
		if step > 0 {
			return errors.New("no more")
		}
		copy(dst, examples)
		return nil
	}
	e := eval.New(&evaltest.Stub{Source: eval.CPU}, eval.Options{})
	got := make([]Example, len(examples))
	tasteful := WithTaste(source, b, e)
	gametest.OK(t, tasteful(0, got))
	shared := 0
	for i, g := range got {
		if d := cmp.Diff(kept[i], examples[i]); d != "" {
			t.Errorf("example %d of the source has changed:\n%s", i, d)
		}
		if !kept[i].Solved || !several(kept[i].Policy) {
			if d := cmp.Diff(kept[i], g); d != "" {
				t.Errorf("example %d:\n%s", i, d)
			}
			continue
		}
		shared++
		var batch eval.Batch
		batch.Reset(b, 1)
		batch.Pos[0] = g.Position
		gametest.OK(t, e.Evaluate(t.Context(), &batch))
		total, among := float32(0), float32(0)
		for a, p := range kept[i].Policy {
			if p > 0 {
				among += batch.PolicyRow(0)[a] + leastShare
			} else if g.Policy[a] != 0 {
				t.Errorf("example %d: move %d is bad and has %v", i, a, g.Policy[a])
			}
			total += g.Policy[a]
		}
		near(t, "the sum", float64(total), 1, 1e-6)
		for a, p := range kept[i].Policy {
			if p > 0 {
				near(t, "a share", float64(g.Policy[a]), float64((batch.PolicyRow(0)[a]+leastShare)/among), 1e-6)
			}
		}
	}
	if shared < 50 {
		t.Errorf("only %d examples have several good moves", shared)
	}
	if err := tasteful(1, got); err == nil || err.Error() != "no more" {
		t.Errorf("the source's error is %v", err)
	}
}
