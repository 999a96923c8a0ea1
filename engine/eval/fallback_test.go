package eval_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
)

func TestFallback(t *testing.T) {
	lost := errors.New("device lost")
	first := &evaltest.Stub{Source: eval.GPU, Before: func(context.Context, *eval.Batch) error { return lost }}
	all := positions(1, 5)
	second := &evaltest.Stub{Source: eval.CPU, After: func(b *eval.Batch) {
		for i, p := range b.Pos {
			if p == all[3] {
				b.PolicyRow(i)[6] = float32(math.Inf(1))
			}
		}
	}}
	third := &evaltest.Stub{Source: eval.Bitsquares}
	f := eval.NewFallback(eval.Stage{Name: "gpu", Evaluator: first}, eval.Stage{Name: "cpu", Evaluator: second}, eval.Stage{Name: "bitsquares", Evaluator: third})
	b := batch(all...)
	if err := f.Evaluate(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	// The row whose answer is not finite is another's; the rows beside it are not.
	if want := []eval.Source{eval.CPU, eval.CPU, eval.CPU, eval.Bitsquares, eval.CPU}; !slices.Equal(b.Source, want) {
		t.Errorf("answered by %v, want %v", b.Source, want)
	}
	want := []eval.StageStats{{"gpu", 0, 1}, {"cpu", 4, 1}, {"bitsquares", 1, 0}}
	if got := f.Stats(); !slices.Equal(got, want) {
		t.Errorf("counts %v, want %v", got, want)
	}

	third.Before = first.Before
	err := f.Evaluate(t.Context(), b)
	if !errors.Is(err, lost) || !errors.Is(err, eval.ErrNotFinite) {
		t.Errorf("error %v, want those of all stages", err)
	}
	for _, name := range []string{"gpu: device lost", fmt.Sprintf("cpu: answer is not finite: position %+v", all[3]), "bitsquares: device lost"} {
		if !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("error %q does not say %q", err, name)
		}
	}
}

// If the caller leaves, the stage has not failed: the next one is not asked, and no failure is counted.
func TestFallbackCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	first := &evaltest.Stub{Before: func(ctx context.Context, _ *eval.Batch) error {
		cancel()
		return ctx.Err()
	}}
	second := &evaltest.Stub{}
	f := eval.NewFallback(eval.Stage{Name: "first", Evaluator: first}, eval.Stage{Name: "second", Evaluator: second})
	if err := f.Evaluate(ctx, batch(game.Position{})); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if second.Rows.Load() != 0 || f.Stats()[0].Failed != 0 {
		t.Errorf("the next stage was asked %d rows; counts %v", second.Rows.Load(), f.Stats())
	}
}
