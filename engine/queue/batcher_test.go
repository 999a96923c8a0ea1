package queue_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/queue"
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

// held is a batcher whose backend waits until release is called, and then answers or fails. The clock is synctest's: it moves only
// while all goroutines wait. ask returns when its request waits.
func held(t *testing.T, c queue.Config, failure error) (
	b *queue.Batcher, stub *evaltest.Stub, ask func(ctx context.Context, n int, p queue.Priority, want error), release func(),
) {
	busy := make(chan struct{})
	stub = &evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
		<-busy
		return failure
	}}
	b = queue.New(stub, c)
	var wg sync.WaitGroup
	seed := uint64(0)
	ask = func(ctx context.Context, n int, p queue.Priority, want error) {
		seed++
		ps := positions(seed, n)
		wg.Go(func() {
			got := batch(ps...)
			if _, err := b.Submit(ctx, got, queue.Caller{Priority: p}); !errors.Is(err, want) {
				t.Errorf("%d rows: error %v, want %v", n, err, want)
			} else if err == nil {
				ownAnswers(t, got)
			}
		})
		synctest.Wait()
	}
	return b, stub, ask, func() { close(busy); wg.Wait(); b.Close() }
}

// ownAnswers fails if a batch does not have the answers of a stub for its positions.
func ownAnswers(t *testing.T, got *eval.Batch) {
	want := eval.NewBatch(got.Board, len(got.Pos))
	copy(want.Pos, got.Pos)
	if err := (&evaltest.Stub{}).Compute(t.Context(), want); err != nil || !slices.Equal(got.WDL, want.WDL) || !slices.Equal(got.Policy, want.Policy) {
		t.Errorf("%v: a request got another's answers; %v", got.Board.Rules(), err)
	}
}

// batches counts the batches of a batcher.
type batches struct {
	mu      sync.Mutex
	reasons [queue.Reasons]int
	rows    int
	failed  int
}

// add is Config.OnBatch.
func (b *batches) add(s queue.Sent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reasons[s.Reason]++
	b.rows += s.Rows
	if s.Err != nil {
		b.failed++
	}
}

func TestBatcherMerges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent batches
		b, stub, ask, release := held(t, queue.Config{MaxRows: 8, MaxDelay: time.Millisecond, InFlight: 2, OnBatch: sent.add}, nil)
		ask(t.Context(), 1, queue.Normal, nil) // idle: at once
		ask(t.Context(), 3, queue.Normal, nil) // waits for company
		ask(t.Context(), 3, queue.Normal, nil)
		if got := stub.Sizes(); !slices.Equal(got, []int{1}) {
			t.Errorf("batches %v before any delay, want [1]", got)
		}
		time.Sleep(time.Millisecond) // the oldest has waited MaxDelay
		synctest.Wait()
		for _, n := range []int{4, 4, 2, 9} { // two are under way: these wait for one of them to end; 9 are split
			ask(t.Context(), n, queue.Normal, nil)
		}
		if got := stub.Sizes(); !slices.Equal(got, []int{1, 6}) {
			t.Errorf("batches %v while two are under way, want [1 6]", got)
		}
		release()
		got := stub.Sizes()
		slices.Sort(got[2:]) // two are under way at once, in either order
		if !slices.Equal(got, []int{1, 6, 3, 8, 8}) {
			t.Errorf("batches %v, want [1 6] and then 4+4, 2+6 and 3", got)
		}
		if sent.rows != 26 || sent.reasons[queue.Idle] == 0 || sent.reasons[queue.Delay] == 0 || sent.reasons[queue.Full] == 0 {
			t.Errorf("%d rows in batches by reason %v, want 26 rows and batches for each reason", sent.rows, sent.reasons)
		}
		if err := b.Compute(t.Context(), batch(game.Position{})); !errors.Is(err, queue.ErrClosed) {
			t.Errorf("after Close: error %v, want ErrClosed", err)
		}
	})
}

func TestBatcherDropsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stub, ask, release := held(t, queue.Config{MaxRows: 8, MaxDelay: time.Hour, InFlight: 1}, nil)
		running, cancelRunning := context.WithCancel(t.Context())
		waiting, cancelWaiting := context.WithCancel(t.Context())
		ask(running, 1, queue.Normal, context.Canceled)
		ask(waiting, 3, queue.Normal, context.Canceled)
		ask(t.Context(), 2, queue.Normal, nil)
		cancelRunning() // its batch is under way: the caller leaves, the answer is thrown away
		cancelWaiting() // its batch is not formed yet: no work is done for it
		synctest.Wait()
		release()
		if got := stub.Sizes(); !slices.Equal(got, []int{1, 2}) {
			t.Errorf("batches %v, want [1 2]", got)
		}
		if s := b.Stats(); s.Dropped != 1 {
			t.Errorf("%d dropped, want 1", s.Dropped)
		}
	})
}

// A batch of one row has its request's context, so that a backend that takes long can stop; larger ones are not stopped by a request.
func TestBatcherContext(t *testing.T) {
	for rows, ends := range map[int]bool{1: true, 2: false} {
		synctest.Test(t, func(t *testing.T) {
			stopped := make(chan bool, 1)
			b := queue.New(&evaltest.Stub{Source: eval.CPU, Before: func(ctx context.Context, _ *eval.Batch) error {
				select {
				case <-ctx.Done():
					stopped <- true
				case <-time.After(time.Hour):
					stopped <- false
				}
				return ctx.Err()
			}}, queue.Config{MaxRows: rows, InFlight: 1})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := b.Compute(ctx, batch(positions(1, 1)...)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
			if got := <-stopped; got != ends {
				t.Errorf("batches of up to %d rows: stopped %v, want %v", rows, got, ends)
			}
			b.Close()
		})
	}
}

func TestBatcherErrorsReachEveryRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("device lost")
		var sent batches
		_, _, ask, release := held(t, queue.Config{MaxRows: 8, MaxDelay: time.Hour, InFlight: 1, OnBatch: sent.add}, broken)
		for range 5 {
			ask(t.Context(), 1, queue.Normal, broken)
		}
		release()
		if sent.failed != 2 {
			t.Errorf("%d merged batches failed, want 2 (one request, then the four that waited)", sent.failed)
		}
	})
}

func TestBatcherPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := steady(queue.Config{MaxDelay: time.Hour})
		var wg sync.WaitGroup
		var mu sync.Mutex
		var order []queue.Priority
		for i, p := range []queue.Priority{queue.Low, queue.Low, queue.Normal, queue.High, queue.Normal} {
			wg.Go(func() {
				if _, err := e.Submit(t.Context(), batch(positions(uint64(i), 64)...), queue.Caller{Priority: p}); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, p) // each is a batch of its own
			})
			synctest.Wait()
		}
		wg.Wait()
		if want := []queue.Priority{queue.Low, queue.High, queue.Normal, queue.Normal, queue.Low}; !slices.Equal(order, want) {
			t.Errorf("answered in the order %v, want the first, which was under way, and then by priority: %v", order, want)
		}
		e.Close()
	})
}

func TestBatcherRefusesWhenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stub, ask, release := held(t, queue.Config{MaxRows: 4, MaxDelay: time.Hour, InFlight: 1, MaxQueued: 16}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ask(t.Context(), 9, queue.Normal, nil) // the queue is empty: a request of any size is accepted, and 5 rows wait
		ask(ctx, 1, queue.Normal, context.Canceled)
		ask(t.Context(), 1, queue.Normal, queue.ErrFull) // half of the 12 places for normal rows
		ask(t.Context(), 1, queue.Low, queue.ErrFull)
		ask(t.Context(), 2, queue.High, nil)
		ask(t.Context(), 1, queue.High, queue.ErrFull)
		for p, want := range map[queue.Priority]error{queue.Normal: queue.ErrFull, queue.High: queue.ErrFull} { // as if they asked
			if err := b.Room(queue.Caller{Priority: p}, 1, time.Time{}); !errors.Is(err, want) {
				t.Errorf("room for a row of priority %d: %v", p, err)
			}
		}
		if err := b.Room(queue.Caller{Client: "another", Priority: queue.High}, 4, time.Time{}); err != nil {
			t.Errorf("room for another client: %v", err)
		}
		if q := b.Stats().Queued; q != 8 {
			t.Errorf("%d rows wait, want 8", q)
		}
		cancel() // makes room at once
		synctest.Wait()
		ask(t.Context(), 1, queue.High, nil)
		release()
		if got := stub.Sizes(); !slices.Equal(got, []int{4, 4, 4}) {
			t.Errorf("batches %v, want [4 4 4]", got)
		}
		if s := b.Stats(); s.Refused != 5 || s.Dropped != 1 || s.Queued != 0 {
			t.Errorf("%+v, want 5 refused, 1 dropped and nothing waiting", s)
		}
	})
}

// A batcher that has seen batches of 4 rows take 10 ms knows when a deadline cannot be kept, and sends a batch in time
// for one that can.
func TestBatcherDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var reasons []queue.Reason
		stub := &evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
			time.Sleep(10 * time.Millisecond)
			return nil
		}}
		b := queue.New(stub, queue.Config{MaxRows: 4, MaxDelay: time.Hour, InFlight: 2, OnBatch: func(s queue.Sent) {
			if s.Took != 10*time.Millisecond {
				t.Errorf("a batch took %v, want 10ms", s.Took)
			}
			mu.Lock()
			defer mu.Unlock()
			reasons = append(reasons, s.Reason)
		}})
		var wg sync.WaitGroup
		ask := func(n int, timeout time.Duration, want error) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				start := time.Now()
				timing, err := b.Submit(ctx, batch(positions(1, n)...), queue.Caller{})
				if !errors.Is(err, want) || err == nil && timing.Queued+timing.Computed != time.Since(start) {
					t.Errorf("error %v, want %v; %+v in %v", err, want, timing, time.Since(start))
				}
			})
			synctest.Wait()
		}
		for range 5 {
			ask(4, time.Second, nil)
			wg.Wait()
		}
		ask(4, time.Second, nil)                   // full, under way
		ask(1, 25*time.Millisecond, nil)           // waits for company, but not longer than 5 ms
		time.Sleep(16 * time.Millisecond)          // both were answered or are under way
		ask(4, time.Second, nil)                   // full
		ask(4, time.Second, nil)                   // waits
		ask(4, time.Second, nil)                   // waits
		ask(4, 40*time.Millisecond, queue.ErrLate) // 12 rows, 2 batches at once: 25 ms
		ask(4, 80*time.Millisecond, nil)
		wg.Wait()
		b.Close()
		if !slices.Contains(reasons, queue.Deadline) || slices.Contains(reasons, queue.Delay) {
			t.Errorf("batches were sent for %v, want one for its deadline and none for the delay", reasons)
		}
	})
}

// A caller with an answer finds its batch counted, however slow counting is.
func TestBatcherCountsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard atomic.Int64
		b := queue.New(&evaltest.Stub{Source: eval.CPU}, queue.Config{MaxRows: 4, InFlight: 1, OnBatch: func(queue.Sent) {
			time.Sleep(time.Second)
			heard.Add(1)
		}})
		for i := range int64(3) {
			gametest.OK(t, b.Compute(t.Context(), batch(positions(1, 2)...)))
			if n := heard.Load(); n != i+1 {
				t.Errorf("after %d answers %d batches were reported", i+1, n)
			}
		}
		b.Close()
	})
}

// Close must finish what was accepted, also while requests pour in for several games.
func TestBatcherManyGames(t *testing.T) {
	b := queue.New(&evaltest.Stub{Source: eval.CPU}, queue.Config{MaxRows: 32, MaxDelay: 50 * time.Microsecond, InFlight: 3})
	var wg sync.WaitGroup
	for _, board := range gametest.Boards() {
		for g := range 3 {
			wg.Go(func() {
				r := gametest.Rand(uint64(g))
				for range 50 {
					n := 1 + r.IntN(40)
					got := eval.NewBatch(board, n)
					copy(got.Pos, gametest.Positions(r, board, n, true))
					if err := b.Compute(t.Context(), got); err != nil {
						t.Error(err)
						return
					}
					ownAnswers(t, got)
				}
			})
		}
	}
	wg.Wait()
	b.Close()
}
