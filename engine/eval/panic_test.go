package eval_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/game/gametest"
)

// A panic of a backend, or of a step that its damaged answers break, is an error of its callers
// alone: the evaluator answers the next ones as if there had been none.
func TestPanics(t *testing.T) {
	var broken atomic.Bool
	before := &evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
		if broken.Load() {
			panic("broken backend")
		}
		return nil
	}}
	after := &evaltest.Stub{Source: eval.CPU, After: func(b *eval.Batch) {
		if broken.Load() {
			b.WDL = nil
		}
	}}
	whole := &evaltest.Stub{Source: eval.CPU}
	cache := func() *eval.Cache { return eval.NewCache(1000) }
	ps := gametest.Open(gametest.Rand(5), board, 40)
	for name, open := range map[string]func() *eval.Evaluator{
		"backend":        func() *eval.Evaluator { return eval.New(before, eval.Options{}) },
		"behind a cache": func() *eval.Evaluator { return eval.New(before, eval.Options{Cache: cache()}) },
		"the cache":      func() *eval.Evaluator { return eval.New(after, eval.Options{Cache: cache()}) },
		"mirrored":       func() *eval.Evaluator { return eval.New(eval.NewMirrored(before), eval.Options{}) },
		"exact":          func() *eval.Evaluator { return eval.New(whole, eval.Options{Exact: before}) },
		"fallback": func() *eval.Evaluator {
			return eval.New(eval.Fallback{{Name: "cpu", Backend: before}, {Name: "other", Backend: whole}}, eval.Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := open()
			broken.Store(true)
			var callers sync.WaitGroup
			for range 4 {
				callers.Go(func() {
					err := caught(func() error { return e.Evaluate(t.Context(), batch(ps...)) })
					if fault.In(err) == nil || !strings.Contains(err.Error(), "evald has a fault") {
						t.Errorf("error %v, want a fault", err)
					}
				})
			}
			callers.Wait()
			broken.Store(false)
			got, want := batch(ps...), batch(ps...)
			gametest.OK(t, e.Evaluate(t.Context(), got))
			gametest.OK(t, open().Evaluate(t.Context(), want))
			if !sameAnswers(got, want) {
				t.Error("other answers than without the panic")
			}
		})
	}
}

// caught calls f as a caller that recovers: the panic of a step in the caller's own goroutine is
// the caller's to handle.
func caught(f func() error) (err error) {
	defer fault.Catch(&err)
	return f()
}
