package jobs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every item is worked on once, whatever the sizes, and no worker has two calls at the same time.
func TestDo(t *testing.T) {
	const workers = 4
	var busy [workers]atomic.Bool
	pool := NewPool(workers, func(worker int, done []int32, first, last int) error {
		if busy[worker].Swap(true) {
			return fmt.Errorf("worker %d has two calls", worker)
		}
		for i := first; i < last; i++ {
			atomic.AddInt32(&done[i], 1)
		}
		busy[worker].Store(false)
		return nil
	})
	calls := make(chan error)
	const callers = 8
	for caller := range callers {
		go func() {
			var err error
			for n := range 100 {
				for _, block := range []int{1, 3, 1000} {
					done := make([]int32, n)
					err = errors.Join(err, pool.Do(t.Context(), done, n, block))
					if slices.ContainsFunc(done, func(times int32) bool { return times != 1 }) {
						err = errors.Join(err, fmt.Errorf("caller %d, %d items in blocks of %d: done %v times", caller, n, block, done))
					}
				}
			}
			calls <- err
		}()
	}
	for range callers {
		if err := <-calls; err != nil {
			t.Error(err)
		}
	}
}

// The error of the lowest item is returned, and no more items are claimed after it.
func TestDoErrors(t *testing.T) {
	for range 20 {
		var begun atomic.Int32
		pool := NewPool(4, func(_ int, _ struct{}, first, _ int) error {
			begun.Add(1)
			if first == 5 || first >= 7 {
				return fmt.Errorf("item %d", first)
			}
			return nil
		})
		if err := pool.Do(t.Context(), struct{}{}, 1000, 1); err == nil || err.Error() != "item 5" {
			t.Fatalf("error %v, want that of item 5", err)
		}
		if n := begun.Load(); n > 5+4+1 {
			t.Fatalf("%d items begun, with 4 workers and an error in item 5", n)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	pool := NewPool(2, func(_ int, _ struct{}, first, _ int) error {
		if first == 3 {
			cancel()
		}
		return nil
	})
	if err := pool.Do(ctx, struct{}{}, 1000, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want a cancelled context", err)
	}
}

// A caller that waits for a worker notices a cancelled context. A call that began when one worker alone was free is joined
// by the others as soon as these are free.
func TestBusyPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type job struct {
			seconds int
			by      []int
		}
		pool := NewPool(2, func(worker int, j job, i, _ int) error {
			j.by[i] = worker
			time.Sleep(time.Duration(j.seconds) * time.Second)
			return nil
		})
		late := job{1, make([]int, 8)}
		ended := make(chan time.Duration, 2)
		begin := func(j job, n int) {
			start := time.Now()
			if err := pool.Do(t.Context(), j, n, 1); err != nil {
				t.Error(err)
			}
			ended <- time.Since(start)
		}
		go begin(job{2, make([]int, 1)}, 1)
		synctest.Wait()
		go begin(late, len(late.by))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if err := pool.Do(ctx, late, 1, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want a deadline", err)
		}
		if one, two := <-ended, <-ended; one != 2*time.Second || two != 5*time.Second { // 2 items alone, then 6 by two workers
			t.Errorf("the calls took %v and %v", one, two)
		}
		if by := late.by[2:]; !slices.Contains(by, 0) || !slices.Contains(by, 1) {
			t.Errorf("the last items were done by workers %v, want both", by)
		}
	})
}

// Each returns the first error, which cancels the other calls.
func TestEach(t *testing.T) {
	failed := errors.New("failed")
	var done atomic.Int32
	err := Each(t.Context(), 3, 100, func(ctx context.Context, _, item int) error {
		if item == 2 {
			return failed
		}
		<-ctx.Done()
		done.Add(1)
		return ctx.Err()
	})
	if err != failed || done.Load() != 2 {
		t.Errorf("error %v after %d other items, want that of item 2 and 2 others", err, done.Load())
	}
	if err := Each(t.Context(), 3, 0, nil); err != nil {
		t.Errorf("no items: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Each(ctx, 3, 1, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v", err)
	}
}

// numbers is a stream of the numbers from 0, which ends with an error.
func numbers(n int, err error) func(context.Context) iter.Seq2[int, error] {
	return func(context.Context) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for i := range n {
				if !yield(i, nil) {
					return
				}
			}
			if err != nil {
				yield(0, err)
			}
		}
	}
}

// Items that take different times are written in their order, with no more workers and waiting items than allowed.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unplugged := errors.New("unplugged")
		var busy, read, written atomic.Int32
		err := Stream[int]{
			Items: numbers(50, unplugged), Workers: 4, Window: 8,
			Work: func(_ context.Context, _, item int) error {
				if n := busy.Add(1); n > 4 {
					t.Errorf("%d items worked on at once", n)
				}
				if ahead := read.Add(1) - written.Load(); ahead > 4+8+2 {
					t.Errorf("%d items begun and not written", ahead)
				}
				time.Sleep(time.Duration(item*7%11) * time.Second)
				busy.Add(-1)
				return nil
			},
			Write: func(item int, done bool) error {
				if n := int(written.Add(1)); item != n-1 || !done {
					t.Errorf("item %d is written at place %d, done %v", item, n, done)
				}
				time.Sleep(time.Second)
				return nil
			},
		}.Run(t.Context())
		if err != unplugged || written.Load() != 50 {
			t.Errorf("%d items, error %v; want 50 and that of the input", written.Load(), err)
		}
	})
}

// After an interrupt, items under way have a second; those that take longer are given up, and so are all after them.
func TestStreamInterrupted(t *testing.T) {
	for name, c := range map[string]struct {
		seconds func(item int) float64
		done    int
		all     bool
	}{
		"short": {func(int) float64 { return 0.9 }, 9, false},
		"long": {func(item int) float64 {
			if item == 4 {
				return 9
			}
			return 0.9
		}, 4, false},
		"end of input": {func(int) float64 { return 0.37 }, 20, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
			defer cancel()
			start, done, begun, dropped := time.Now(), 0, atomic.Int32{}, 0
			err := Stream[int]{
				Items: numbers(20, nil), Workers: 3, Window: 6,
				Work: func(ctx context.Context, _, item int) error {
					begun.Add(1)
					select {
					case <-time.After(time.Duration(c.seconds(item) * float64(time.Second))):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				},
				Write: func(item int, answered bool) error {
					if !answered {
						dropped++
					} else if done++; item != done-1 {
						t.Errorf("%s: item %d is written at place %d", name, item, done)
					}
					return nil
				},
			}.Run(ctx)
			if done != c.done || int(begun.Load()) != done+dropped || (err == nil) != c.all {
				t.Errorf("%s: %d items done, %d begun, %d given up, error %v; want %d done", name, done, begun.Load(), dropped, err, c.done)
			}
			if took := time.Since(start); took > 3500*time.Millisecond {
				t.Errorf("%s: it took %v, want a second after the interrupt at most", name, took)
			}
		})
	}
}

// The first error of working or writing ends a stream, also one whose input is silent.
func TestStreamFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("disk full")
		for _, c := range []struct{ work, write int }{{work: 3, write: -1}, {work: -1, write: 3}} {
			written := 0
			err := Stream[int]{
				Items: func(ctx context.Context) iter.Seq2[int, error] {
					return func(yield func(int, error) bool) {
						for i := range 10 {
							if !yield(i, nil) {
								return
							}
						}
						<-ctx.Done()
						yield(0, ctx.Err())
					}
				},
				Workers: 2, Window: 2,
				Work: func(_ context.Context, _, item int) error {
					if item == c.work {
						return full
					}
					return nil
				},
				Write: func(item int, done bool) error {
					if written++; item == c.write {
						return full
					}
					return nil
				},
			}.Run(t.Context())
			if err != full || written > 4 {
				t.Errorf("%+v: error %v after %d items", c, err, written)
			}
		}
	})
}

// One collection frees a pool and what its work refers to. If it took two, the memory of programs that make pools again and again would
// grow without bound, because each collection lets the memory double.
func TestPoolFreed(t *testing.T) {
	memory := make([]byte, 1<<20)
	freed := weak.Make(&memory[0])
	pool := NewPool(2, func(_ int, _ int, first, _ int) error { memory[first] = 1; return nil })
	if err := pool.Do(t.Context(), 0, 10, 1); err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(pool)
	runtime.GC()
	if freed.Value() != nil {
		t.Error("its memory is still there")
	}
}
