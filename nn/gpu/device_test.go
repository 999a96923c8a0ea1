//go:build gpu && cgo && linux && amd64

package gpu

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/nn/net"
)

// The tests of this file run with EVALD_GPU=1, on the machine's own driver. The fake driver is accepted too, so that scripts
// can be tried, unless EVALD_REQUIRE_GPU=1.

// machine returns the first device of the machine, with at most the shared memory of a target.
func machine(t testing.TB, like Target) (d driver.Device, emulated bool) {
	t.Helper()
	if os.Getenv("EVALD_GPU") != "1" {
		t.Skip("EVALD_GPU=1 runs the tests TestGPU.. alone, on the machine's GPUs")
	}
	found := gametest.Must(driver.Find())(t)
	d = found.Devices[0]
	if d.Emulated() && os.Getenv("EVALD_REQUIRE_GPU") == "1" {
		t.Fatalf("EVALD_REQUIRE_GPU=1, but %v is the fake driver's", d)
	}
	d.Shared = min(d.Shared, like.Shared)
	return d, d.Emulated()
}

// serve makes an evaluator on the device, until the test ends. Kernels that are not used are a failure of TestGPUKernels alone.
func serve(t testing.TB, n *net.Network, d driver.Device) *Backend {
	t.Helper()
	return serveBy(t, n, d, "", limitsOf([]driver.Device{d}))
}

// serveBy is serve by the kernel of that name alone.
func serveBy(t testing.TB, n *net.Network, d driver.Device, kernel string, r retry) *Backend {
	t.Helper()
	e, notes, err := newEvaluator(convolutions{n}, []driver.Device{d}, Options{Kernel: kernel, Trial: trialProgram(t)}, r)
	if err != nil {
		t.Fatal(err, notes)
	}
	for _, note := range notes {
		t.Log(note)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if s := e.Stats()[0]; s.Faults > 0 {
			t.Errorf("the device failed: %+v", s)
		}
	})
	return e
}

func TestGPUConformance(t *testing.T) {
	d, emulated := machine(t, hopper)
	for _, text := range []string{"1x100/8/16", "6x64", "10x128", "20x256"} {
		c := evaltest.Config{
			New:     func(t testing.TB) *eval.Evaluator { return evaltest.Raw(serve(t, scrambled(t, text, 1), d)) },
			Sources: []eval.Source{eval.GPU},
		}
		if emulated {
			if text != "1x100/8/16" {
				continue
			}
			c.Boards, c.Rows = gametest.Boards()[:2], 7
		}
		t.Run(text, func(t *testing.T) { evaltest.Run(t, c) })
	}
}

// The device tests and measures every kernel for each network, and refuses none. The log has the table.
func TestGPUKernels(t *testing.T) {
	d, emulated := machine(t, hopper)
	for _, text := range []string{"6x64", "10x64", "10x128", "20x256"} {
		if emulated && text != "6x64" {
			break
		}
		if emulated {
			text, d.Multiprocessors = "1x16/8/16", 1
		}
		r := usualRetry
		e, notes, err := newEvaluator(convolutions{scrambled(t, text, 1)}, []driver.Device{d}, Options{Trial: trialProgram(t)}, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, note := range notes {
			t.Error(note)
		}
		s := e.Stats()[0]
		t.Logf("%s: %v, then %s; measured %v", text, s.Small, s.Kernel, s.Times)
		first := gametest.Must(newPlan(config(t, text), game.Connect4, targetOf(d)))(t)
		want := len(family(first, targetOf(d)))
		if h, ok := planHopper(config(t, text), game.Connect4, targetOf(d)); ok {
			want += len(family(h, targetOf(d)))
		}
		if len(s.Times) != want {
			t.Errorf("%s: %d kernels were measured, want %d", text, len(s.Times), want)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Every kernel that the device can run keeps the accuracy bounds, including those for smaller devices.
func TestGPUAccuracy(t *testing.T) {
	wide := game.Rules{Rows: 5, Columns: 9, InARow: 4, Gravity: true}
	for _, test := range []struct {
		net    string
		rules  game.Rules
		like   Target
		kernel string
		n      int
	}{
		{"2x16/8/16", game.TicTacToe, hopper, "tower_64", 5000},
		{"6x64", game.Connect4, hopper, "tower_64", 5000},
		{"6x64", wide, hopper, "tower_64", 2000},
		{"6x64", game.Connect4, geforce, "tower_64_half", 2000},
		{"6x64", game.Connect4, small, "tower_any", 500},
		{"10x128", game.Connect4, hopper, "tower_128", 1000},
		{"10x128", game.Connect4, geforce, "tower_128_half", 500},
		{"20x256", game.Connect4, hopper, "tower_256", 200},
		{"20x256", game.Connect4, geforce, "tower_256_half", 200},
		{"2x300", wide, hopper, "tower_any", 200},
		{"6x64", game.Connect4, hopper, "wide_64", 2000},
		{"10x128", game.Connect4, hopper, "wide_128", 500},
		{"20x256", game.Connect4, hopper, "wide_256", 200},
		{"6x64", game.Connect4, hopper, "hopper_64", 5000},
		{"10x128", game.Connect4, hopper, "hopper_128", 1000},
		{"20x256", game.Connect4, hopper, "hopper_256", 200},
		{"2x200", wide, hopper, "hopper_256", 500},
		{"6x64", game.Connect4, hopper, "few_64", 2000},
		{"10x128", game.Connect4, hopper, "few_128", 500},
		{"20x256", game.Connect4, hopper, "few_256", 200},
	} {
		t.Run(fmt.Sprintf("%s on %s by %s", test.net, test.rules, test.kernel), func(t *testing.T) {
			d, emulated := machine(t, test.like)
			n, board := scrambled(t, test.net, 5), game.MustBoard(test.rules)
			if _, err := planOnly(test.kernel, n.Config(), test.rules, targetOf(d)); err != nil {
				t.Skip(err)
			}
			if emulated {
				if test.net != "2x16/8/16" && test.kernel != "tower_64_half" {
					t.Skip("slow")
				}
				test.n = 40
			}
			pos := gametest.Positions(gametest.Rand(3), board, test.n, true)
			compare(t, evaluate(t, serveBy(t, n, d, test.kernel, usualRetry), board, pos), reference(t, n, board, pos))
		})
	}
}

// Which kernels give the same bits? Those of a family must, which each self-test checks. The log has the rest.
func TestGPUSameBits(t *testing.T) {
	d, emulated := machine(t, hopper)
	for _, text := range []string{"1x64", "6x64", "10x128", "1x256", "20x256"} {
		if emulated && text != "1x64" {
			break
		}
		board, rows := game.MustBoard(game.Connect4), 264
		if emulated { // only the bits of a real GPU are worth logging; two rows show that the test works
			text, rows = "1x16/8/16", 2
		}
		n, pos := scrambled(t, text, 1), gametest.Positions(gametest.Rand(3), board, rows, true)
		var first *eval.Batch
		for _, kernel := range Variants(n.Config(), game.Connect4, targetOf(d)) {
			got := evaluate(t, serveBy(t, n, d, kernel, usualRetry), board, pos)
			if first == nil {
				first = got
			}
			same, most := 0, 0.0
			for i := range pos {
				apart := max(apart(got.WDLRow(i), first.WDLRow(i)), apart(got.PolicyRow(i), first.PolicyRow(i)))
				most = max(most, apart)
				if apart == 0 {
					same++
				}
			}
			t.Logf("%s: %s: %d of %d rows have the bits of the first kernel; at most %.7f apart", text, kernel, same, len(pos), most)
		}
	}
}

// A row's bits are the same in every batch and every time.
func TestGPUBatches(t *testing.T) {
	for _, test := range []struct {
		net string
		n   int
	}{{"6x64", 20_000}, {"10x128", 8000}, {"20x256", 2000}, {"1x100/8/2000", 4000}} {
		d, emulated := machine(t, hopper)
		if emulated && test.net != "6x64" {
			break
		}
		if emulated {
			test.net, test.n = "1x16/8/16", 60
		}
		board := game.MustBoard(game.Connect4)
		e := serve(t, scrambled(t, test.net, 1), d)
		r := gametest.Rand(3)
		pos := gametest.Positions(r, board, test.n, true)
		whole := evaluate(t, e, board, pos)
		for from := 0; from < len(pos); {
			to := min(len(pos), from+1+r.IntN(len(pos)/4))
			part := whole.Slice(from, to)
			if !sameRows(evaluate(t, e, board, pos[from:to]), &part) {
				t.Errorf("%s: rows %d to %d differ alone", test.net, from, to-1)
			}
			from = to
		}
		if again := evaluate(t, e, board, pos); !sameRows(again, whole) {
			t.Errorf("%s: the same batch differs", test.net)
		}
	}
}

// A few launches of every kernel, to be run under compute-sanitizer.
func TestGPUSanitize(t *testing.T) {
	for _, text := range []string{"1x16/8/16", "1x128/8/16", "1x256/8/16"} {
		d, emulated := machine(t, hopper)
		d.Multiprocessors = 2 // so that each block of threads has more than one group
		n, board := scrambled(t, text, 1), game.MustBoard(game.Connect4)
		pos := gametest.Positions(gametest.Rand(3), board, 31, true)
		want := reference(t, n, board, pos)
		for _, kernel := range Variants(n.Config(), game.Connect4, targetOf(d)) {
			if emulated && kernel != "tower_64_half" {
				continue
			}
			compare(t, evaluate(t, serveBy(t, n, d, kernel, usualRetry), board, pos), want)
		}
	}
}

// The latency of small launches: of Evaluate with copies and without, also after a pause in which the device's thread has gone to
// sleep, and of the driver's steps alone. What Evaluate takes beyond the steps is the hand-over between goroutines.
func BenchmarkGPUSmallLaunches(b *testing.B) {
	d, emulated := machine(b, hopper)
	text, sizes := "6x64", []int{1, 64, 256}
	if emulated {
		text, sizes = "1x4/3/5", sizes[:1]
	}
	e, board := serve(b, scrambled(b, text, 1), d), game.MustBoard(game.Connect4)
	direct := directBytes
	for _, n := range sizes {
		batch := eval.NewBatch(board, n)
		copy(batch.Pos, gametest.Positions(gametest.Rand(3), board, n, true))
		evaluate := func() error { return e.Compute(b.Context(), batch) }
		run := func(name string, bytes int, f func(b *testing.B) error) {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				setDirectBytes(b, bytes)
				gametest.OK(b, f(b))
			})
		}
		run("kernel", 0, func(b *testing.B) error {
			timing, err := e.Time(board, batch.Pos, b.N)
			b.ReportMetric(timing.Seconds*1e6, "us")
			b.ReportMetric(0, "ns/op")
			return err
		})
		run("copy+launch+copy+poll", 0, func(b *testing.B) error { return e.benchmarkSteps(b, batch) })
		run("launch+poll", direct, func(b *testing.B) error { return e.benchmarkSteps(b, batch) })
		run("evaluate-copies", 0, func(b *testing.B) error { return microseconds(b, 0, evaluate) })
		run("evaluate", direct, func(b *testing.B) error { return microseconds(b, 0, evaluate) })
		run("evaluate-copies-rested", 0, func(b *testing.B) error { return microseconds(b, time.Millisecond, evaluate) })
		run("evaluate-rested", direct, func(b *testing.B) error { return microseconds(b, time.Millisecond, evaluate) })
	}
}

// benchmarkSteps measures, on the device's thread, what is done there for a launch of all the batch.
func (e *Backend) benchmarkSteps(b *testing.B, batch *eval.Batch) (err error) {
	s := (*e.live.Load())[0]
	p, err := e.serves.planned(batch.Board, targetOf(s.device.info))
	if err != nil {
		return err
	}
	n := len(batch.Pos)
	v := p.variants[p.index(n)]
	return s.order(func() error {
		if err := s.load(v); err != nil {
			return err
		}
		for i, at := range batch.Pos {
			v.PutPosition(s.tester.hostIn.Bytes()[i*v.PositionBytes():], at)
		}
		return microseconds(b, 0, func() error {
			err := s.start(s.tester, v.plan, n)
			for idle := false; err == nil && !idle; {
				idle, err = s.c.Idle(s.tester.stream)
			}
			return err
		})
	})
}

// microseconds reports the median and the 90th percentile of the time that f takes, each time after a pause.
func microseconds(b *testing.B, pause time.Duration, f func() error) error {
	var all []float64
	for b.Loop() {
		time.Sleep(pause)
		began := time.Now()
		if err := f(); err != nil {
			return err
		}
		all = append(all, float64(time.Since(began).Nanoseconds())/1e3)
	}
	slices.Sort(all)
	b.ReportMetric(all[len(all)/2], "us")
	b.ReportMetric(all[len(all)*9/10], "us-p90")
	b.ReportMetric(0, "ns/op")
	return nil
}
