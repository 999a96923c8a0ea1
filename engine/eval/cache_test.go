package eval_test

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"testing"
	"weak"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// cached is a backend behind a cache, without the rules step.
func cached(c *eval.Cache, model string, b eval.Backend) *eval.Evaluator {
	return eval.New(b, eval.Options{Cache: c, Model: model, OwnRules: true})
}

// fromCache is how many rows came from a cache.
func fromCache(b *eval.Batch) (n int) {
	for _, s := range b.Source {
		if s == eval.Cached {
			n++
		}
	}
	return n
}

// One collection frees a cache. If it took two, the memory of calls that each have a cache would grow without bound, because each collection
// lets the memory double.
func TestCacheFreed(t *testing.T) {
	c := eval.NewCache(1000)
	freed := weak.Make(c)
	gametest.OK(t, cached(c, "m", constant{}).Evaluate(t.Context(), batch(game.Position{})))
	runtime.KeepAlive(c)
	runtime.GC()
	if freed.Value() != nil {
		t.Error("the cache is still there")
	}
}

// A cache has room for the requested number of answers. Their tags spread evenly, so some sets are full before others.
func TestCacheRoom(t *testing.T) {
	gametest.OneGoroutine(t)
	for _, n := range []int{257, 300, 1000} {
		c := eval.NewCache(n)
		e := cached(c, "m", constant{})
		r, seen := gametest.Rand(uint64(n)), map[game.Position]bool{}
		for b := batch(game.Position{}); len(seen) < 40*n; seen[b.Pos[0]] = true {
			b.Pos[0] = gametest.Position(r, board, r.IntN(36), true)
			gametest.OK(t, e.Evaluate(t.Context(), b))
		}
		again := batch(slices.Collect(maps.Keys(seen))...)
		gametest.OK(t, e.Evaluate(t.Context(), again))
		if kept := fromCache(again); kept < n {
			t.Errorf("a cache of %d answers keeps %d", n, kept)
		}
	}
}

// Mirror images count as the same position.
func TestCacheAsksOnce(t *testing.T) {
	for _, by := range []eval.Source{eval.GPU, eval.CPU, eval.Function} {
		asksOnce(t, by, false, eval.Cached)
		asksOnce(t, by, true, by)
	}
}

func asksOnce(t *testing.T, by eval.Source, transparent bool, source eval.Source) {
	cache := eval.NewCache(1 << 12)
	cache.Transparent = transparent
	stub := &evaltest.Stub{Source: by}
	e := cached(cache, "m", stub)
	ps := positions(1, 200)
	first, second := batch(ps...), batch(ps...)
	for i := range second.Pos {
		second.Pos[i] = board.Mirror(ps[i])
	}
	for _, b := range []*eval.Batch{first, second} {
		gametest.OK(t, e.Evaluate(t.Context(), b))
	}
	asked := stub.Rows.Load()
	if asked != 200 {
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
}

// Other rules, another model and a heuristic's answer never come back as the network's.
func TestCacheKeepsApart(t *testing.T) {
	cache := eval.NewCache(1 << 12)
	network, other := &evaltest.Stub{Source: eval.GPU}, &evaltest.Stub{Source: eval.GPU}
	heuristic := &evaltest.Stub{Source: eval.Bitsquares}
	b5 := eval.NewBatch(game.MustBoard(game.Rules{Rows: 6, Columns: 7, InARow: 5, Gravity: true}), 1)
	free := eval.NewBatch(game.MustBoard(game.Rules{Rows: 6, Columns: 7, InARow: 4, Gravity: false}), 1)
	for _, c := range []struct {
		e    *eval.Evaluator
		b    *eval.Batch
		want eval.Source
	}{
		{cached(cache, "a", network), batch(game.Position{}), eval.GPU},
		{cached(cache, "a", network), batch(game.Position{}), eval.Cached},
		{cached(cache, "b", other), batch(game.Position{}), eval.GPU},
		{cached(cache, "a", network), b5, eval.GPU},
		{cached(cache, "a", network), free, eval.GPU},
		{cached(cache, "h", heuristic), batch(game.Position{}), eval.Bitsquares},
		{cached(cache, "h", heuristic), batch(game.Position{}), eval.Bitsquares},
	} {
		gametest.OK(t, c.e.Evaluate(t.Context(), c.b))
		if c.b.Source[0] != c.want {
			t.Errorf("%v: answer from %v, want %v", c.b.Board.Rules(), c.b.Source[0], c.want)
		}
	}
}

func TestCacheIsBoundedAndAllocatesNothing(t *testing.T) {
	cache := eval.NewCache(256)
	e := cached(cache, "m", constant{})
	b := batch(positions(2, 4096)...)
	run := func() {
		gametest.OK(t, e.Evaluate(context.Background(), b))
	}
	for range 20 {
		run()
	}
	if n := fromCache(b); n == 0 || n == len(b.Pos) {
		t.Errorf("of 4096 positions that went through 256 entries %d came from the cache", n)
	}
	if n := testing.AllocsPerRun(10, run); n > 1 && !gametest.Race { // a garbage collection may empty the pool
		t.Errorf("%v allocations a batch of 4096, want none", n)
	}
}

func BenchmarkCacheHit(b *testing.B) {
	e := cached(eval.NewCache(1<<14), "m", constant{})
	x := batch(positions(2, 256)...)
	b.ReportAllocs()
	for b.Loop() {
		if err := e.Leaves(context.Background(), x); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*256/b.Elapsed().Seconds(), "positions/s")
}
