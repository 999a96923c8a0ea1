package eval_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

func TestCacheAsksOnce(t *testing.T) {
	t.Run("says so", func(t *testing.T) { asksOnce(t, eval.NewCache(1<<12), eval.Cached) })
	t.Run("transparent", func(t *testing.T) {
		c := eval.NewCache(1 << 12)
		c.Transparent = true
		asksOnce(t, c, eval.GPU)
	})
}

// asksOnce asks for positions and for their mirror images, whose answers must come from a source.
func asksOnce(t *testing.T, cache *eval.Cache, source eval.Source) {
	stub := &evaltest.Stub{Source: eval.GPU}
	e := cache.For("m", stub)
	ps := positions(1, 200)
	first, second := batch(ps...), batch(ps...)
	for i := range second.Pos { // mirror images count as the same position
		second.Pos[i] = board.Mirror(ps[i])
	}
	for _, b := range []*eval.Batch{first, second} {
		if err := e.Evaluate(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	asked := stub.Rows.Load()
	if asked > 200 {
		t.Errorf("the evaluator was asked %d rows for 200 positions", asked)
	}
	for i := range ps {
		if second.Source[i] != source {
			t.Errorf("row %d came from %v, want %v", i, second.Source[i], source)
		}
		if !slices.Equal(first.WDLRow(i), second.WDLRow(i)) {
			t.Errorf("row %d: %v, from the cache %v", i, first.WDLRow(i), second.WDLRow(i))
		}
		for a, x := range first.PolicyRow(i) {
			if y := second.PolicyRow(i)[6-a]; x != y {
				t.Errorf("row %d: move %d %v, mirrored %v", i, a, x, y)
			}
		}
	}
	if s := cache.Stats(); s.Hits != 200 || s.Misses != 200 {
		t.Errorf("%+v, want 200 hits and 200 misses", s)
	}
}

// Other rules, another model and a heuristic's answer never come back as the network's.
func TestCacheKeepsApart(t *testing.T) {
	cache := eval.NewCache(1 << 12)
	network, other := &evaltest.Stub{Source: eval.GPU}, &evaltest.Stub{Source: eval.GPU}
	heuristic := &evaltest.Stub{Source: eval.Bitsquares}
	b5 := eval.NewBatch(game.MustBoard(game.Rules{Rows: 6, Columns: 7, InARow: 5, Gravity: true}), 1)
	free := eval.NewBatch(game.MustBoard(game.Rules{Rows: 6, Columns: 7, InARow: 4, Gravity: false}), 1)
	for _, c := range []struct {
		e    eval.Evaluator
		b    *eval.Batch
		want eval.Source
	}{
		{cache.For("a", network), batch(game.Position{}), eval.GPU},
		{cache.For("a", network), batch(game.Position{}), eval.Cached},
		{cache.For("b", other), batch(game.Position{}), eval.GPU},
		{cache.For("a", network), b5, eval.GPU},
		{cache.For("a", network), free, eval.GPU},
		{cache.For("h", heuristic), batch(game.Position{}), eval.Bitsquares},
		{cache.For("h", heuristic), batch(game.Position{}), eval.Bitsquares},
	} {
		if err := c.e.Evaluate(t.Context(), c.b); err != nil {
			t.Fatal(err)
		}
		if c.b.Source[0] != c.want {
			t.Errorf("%v: answer from %v, want %v", c.b.Board.Rules(), c.b.Source[0], c.want)
		}
	}
}

func TestCacheIsBoundedAndAllocatesNothing(t *testing.T) {
	cache := eval.NewCache(256)
	e := cache.For("m", &constant{})
	b := batch(positions(2, 4096)...)
	run := func() {
		if err := e.Evaluate(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		run()
	}
	if s := cache.Stats(); s.Evictions == 0 || s.Hits == 0 {
		t.Errorf("%+v: 4096 positions went through 256 entries without evictions or hits", s)
	}
	if n := testing.AllocsPerRun(10, run); n > 1 && !gametest.Race { // a garbage collection may empty the pool
		t.Errorf("%v allocations a batch of 4096, want none", n)
	}
}

// constant answers without counting or allocating.
type constant struct{}

func (constant) Evaluate(_ context.Context, b *eval.Batch) error {
	for i := range b.Pos {
		copy(b.WDLRow(i), []float32{1, 0, 0})
		clear(b.PolicyRow(i))
		b.Source[i] = eval.CPU
	}
	return nil
}

// The clock of these tests is synctest's: it moves only while everybody waits.
func TestBatcherMerges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := make(chan struct{})
		stub := &evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
			<-busy
			return nil
		}}
		b := eval.NewBatcher(stub, eval.BatcherConfig{MaxRows: 8, MaxDelay: time.Millisecond, InFlight: 2})
		var wg sync.WaitGroup
		ask := func(seed uint64, n int) {
			wg.Go(func() {
				got, want := batch(positions(seed, n)...), batch(positions(seed, n)...)
				if err := b.Evaluate(t.Context(), got); err != nil {
					t.Error(err)
				}
				if err := (&evaltest.Stub{Source: eval.CPU}).Evaluate(t.Context(), want); err != nil {
					t.Error(err)
				}
				if !slices.Equal(got.WDL, want.WDL) || !slices.Equal(got.Policy, want.Policy) {
					t.Error("a request got another's answers")
				}
			})
			synctest.Wait()
		}
		ask(1, 1) // idle: at once
		ask(2, 3) // waits for company
		ask(3, 3)
		if got := stub.Sizes(); !slices.Equal(got, []int{1}) {
			t.Errorf("batches %v before any delay, want [1]", got)
		}
		time.Sleep(time.Millisecond) // the oldest has waited MaxDelay
		synctest.Wait()
		ask(4, 4) // two are under way: these wait for one of them to end
		ask(5, 4)
		ask(6, 2)
		ask(7, 9) // larger than a batch: travels alone
		if got := stub.Sizes(); !slices.Equal(got, []int{1, 6}) {
			t.Errorf("batches %v while two are under way, want [1 6]", got)
		}
		close(busy)
		wg.Wait()
		got := stub.Sizes()
		slices.Sort(got[2:]) // two are under way at once, in either order
		if !slices.Equal(got, []int{1, 6, 2, 8, 9}) {
			t.Errorf("batches %v, want [1 6] and then 8, 2 and 9", got)
		}
		s := b.Stats()
		if s.Rows != 26 || s.Batches[eval.Idle] == 0 || s.Batches[eval.Delay] == 0 || s.Batches[eval.Full] == 0 {
			t.Errorf("%+v, want 26 rows and batches for each reason", s)
		}
		b.Close()
		if err := b.Evaluate(t.Context(), batch(game.Position{})); !errors.Is(err, eval.ErrClosed) {
			t.Errorf("after Close: error %v, want ErrClosed", err)
		}
	})
}

func TestBatcherDropsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := make(chan struct{})
		stub := &evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
			<-busy
			return nil
		}}
		b := eval.NewBatcher(stub, eval.BatcherConfig{MaxRows: 8, MaxDelay: time.Hour, InFlight: 1})
		var wg sync.WaitGroup
		ask := func(ctx context.Context, n int, want error) {
			wg.Go(func() {
				if err := b.Evaluate(ctx, batch(positions(1, n)...)); !errors.Is(err, want) {
					t.Errorf("error %v, want %v", err, want)
				}
			})
			synctest.Wait()
		}
		running, cancelRunning := context.WithCancel(t.Context())
		waiting, cancelWaiting := context.WithCancel(t.Context())
		ask(running, 1, context.Canceled)
		ask(waiting, 3, context.Canceled)
		ask(t.Context(), 2, nil)
		cancelRunning() // its batch is under way: the caller leaves, the answer is thrown away
		cancelWaiting() // its batch is not formed yet: no work is done for it
		synctest.Wait()
		close(busy)
		wg.Wait()
		b.Close()
		if got := stub.Sizes(); !slices.Equal(got, []int{1, 2}) {
			t.Errorf("batches %v, want [1 2]", got)
		}
		if s := b.Stats(); s.Dropped != 1 {
			t.Errorf("%d dropped, want 1", s.Dropped)
		}
	})
}

func TestBatcherErrorsReachEveryRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("device lost")
		busy := make(chan struct{})
		stub := &evaltest.Stub{Before: func(context.Context, *eval.Batch) error {
			<-busy
			return broken
		}}
		b := eval.NewBatcher(stub, eval.BatcherConfig{MaxRows: 8, InFlight: 1})
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if err := b.Evaluate(t.Context(), batch(game.Position{})); !errors.Is(err, broken) {
					t.Errorf("error %v, want %v", err, broken)
				}
			})
		}
		synctest.Wait()
		close(busy)
		wg.Wait()
		b.Close()
		if s := b.Stats(); s.Failed != 2 {
			t.Errorf("%d merged batches failed, want 2 (one request, then the four that waited)", s.Failed)
		}
	})
}

// held is a batcher whose evaluator waits until release is called, with a clock of synctest's.
func held(t *testing.T, c eval.BatcherConfig) (b *eval.Batcher, stub *evaltest.Stub, ask func(ctx context.Context, n int, p eval.Priority, want error), release func()) {
	busy := make(chan struct{})
	stub = &evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
		<-busy
		return nil
	}}
	b = eval.NewBatcher(stub, c)
	var wg sync.WaitGroup
	ask = func(ctx context.Context, n int, p eval.Priority, want error) {
		wg.Go(func() {
			if _, err := b.Submit(ctx, batch(positions(1, n)...), p); !errors.Is(err, want) {
				t.Errorf("%d rows: error %v, want %v", n, err, want)
			}
		})
		synctest.Wait()
	}
	return b, stub, ask, func() { close(busy); wg.Wait(); b.Close() }
}

func TestBatcherPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, stub, ask, release := held(t, eval.BatcherConfig{MaxRows: 4, MaxDelay: time.Hour, InFlight: 1})
		ask(t.Context(), 1, eval.Normal, nil) // under way
		ask(t.Context(), 4, eval.Low, nil)
		ask(t.Context(), 2, eval.Normal, nil)
		ask(t.Context(), 3, eval.Normal, nil)
		ask(t.Context(), 1, eval.High, nil)
		release()
		// High and the older normal one, the other normal one, low. Sizes tell them apart.
		if got := stub.Sizes(); !slices.Equal(got, []int{1, 3, 3, 4}) {
			t.Errorf("batches %v, want [1 3 3 4]", got)
		}
	})
}

func TestBatcherRefusesWhatCannotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stub, ask, release := held(t, eval.BatcherConfig{MaxRows: 4, MaxDelay: time.Hour, InFlight: 1, MaxQueued: 6})
		ctx, cancel := context.WithCancel(t.Context())
		ask(t.Context(), 9, eval.Normal, nil) // nobody waits: accepted, whatever its size
		ask(ctx, 5, eval.Normal, context.Canceled)
		ask(t.Context(), 1, eval.Normal, nil)
		ask(t.Context(), 1, eval.High, eval.ErrFull)
		if q := b.Stats().Queued; q != 6 {
			t.Errorf("%d rows wait, want 6", q)
		}
		cancel() // makes room at once
		synctest.Wait()
		ask(t.Context(), 5, eval.Normal, nil)
		release()
		if got := stub.Sizes(); !slices.Equal(got, []int{9, 1, 5}) {
			t.Errorf("batches %v, want [9 1 5]", got)
		}
		if s := b.Stats(); s.Refused != 1 || s.Dropped != 1 || s.Queued != 0 || s.Sizes[0] != 1 || s.Sizes[3] != 1 || s.Sizes[4] != 1 {
			t.Errorf("%+v, want 1 refused, 1 dropped, nothing waiting, and batches of 1, of 5 to 8 and of 9 to 16 rows", s)
		}
	})
}

// A batcher that has seen batches of 4 rows take 10 ms knows when a deadline cannot be kept, and sends a batch in time
// for one that can.
func TestBatcherDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var reasons []eval.BatchReason
		stub := &evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
			time.Sleep(10 * time.Millisecond)
			return nil
		}}
		b := eval.NewBatcher(stub, eval.BatcherConfig{MaxRows: 4, MaxDelay: time.Hour, InFlight: 2, OnBatch: func(s eval.Sent) {
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
				timing, err := b.Submit(ctx, batch(positions(1, n)...), eval.Normal)
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
		ask(4, time.Second, nil)                  // full, under way
		ask(1, 25*time.Millisecond, nil)          // waits for company, but not longer than 5 ms
		time.Sleep(16 * time.Millisecond)         // both were answered or are under way
		ask(4, time.Second, nil)                  // full
		ask(4, time.Second, nil)                  // waits
		ask(4, time.Second, nil)                  // waits
		ask(4, 40*time.Millisecond, eval.ErrLate) // 12 rows, 2 batches at once: 25 ms
		ask(4, 80*time.Millisecond, nil)
		wg.Wait()
		b.Close()
		if !slices.Contains(reasons, eval.Deadline) || slices.Contains(reasons, eval.Delay) {
			t.Errorf("batches were sent for %v, want one for its deadline and none for the delay", reasons)
		}
	})
}

// A caller with an answer finds its batch in the counts, however slow counting is.
func TestBatcherCountsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard atomic.Int64
		b := eval.NewBatcher(&evaltest.Stub{Source: eval.CPU}, eval.BatcherConfig{MaxRows: 4, InFlight: 1, OnBatch: func(eval.Sent) {
			time.Sleep(time.Second)
			heard.Add(1)
		}})
		for i := range int64(3) {
			if err := b.Evaluate(t.Context(), batch(positions(1, 2)...)); err != nil {
				t.Fatal(err)
			}
			if n, s := heard.Load(), b.Stats(); n != i+1 || s.Rows != 2*uint64(i+1) {
				t.Errorf("after %d answers %d batches were heard of, %d rows counted", i+1, n, s.Rows)
			}
		}
		b.Close()
	})
}

// Close must finish what was accepted, also while requests pour in for several games.
func TestBatcherManyGames(t *testing.T) {
	b := eval.NewBatcher(&evaltest.Stub{Source: eval.CPU}, eval.BatcherConfig{MaxRows: 32, MaxDelay: 50 * time.Microsecond, InFlight: 3})
	var wg sync.WaitGroup
	for _, board := range gametest.Boards() {
		for g := range 3 {
			wg.Go(func() {
				r := gametest.Rand(uint64(g))
				for range 50 {
					n := 1 + r.IntN(40)
					got, want := eval.NewBatch(board, n), eval.NewBatch(board, n)
					copy(got.Pos, gametest.Positions(r, board, n, true))
					copy(want.Pos, got.Pos)
					if err := b.Evaluate(t.Context(), got); err != nil {
						t.Error(err)
						return
					}
					if err := (&evaltest.Stub{Source: eval.CPU}).Evaluate(t.Context(), want); err != nil {
						t.Error(err)
					}
					if !slices.Equal(got.WDL, want.WDL) || !slices.Equal(got.Policy, want.Policy) {
						t.Errorf("%v: a request got another's answers", board.Rules())
						return
					}
				}
			})
		}
	}
	wg.Wait()
	b.Close()
}

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

func BenchmarkCacheHit(b *testing.B) {
	e := eval.NewCache(1<<14).For("m", constant{})
	x := batch(positions(2, 256)...)
	b.ReportAllocs()
	for b.Loop() {
		if err := e.Evaluate(context.Background(), x); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*256/b.Elapsed().Seconds(), "positions/s")
}
