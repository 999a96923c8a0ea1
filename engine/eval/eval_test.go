package eval_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

var board = game.MustBoard(game.Connect4)

func batch(ps ...game.Position) *eval.Batch {
	b := eval.NewBatch(board, len(ps))
	copy(b.Pos, ps)
	return b
}

func positions(seed uint64, n int) []game.Position {
	return gametest.Positions(gametest.Rand(seed), board, n, true)
}

func TestConformance(t *testing.T) {
	stub := func() *evaltest.Stub { return &evaltest.Stub{Source: eval.CPU} }
	broken := &evaltest.Stub{Before: func(context.Context, *eval.Batch) error { return errors.New("out of order") }}
	for name, c := range map[string]struct {
		e       func() eval.Evaluator
		mirror  bool
		sources []eval.Source
	}{
		"stub":       {func() eval.Evaluator { return stub() }, false, []eval.Source{eval.CPU}},
		"cache":      {func() eval.Evaluator { return eval.NewCache(1<<14).For("m", stub()) }, true, []eval.Source{eval.CPU, eval.Cached}},
		"tiny cache": {func() eval.Evaluator { return eval.NewCache(1).For("m", stub()) }, true, []eval.Source{eval.CPU, eval.Cached}},
		"batcher": {func() eval.Evaluator {
			return eval.NewBatcher(stub(), eval.BatcherConfig{MaxRows: 16, MaxDelay: time.Microsecond, InFlight: 2})
		}, false, []eval.Source{eval.CPU}},
		"fallback": {func() eval.Evaluator {
			return eval.NewFallback(eval.Stage{Name: "broken", Evaluator: broken}, eval.Stage{Name: "stub", Evaluator: stub()})
		}, false, []eval.Source{eval.CPU}},
		"mirrored": {func() eval.Evaluator { return eval.NewMirrored(stub()) }, true, []eval.Source{eval.CPU}},
	} {
		t.Run(name, func(t *testing.T) {
			evaltest.Run(t, evaltest.Config{
				New: func(testing.TB) eval.Evaluator { return c.e() }, Mirror: c.mirror, Sources: c.sources,
			})
		})
	}
}

// Mirrored answers the mean of a position's answer and of its mirror image's, asked for in one batch.
func TestMirrored(t *testing.T) {
	fallen := map[game.Position]bool{}
	stub := &evaltest.Stub{Source: eval.GPU, After: func(b *eval.Batch) {
		for i, p := range b.Pos {
			if fallen[p] {
				b.Source[i] = eval.Bitsquares
			}
		}
	}}
	m := eval.NewMirrored(stub)
	ps := positions(5, 40)
	b, plain, mirrored := batch(ps...), batch(ps...), batch(ps...)
	fallen[ps[2]], fallen[board.Mirror(ps[7])] = true, true
	for i, p := range ps {
		mirrored.Pos[i] = board.Mirror(p)
	}
	for _, x := range []*eval.Batch{plain, mirrored} {
		if err := stub.Evaluate(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Evaluate(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if sizes := stub.Sizes(); !slices.Equal(sizes, []int{40, 40, 80}) {
		t.Errorf("batches of %v", sizes)
	}
	for i := range ps {
		for k, got := range b.WDLRow(i) {
			if want := (plain.WDLRow(i)[k] + mirrored.WDLRow(i)[k]) / 2; got != want {
				t.Errorf("row %d: wdl[%d] is %v, want %v", i, k, got, want)
			}
		}
		for a, got := range b.PolicyRow(i) {
			if want := (plain.PolicyRow(i)[a] + mirrored.PolicyRow(i)[board.Columns()-1-a]) / 2; got != want {
				t.Errorf("row %d: policy[%d] is %v, want %v", i, a, got, want)
			}
		}
		want := plain.Source[i]
		if i == 2 || i == 7 {
			want = eval.Bitsquares
		}
		if b.Source[i] != want {
			t.Errorf("row %d is %v's, want %v's", i, b.Source[i], want)
		}
	}

	broken := errors.New("out of order")
	stub.Before = func(context.Context, *eval.Batch) error { return broken }
	if err := m.Evaluate(t.Context(), b); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

func TestSourceNames(t *testing.T) {
	for s, want := range map[eval.Source]string{
		eval.GPU: "gpu", eval.CPU: "cpu", eval.Cached: "cache", eval.Terminal: "terminal", eval.Bitsquares: "bitsquares",
		eval.Uniform: "uniform", eval.None: "none",
	} {
		if s.String() != want {
			t.Errorf("source %q is called %q, want %q", string(s), s, want)
		}
		if back, ok := eval.ParseSource(want); ok == s.Heuristic() || ok && back != s {
			t.Errorf("ParseSource(%q) = %q, %t", want, back, ok)
		}
	}
	order := []eval.Source{
		eval.None, eval.GPU, eval.CPU, eval.Cached, eval.Terminal, eval.Bitsquares, "centre", eval.Gameovers, eval.OddEven, eval.Rollout, eval.Uniform,
		eval.Searched, eval.Solved, eval.Rules, eval.Forced,
	}
	if !slices.IsSortedFunc(order, eval.Source.Compare) {
		t.Errorf("sources are listed as %v, want %v", slices.SortedFunc(slices.Values(order), eval.Source.Compare), order)
	}
	for _, s := range order {
		want := "m"
		if s.Heuristic() {
			want = s.String()
		}
		if got := s.By("m"); got != want {
			t.Errorf("%v of model m is by %q, want %q", s, got, want)
		}
	}
	for _, name := range []string{"", "nobody", "heuristic"} {
		if s, ok := eval.ParseSource(name); ok {
			t.Errorf("ParseSource(%q) = %q, want none", name, s)
		}
	}
}
