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
	f := eval.Fallback{{Name: "gpu", Backend: first}, {Name: "cpu", Backend: second}, {Name: "bitsquares", Backend: third}}
	b := batch(all...)
	if err := f.Compute(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	// The row whose answer is not finite is another's; the rows beside it are not.
	if want := []eval.Source{eval.CPU, eval.CPU, eval.CPU, eval.Bitsquares, eval.CPU}; !slices.Equal(b.Source, want) {
		t.Errorf("answered by %v, want %v", b.Source, want)
	}
	third.Before = first.Before
	err := f.Compute(t.Context(), b)
	if !errors.Is(err, lost) || !errors.Is(err, eval.ErrNotFinite) {
		t.Errorf("error %v, want those of all stages", err)
	}
	for _, name := range []string{"gpu: device lost", fmt.Sprintf("cpu: answer is not finite: position %+v", all[3]), "bitsquares: device lost"} {
		if !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("error %q does not say %q", err, name)
		}
	}
}

// If the caller leaves, the next stage is not asked, and the error is that of the context.
func TestFallbackCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	first := &evaltest.Stub{Before: func(ctx context.Context, _ *eval.Batch) error {
		cancel()
		return ctx.Err()
	}}
	second := &evaltest.Stub{}
	f := eval.Fallback{{Name: "first", Backend: first}, {Name: "second", Backend: second}}
	if err := f.Compute(ctx, batch(game.Position{})); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if second.Rows.Load() != 0 {
		t.Errorf("the next stage was asked %d rows", second.Rows.Load())
	}
}
