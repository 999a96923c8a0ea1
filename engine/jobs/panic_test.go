package jobs

import (
	"context"
	"iter"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/evald/evald/engine/fault"
)

// broken fails unless err is a fault with this text.
func broken(t *testing.T, err error, says string) {
	t.Helper()
	if fault.In(err) == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("error %v, want a fault with %q", err, says)
	}
}

// A panic in the caller's goroutine or in a helper's is an error of Do. The pool keeps all its
// workers and answers the next call.
func TestPoolPanics(t *testing.T) {
	const workers = 3
	var helped atomic.Bool
	pool := NewPool(workers, func(worker int, by func(worker, item int), item, _ int) error {
		by(worker, item)
		return nil
	})
	for range 20 {
		err := pool.Do(t.Context(), func(_, item int) {
			if item == 5 {
				panic("item 5")
			}
		}, 1000, 1)
		broken(t, err, "item 5")
	}
	caller := int64(-1)
	for !helped.Load() { // a helper panics, not the caller
		err := pool.Do(t.Context(), func(worker, item int) {
			if item == 0 {
				atomic.StoreInt64(&caller, int64(worker))
				for !helped.Load() {
					runtime.Gosched()
				}
			} else if int64(worker) != atomic.LoadInt64(&caller) {
				helped.Store(true)
				panic("helper")
			}
		}, 2, 1)
		broken(t, err, "helper")
	}
	var done atomic.Int64
	if err := pool.Do(t.Context(), func(int, int) { done.Add(1) }, 100, 1); err != nil || done.Load() != 100 || len(pool.workers) != workers {
		t.Errorf("after panics: %v, %d of 100 items, %d of %d workers", err, done.Load(), len(pool.workers), workers)
	}
}

// A panic of an item of Each is its error, which cancels the others.
func TestEachPanics(t *testing.T) {
	err := Each(t.Context(), 3, 100, func(ctx context.Context, _, item int) error {
		if item == 2 {
			panic("item 2")
		}
		<-ctx.Done()
		return ctx.Err()
	})
	broken(t, err, "item 2")
}

// A panic while items are read or worked on ends a stream. No item that failed counts as done.
func TestStreamPanics(t *testing.T) {
	s := Stream[int]{
		Items: numbers(20, nil), Workers: 3, Window: 3,
		Work: func(_ context.Context, _, item int) error {
			if item == 7 {
				panic("work on 7")
			}
			return nil
		},
		Write: func(item int, done bool) error {
			if item >= 7 && done {
				t.Errorf("item %d counts as done", item)
			}
			return nil
		},
	}
	broken(t, s.Run(t.Context()), "work on 7")
	s.Items = func(context.Context) iter.Seq2[int, error] { panic("input") }
	broken(t, s.Run(t.Context()), "input")
}
