package cpu

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/nn/net"
)

var _ eval.Backend = (*Backend)(nil)

// TestMain leaves the user's cache alone: nothing is measured.
func TestMain(m *testing.M) {
	os.Setenv("EVALD_CACHE_DIR", os.DevNull)
	goleak.VerifyTestMain(m)
}

// manyThreads makes the evaluator use several goroutines on any machine.
func manyThreads(t testing.TB) {
	was := runtime.GOMAXPROCS(4)
	t.Cleanup(func() { runtime.GOMAXPROCS(was) })
}

// network makes one in which every weight and bias differs from zero.
func network(t testing.TB, config string, seed uint64) *net.Network {
	t.Helper()
	c := gametest.Must(net.ParseConfig(config))(t)
	n := gametest.Must(net.NewScrambled(c, seed))(t)
	return n
}

func evaluator(t testing.TB, n *net.Network, p kernel.Path) *Backend {
	t.Helper()
	e := gametest.Must(NewPath(forPath(t, n, p), p))(t)
	if e.Path() != p {
		t.Fatalf("path is %s, want %s", e.Path(), p)
	}
	return e
}

// forPath returns the network, or its Int8 form if the path needs ranges and the network has none.
func forPath(t testing.TB, n *net.Network, p kernel.Path) *net.Network {
	t.Helper()
	if ranges, err := n.Ranges(); err != nil || ranges != nil || !p.Int8() {
		return n
	}
	board := game.MustBoard(game.Connect4)
	return gametest.Must(Int8(t.Context(), n, board, gametest.Positions(gametest.Rand(9), board, 50, true)))(t)
}

func newBatch(b *game.Board, pos []game.Position) *eval.Batch {
	batch := eval.NewBatch(b, len(pos))
	copy(batch.Pos, pos)
	return batch
}

// eachPath runs a test on every path of this machine, and on the emulated path if it can run.
func eachPath(t *testing.T, test func(t *testing.T, p kernel.Path)) {
	for _, p := range append(kernel.Paths(), kernel.EmulatedAMX) {
		if emulated(p) && p.Check() != nil {
			continue
		}
		t.Run(string(p), func(t *testing.T) { test(t, p) })
	}
}

// emulated paths are slow.
func emulated(p kernel.Path) bool { return p == kernel.EmulatedAMX }

// Without a cache New takes the first path that the network has what it needs for, since all paths of this machine pass their self-test.
func TestNew(t *testing.T) {
	without := network(t, "1x4", 1)
	with := forPath(t, without, kernel.AVX512VNNI)
	for _, n := range []*net.Network{without, with} {
		e, c := New(n)
		if c.Path != e.Path() || len(c.Failed) > 0 || c.Rates != nil || e.Path() != Paths(n)[0] || e.Threads() != runtime.GOMAXPROCS(0) {
			t.Errorf("path %s with %d threads, %+v; want %s", e.Path(), e.Threads(), c, Paths(n)[0])
		}
	}
	for _, p := range kernel.Paths() {
		if !slices.Contains(Paths(with), p) && kernel.AVX512VNNI.Check() == nil || slices.Contains(Paths(without), p) == p.Int8() {
			t.Errorf("paths %v; without ranges %v, with them %v", kernel.Paths(), Paths(without), Paths(with))
		}
	}
}

func TestConformance(t *testing.T) {
	manyThreads(t)
	eachPath(t, func(t *testing.T, p kernel.Path) {
		n := network(t, "1x20/6/10", 1)
		if p == kernel.Go || emulated(p) { // slow ones
			n = network(t, "1x9/6/10", 1)
		}
		c := evaltest.Config{
			New:     func(t testing.TB) *eval.Evaluator { return evaltest.Raw(evaluator(t, n, p)) },
			Sources: []eval.Source{eval.CPU},
		}
		if gametest.Race || testing.Short() || emulated(p) {
			c.Boards, c.Rows = gametest.Boards()[:3], 37
		}
		evaltest.Run(t, c)
	})
}

func TestErrors(t *testing.T) {
	manyThreads(t)
	if _, err := NewPath(network(t, "1x4", 1), "mmx"); err == nil || !strings.Contains(err.Error(), `CPU path "mmx"`) {
		t.Errorf("error %v, want one that names the path", err)
	}
	eachPath(t, func(t *testing.T, p kernel.Path) {
		b := game.MustBoard(game.Connect4)
		pos := gametest.Positions(gametest.Rand(12), b, 400, true)
		// The error names the first row and its position.
		first := "answer is not finite: position " + b.Text(pos[0]) + ": "
		for name, want := range map[string]string{
			"value.wdl.bias":      "evaluate: row 0: " + first + "win-draw-loss logit 1 is +Inf",
			"value.gameover.bias": "evaluate: row 0: " + first + "gameover logit 1 is +Inf",
			"policy.logit.bias":   "evaluate: row 0: " + first + "cell logit 0 is +Inf",
		} {
			broken := network(t, "2x16/8/16", 1)
			overflow(broken, name)
			for range map[bool]int{false: 5, true: 2}[gametest.Race] {
				if err := evaluator(t, broken, p).Compute(t.Context(), newBatch(b, pos)); !errors.Is(err, eval.ErrNotFinite) || err.Error() != want {
					t.Errorf("%s: error %v, want %s", name, err, want)
				}
			}
		}
	})
}

// overflow makes the sum in the layer of that bias exceed float32, with finite weights.
func overflow(n *net.Network, bias string) {
	weight := n.Weight(strings.TrimSuffix(bias, "bias") + "weight").Float32s()
	values := n.Weight(bias).Float32s()
	at := min(1, len(values)-1)
	in := len(weight) / len(values)
	values[at] = 3e38
	for i := range in {
		weight[at*in+i] = 3e38
	}
}

// A panic in any worker is an error of its batch. The worker's memory is made anew, so that the
// next batch has the same answers as before.
func TestPanics(t *testing.T) {
	manyThreads(t)
	e := evaluator(t, network(t, "1x16", 3), kernel.Go)
	board := game.MustBoard(game.Connect4)
	want := eval.NewBatch(board, 100)
	copy(want.Pos, gametest.Open(gametest.Rand(4), board, len(want.Pos)))
	gametest.OK(t, e.Compute(t.Context(), want))
	damaged := func(w *worker) bool { return w != nil && w.planes == nil }
	for k := range e.workers {
		e.workers = make([]*worker, len(e.workers))
		for other := range e.workers {
			e.workers[other] = &worker{}
			e.workers[other].fit(e.tower, board)
			if other <= k {
				e.workers[other].planes = nil
			}
		}
		for slices.ContainsFunc(e.workers, damaged) { // a batch need not reach all workers
			if err := e.Compute(t.Context(), want); err != nil && fault.In(err) == nil {
				t.Fatal(err)
			}
		}
		got := eval.NewBatch(board, len(want.Pos))
		copy(got.Pos, want.Pos)
		gametest.OK(t, e.Compute(t.Context(), got))
		if !slices.Equal(got.WDL, want.WDL) || !slices.Equal(got.Policy, want.Policy) {
			t.Errorf("after panics of %d workers the answers are others", k+1)
		}
	}
}

// A batch allocates nothing once the memory exists.
func TestAllocations(t *testing.T) {
	if gametest.Race {
		t.Skip("the race detector makes pools forget")
	}
	manyThreads(t)
	eachPath(t, func(t *testing.T, p kernel.Path) {
		if emulated(p) {
			t.Skip("what allocates is the same on all paths")
		}
		b := game.MustBoard(game.TicTacToe)
		e := evaluator(t, network(t, "1x4/3/5", 1), p)
		batch := newBatch(b, gametest.Positions(gametest.Rand(4), b, 40, true))
		evaluate := func() {
			gametest.OK(t, e.Compute(t.Context(), batch))
		}
		for range 50 {
			evaluate()
		}
		// The runtime may start a goroutine or clear a pool now and then. A batch that allocates would count as 1.
		if n := testing.AllocsPerRun(200, evaluate); n >= 1 {
			t.Errorf("%v allocations a batch", n)
		}
	})
}
