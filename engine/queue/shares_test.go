package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// steady is a batcher whose batches have 64 rows at most and take 10 ms each, one after the other.
func steady(c queue.Config) *queue.Batcher {
	c.MaxRows, c.InFlight = 64, 1
	return queue.New(&evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
		time.Sleep(10 * time.Millisecond)
		return nil
	}}, c)
}

// flood asks with requests of n rows, several at once, each anew when it is answered, until ctx ends, and counts the rows.
func flood(ctx context.Context, e *queue.Batcher, c queue.Caller, atOnce, n int, rows *atomic.Int64, wg *sync.WaitGroup) {
	for range atOnce {
		wg.Go(func() {
			got := batch(positions(1, n)...)
			for {
				if _, err := e.Submit(ctx, got, c); err != nil {
					return
				}
				rows.Add(int64(n))
			}
		})
	}
}

// Beside clients that ask for ten times their share and more, one that asks for 90% of its own gets it at once or a batch
// later. A client's first row waits for the batch under way alone.
func TestSharesOfModestClients(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector ends a program with this number of timers in a bubble: go.dev/issue/78156")
	}
	for _, clients := range []int{2, 10, 100} {
		t.Run(fmt.Sprint(clients), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := steady(queue.Config{MaxDelay: time.Millisecond})
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				var greedy, answered atomic.Int64
				for i := range clients - 1 {
					of := queue.Caller{Client: fmt.Sprint("greedy ", i), Priority: queue.Priority(i%3 - 1)}
					flood(ctx, e, of, 4, []int{1000, 64, 40, 1}[i%4], &greedy, &wg)
				}
				time.Sleep(time.Second)
				ask := func(client string, most time.Duration) {
					wg.Go(func() {
						asked := time.Now()
						_, err := e.Submit(t.Context(), batch(positions(1, 1)...), queue.Caller{Client: client})
						if took := time.Since(asked); err != nil || took > most {
							t.Errorf("%s: a row took %v (%v), want %v at most", client, took, err, most)
						}
						answered.Add(1)
					})
				}
				share := 0.9 * 6400 / float64(clients) // rows a second
				start := time.Now()
				for i := range int(4 * share) {
					ask("modest", 30*time.Millisecond)
					if i%10 == 0 {
						ask(fmt.Sprint("new ", i), 20*time.Millisecond)
					}
					time.Sleep(time.Duration(1e9 / share))
				}
				if got := float64(answered.Load()) / time.Since(start).Seconds(); got < 0.99*share {
					t.Errorf("%.1f rows/s, want 0.99 of %.1f", got, share)
				}
				cancel()
				wg.Wait()
				e.Close()
			})
		})
	}
}

// Clients that all ask for more than there is get it by their weights, however large their requests are; Low rows cost four
// times as much, and others what their callers say.
func TestSharesByWeight(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector ends a program with this number of timers in a bubble: go.dev/issue/78156")
	}
	synctest.Test(t, func(t *testing.T) {
		e := steady(queue.Config{MaxDelay: time.Millisecond})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		clients := []struct {
			queue.Caller
			atOnce, n int
			share     float64
			rows      atomic.Int64
		}{
			{Caller: queue.Caller{Client: "large requests"}, atOnce: 2, n: 4096, share: 1},
			{Caller: queue.Caller{Client: "many requests"}, atOnce: 64, n: 16, share: 1},
			{Caller: queue.Caller{Client: "heavy", Weight: 3}, atOnce: 8, n: 64, share: 3},
			{Caller: queue.Caller{Client: "light", Weight: 0.5, Priority: queue.High}, atOnce: 8, n: 64, share: 0.5},
			{Caller: queue.Caller{Client: "bulk", Weight: 2, Priority: queue.Low}, atOnce: 8, n: 64, share: 0.5},
			{Caller: queue.Caller{Client: "costly rows", Weight: 4, Cost: 8}, atOnce: 8, n: 64, share: 0.5},
		}
		for i := range clients {
			c := &clients[i]
			flood(ctx, e, c.Caller, c.atOnce, c.n, &c.rows, &wg)
		}
		time.Sleep(200 * time.Second)
		for i := range clients {
			c := &clients[i]
			if got, want := float64(c.rows.Load()), 200*6400*c.share/6.5; math.Abs(got/want-1) > 0.04 {
				t.Errorf("%s: %.0f rows, want %.0f", c.Client, got, want)
			}
		}
		cancel()
		wg.Wait()
		e.Close()
	})
}

// A request that has waited as long as its priority allows is refused; one whose first rows are answered is not.
func TestSharesMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := steady(queue.Config{MaxDelay: time.Millisecond, MaxWait: [3]time.Duration{0, 0, 50 * time.Millisecond}})
		var wg sync.WaitGroup
		ask := func(p queue.Priority, n int, want error) {
			wg.Go(func() {
				got := batch(positions(1, n)...)
				if _, err := e.Submit(t.Context(), got, queue.Caller{Priority: p}); !errors.Is(err, want) {
					t.Errorf("%d rows at %d: error %v, want %v", n, p, err, want)
				}
			})
			synctest.Wait()
		}
		ask(queue.Low, 64*8, nil) // starts at once, and takes 80 ms
		ask(queue.Normal, 64*8, nil)
		ask(queue.Low, 64, queue.ErrLate)
		wg.Wait()
		e.Close()
	})
}

// Over many requests of all kinds at once: the queue's bound holds, and no row is computed whose caller is gone or whose time is over.
func TestSharesRandom(t *testing.T) {
	each := 100
	if gametest.Soak() {
		each = 16_000 // a million requests
	}
	run := synctest.Test
	if testing.Short() {
		run = func(t *testing.T, f func(*testing.T)) { f(t) } // in real time, for the race detector
	}
	run(t, func(t *testing.T) {
		const callers, most = 64, 700
		var owners sync.Map // position -> context of the request that it is of now
		start := time.Now()
		var e *queue.Batcher
		e = queue.New(&evaltest.Stub{Source: eval.CPU, Before: func(_ context.Context, b *eval.Batch) error {
			for _, p := range b.Pos {
				ctx, _ := owners.Load(p)
				if ctx == nil || ctx.(context.Context).Err() != nil && !testing.Short() { // in real time it may just have ended
					t.Errorf("after %v: a row is computed after its request has ended", time.Since(start))
				}
			}
			if len(b.Pos) > 64 || e.Stats().Queued > most+300 { // a request of any size is accepted if none waits
				t.Errorf("a batch of %d rows, %d rows wait", len(b.Pos), e.Stats().Queued)
			}
			time.Sleep(5 * time.Millisecond)
			if len(b.Pos)%17 == 3 {
				return errors.New("fault")
			}
			return nil
		}}, queue.Config{
			MaxRows: 64, MaxDelay: time.Millisecond, InFlight: 2, MaxQueued: most,
			MaxWait: [3]time.Duration{50 * time.Millisecond, 0, 200 * time.Millisecond},
		})
		unique := map[game.Position]bool{}
		r := gametest.Rand(1)
		take := func(n int) (ps []game.Position) {
			for len(ps) < n {
				if p := gametest.Position(r, board, 8+r.IntN(10), true); !unique[p] {
					unique[p] = true
					ps = append(ps, p)
				}
			}
			return ps
		}
		var wg sync.WaitGroup
		var ends [4]atomic.Int64
		for i := range callers {
			own := take([]int{1, 1, 8, 300}[i%4])
			wg.Go(func() {
				r := gametest.Rand(uint64(i))
				of := queue.Caller{Client: fmt.Sprint(i % 7), Weight: float64(1 + i%3), Priority: queue.Priority(r.IntN(3) - 1)}
				for range each {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+r.IntN(400))*time.Millisecond)
					stop := func() bool { return true }
					if r.IntN(4) == 0 {
						stop = time.AfterFunc(time.Duration(r.IntN(60_000))*time.Microsecond, cancel).Stop
					}
					got := batch(own[:1+r.IntN(len(own))]...)
					for _, p := range got.Pos {
						owners.Store(p, ctx)
					}
					switch _, err := e.Submit(ctx, got, of); {
					case err == nil:
						ownAnswers(t, got)
						ends[0].Add(1)
					case ctx.Err() != nil:
						ends[1].Add(1)
					case errors.Is(err, queue.ErrFull):
						ends[2].Add(1)
					default:
						ends[3].Add(1)
					}
					stop()
					cancel()
					time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
				}
			})
		}
		wg.Wait()
		e.Close()
		for i := range ends {
			if ends[i].Load() == 0 {
				t.Errorf("no request ended in way %d", i)
			}
		}
		if q := e.Stats().Queued; q != 0 {
			t.Errorf("%d rows wait at the end", q)
		}
		t.Logf("%v: %d answered, %d ended, %d found the queue full, %d late or failed", time.Since(start), ends[0].Load(), ends[1].Load(), ends[2].Load(), ends[3].Load())
	})
}
