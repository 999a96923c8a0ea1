package queue_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/queue"
)

// A panic of a backend, or of the batcher over its damaged answers, is an error of its callers alone:
// the batcher answers the next ones as if there had been none, and closes.
func TestPanics(t *testing.T) {
	var broken atomic.Bool
	for name, backend := range map[string]*evaltest.Stub{
		"backend": {Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
			if broken.Load() {
				panic("broken backend")
			}
			return nil
		}},
		"batcher": {Source: eval.CPU, After: func(b *eval.Batch) {
			if broken.Load() {
				b.WDL = nil
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b, ps := queue.New(backend, queue.Config{MaxRows: 64, InFlight: 2}), positions(5, 40)
			broken.Store(true)
			var callers sync.WaitGroup
			for range 4 {
				callers.Go(func() {
					if err := b.Compute(t.Context(), batch(ps...)); fault.In(err) == nil {
						t.Errorf("error %v, want a fault", err)
					}
				})
			}
			callers.Wait()
			broken.Store(false)
			got := batch(ps...)
			gametest.OK(t, b.Compute(t.Context(), got))
			ownAnswers(t, got)
			b.Close()
		})
	}
}

// A request that was cancelled before a panic has its own error.
func TestPanicAfterCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := queue.New(&evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
		cancel()
		panic("broken backend")
	}}, queue.Config{MaxRows: 4, InFlight: 1})
	err := e.Compute(ctx, batch(gametest.Open(gametest.Rand(5), board, 3)...))
	if fault.In(err) == nil && !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	e.Close()
}
