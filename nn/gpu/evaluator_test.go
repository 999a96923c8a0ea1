//go:build gpu && cgo && linux && amd64

package gpu

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/kernels/cuda/driver/fake"
	"github.com/evald/evald/kernels/cuda/emutest"
	"github.com/evald/evald/nn/net"
)

var _ eval.Backend = (*Backend)(nil)

// fakeDriver runs the kernels in emulation. It is nil if there is no g++, or if EVALD_GPU=1 and the TestGPU tests use the
// machine's driver.
var fakeDriver *fake.Driver

// install builds the fake driver with two devices.
func install(folder string) error {
	if os.Getenv("EVALD_GPU") == "1" {
		flag.Parse()
		if run := flag.Lookup("test.run"); run.Value.String() == "" {
			return run.Value.Set("^TestGPU")
		}
		return nil
	}
	kernels, err := emutest.Library(folder)
	if errors.Is(err, emutest.ErrNoCompiler) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := errors.Join(fake.UseKernels(kernels), os.Setenv("EVALD_FAKE_DEVICES", "2")); err != nil {
		return err
	}
	fakeDriver, err = fake.Install(folder)
	return err
}

// quick is a retry without long waits.
var quick = retry{time.Millisecond, 4 * time.Millisecond, time.Hour, time.Minute, math.MaxInt, 0}

// devices returns n of the fake driver's devices, made like a target.
func devices(t testing.TB, n int, like Target) []driver.Device {
	t.Helper()
	if fakeDriver == nil {
		t.Skip("this test is for the fake driver, which needs g++, and not for EVALD_GPU=1")
	}
	fakeDriver.Reset()
	found := gametest.Must(driver.Find())(t)
	some := slices.Clone(found.Devices[:n])
	for i := range some {
		some[i].Major, some[i].Minor, some[i].Shared = like.Major, like.Minor, like.Shared
	}
	return some
}

// evaluator makes an evaluator on the fake driver's devices until the test ends, and then checks that it has freed
// everything.
func evaluator(t testing.TB, n *net.Network, on []driver.Device, events func(string)) *Backend {
	t.Helper()
	fakeDriver.Reset()
	e, notes, err := newEvaluator(convolutions{n}, on, Options{Event: events}, quick)
	if err != nil || len(notes) > 0 {
		t.Fatal(err, notes)
	}
	t.Cleanup(func() { closed(t, e) })
	return e
}

// closed closes an evaluator, and checks that it has freed everything.
func closed(t testing.TB, e *Backend) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	nothingLeft(t, "after Close")
}

// noGoroutineLeft checks for leaked goroutines after the test and the clean-ups registered later.
func noGoroutineLeft(t testing.TB) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
}

func nothingLeft(t testing.TB, when string) {
	t.Helper()
	left := fakeDriver.Count()
	left.Swept = 0
	if left != (fake.Count{}) {
		t.Errorf("%s lives, or was overrun: %+v", when, left)
	}
}

func evaluate(t testing.TB, of eval.Backend, board *game.Board, pos []game.Position) *eval.Batch {
	t.Helper()
	b := eval.NewBatch(board, len(pos))
	copy(b.Pos, pos)
	gametest.OK(t, evaltest.Raw(of).Evaluate(t.Context(), b))
	return b
}

func sameRows(a, b *eval.Batch) bool {
	return slices.Equal(a.WDL, b.WDL) && slices.Equal(a.Policy, b.Policy) && slices.Equal(a.Source, b.Source)
}

// The contract of an evaluator, through driver, streams and kernels: all kinds of boards with a small network and the
// kernels that fit them, and in make soak the towers of 64 and 128 channels.
func TestEvaluatorConformance(t *testing.T) {
	noGoroutineLeft(t)
	connect4, other := game.MustBoard(game.Connect4), game.MustBoard(game.Rules{Rows: 5, Columns: 9, InARow: 4, Gravity: true})
	for _, test := range []struct {
		net     string
		like    Target
		devices int
		boards  []*game.Board
		rows    int
		soak    bool
	}{
		{"1x16/8/16", geforce, 2, slices.Delete(gametest.Boards(), 2, 7), 15, false},
		{"1x16/8/16", small, 1, gametest.Boards()[:2], 11, false},
		{"6x64", hopper, 2, []*game.Board{connect4, other}, 13, true},
		{"10x128", hopper, 1, []*game.Board{connect4}, 7, true},
	} {
		t.Run(fmt.Sprintf("%s on %v", test.net, test.like), func(t *testing.T) {
			soakOnly(t, test.soak)
			on := devices(t, test.devices, test.like)
			evaltest.Run(t, evaltest.Config{
				New: func(t testing.TB) *eval.Evaluator {
					return evaltest.Raw(evaluator(t, scrambled(t, test.net, 1), on, nil))
				},
				Boards: test.boards, Rows: test.rows, Sources: []eval.Source{eval.GPU},
			})
		})
	}
}

// setDirectBytes changes directBytes until the test ends.
func setDirectBytes(t testing.TB, n int) {
	before := directBytes
	directBytes = n
	t.Cleanup(func() { directBytes = before })
}

// The kernel of a small launch uses pinned memory itself, so that there are no copies. Answers have the same bits with copies:
// of larger launches, and on a device that cannot do that.
func TestEvaluatorCopies(t *testing.T) {
	noGoroutineLeft(t)
	const unable = 1 // CUDA_ERROR_INVALID_VALUE
	board, n := game.MustBoard(game.Connect4), scrambled(t, "1x4/3/5", 1)
	pos := gametest.Positions(gametest.Rand(3), board, 9, true)
	on := devices(t, 1, geforce)
	var want *eval.Batch
	for _, test := range []struct {
		name          string
		bytes, copies int
		unable        bool
	}{
		{"usually", directBytes, 0, false},
		{"as large as can be", 9 * (16 + 36), 0, false},
		{"larger", 9*(16+36) - 1, 1, false},
		{"unable", directBytes, 1, true},
	} {
		setDirectBytes(t, test.bytes)
		fakeDriver.Reset()
		if test.unable {
			fakeDriver.Fail("cuMemHostGetDevicePointer_v2", 1, -1, unable)
		}
		e, _, err := newEvaluator(convolutions{n}, on, Options{}, quick)
		if err != nil {
			t.Fatal(err)
		}
		fakeDriver.Reset()
		got := evaluate(t, e, board, pos)
		if want == nil {
			want = got
		}
		if !sameRows(got, want) {
			t.Errorf("%s: answers differ", test.name)
		}
		calls := fakeDriver.Calls()
		if in, out := calls["cuMemcpyHtoDAsync_v2"], calls["cuMemcpyDtoHAsync_v2"]; in != test.copies || out != test.copies || calls["kernel"] != 1 {
			t.Errorf("%s: %v, want %d copies each way", test.name, calls, test.copies)
		}
		closed(t, e)
	}
}

func countSource(b *eval.Batch, s eval.Source) int {
	n := 0
	for _, x := range b.Source {
		if x == s {
			n++
		}
	}
	return n
}

// The rows are the same however a batch is cut, also if two devices share it.
func TestEvaluatorCutsBatches(t *testing.T) {
	n, board := scrambled(t, "1x16/8/16", 1), game.MustBoard(game.Connect4)
	e := evaluator(t, n, devices(t, 2, geforce), nil)
	r := gametest.Rand(3)
	pos := gametest.Positions(r, board, 130, true) // launches of 4 waves, of 3 boards on each of 4 multiprocessors
	whole := evaluate(t, e, board, pos)
	if countSource(whole, eval.GPU)+countSource(whole, eval.Terminal) != len(pos) || countSource(whole, eval.GPU) < 100 {
		t.Fatalf("sources %v", whole.Source)
	}
	for from := 0; from < len(pos); {
		to := min(len(pos), from+1+r.IntN(40))
		part := whole.Slice(from, to)
		if !sameRows(evaluate(t, e, board, pos[from:to]), &part) {
			t.Fatalf("rows %d to %d differ alone", from, to-1)
		}
		from = to
	}
	for i, d := range e.Stats() {
		if d.Launches == 0 || d.Rows == 0 || !d.Working || d.Faults+d.Tries+d.Rebuilt != 0 || !strings.Contains(d.Name, "Fake GPU") {
			t.Errorf("device %d: %+v", i, d)
		}
	}
}

// A module is loaded as machine code for the device. If the driver cannot use that, its PTX is compiled.
func TestEvaluatorLoadsMachineCode(t *testing.T) {
	noGoroutineLeft(t)
	const noBinary = 209 // CUDA_ERROR_NO_BINARY_FOR_GPU
	board, n := game.MustBoard(game.Connect4), scrambled(t, "1x4/3/5", 1)
	pos := gametest.Positions(gametest.Rand(3), board, 9, false)
	for name, test := range map[string]struct {
		like  Target
		fault func()
		loads int
	}{
		"for this architecture":    {hopper, func() {}, 1},
		"for another architecture": {geforce, func() {}, 2}, // which the driver, of 9.0, refuses
		"for a newer driver":       {hopper, func() { fakeDriver.Fail("cuModuleLoadDataEx", 1, 1, noBinary) }, 2},
	} {
		on := devices(t, 1, test.like)
		fakeDriver.Reset()
		test.fault()
		e, _, err := newEvaluator(convolutions{n}, on, Options{}, quick)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, evaluate(t, e, board, pos), reference(t, n, board, pos))
		if got := fakeDriver.Calls()["cuModuleLoadDataEx"]; got != test.loads {
			t.Errorf("%s: %d modules were loaded, want %d", name, got, test.loads)
		}
		closed(t, e)
	}
}

// If several devices have nothing to do, they share a batch of less than a wave when that is faster, and all rows are those of
// one device.
func TestEvaluatorSharesSmallBatches(t *testing.T) {
	noGoroutineLeft(t)
	board, n := game.MustBoard(game.Connect4), scrambled(t, "1x4/3/5", 1)
	pos := gametest.Positions(gametest.Rand(3), board, 70, false) // a wave is 48, and a third is answered by the rules
	var want *eval.Batch
	for _, test := range []struct{ devices, rows, launches int }{
		{1, 70, 1}, {2, 70, 2}, // half the rows of the tower
		{1, 8, 1}, {2, 8, 2}, // one board a multiprocessor in place of two
		{1, 4, 1}, {2, 4, 1}, // nothing is gained
	} {
		e, _, err := newEvaluator(convolutions{n}, devices(t, test.devices, hopper), Options{}, quick)
		if err != nil {
			t.Fatal(err)
		}
		got := evaluate(t, e, board, pos[:test.rows])
		if want == nil {
			want = got
		}
		if some := want.Slice(0, test.rows); !sameRows(got, &some) {
			t.Errorf("%d rows on %d devices are others", test.rows, test.devices)
		}
		launches := uint64(0)
		for _, d := range e.Stats() {
			launches += d.Launches
			if test.launches == test.devices && d.Launches != 1 {
				t.Errorf("%d rows on %d devices: GPU %d has %d launches", test.rows, test.devices, d.Index, d.Launches)
			}
		}
		if launches != uint64(test.launches) {
			t.Errorf("%d rows on %d devices: %d launches, want %d", test.rows, test.devices, launches, test.launches)
		}
		closed(t, e)
	}
}

// A batch allocates nothing once the memory exists.
func TestEvaluatorAllocations(t *testing.T) {
	if gametest.Race {
		t.Skip("the race detector makes pools forget")
	}
	board := game.MustBoard(game.TicTacToe)
	e := evaluator(t, scrambled(t, "1x4/3/5", 1), devices(t, 1, geforce), nil)
	b := eval.NewBatch(board, 150) // several launches
	copy(b.Pos, gametest.Positions(gametest.Rand(4), board, len(b.Pos), true))
	run := func() {
		gametest.OK(t, e.Compute(t.Context(), b))
	}
	for range 5 {
		run()
	}
	if n := testing.AllocsPerRun(20, run); n >= 1 {
		t.Errorf("%v allocations a batch", n)
	}
}

// A cancelled caller gets its batch back at once, and the device continues.
func TestEvaluatorCancelled(t *testing.T) {
	noGoroutineLeft(t)
	board := game.MustBoard(game.Connect4)
	e := evaluator(t, scrambled(t, "1x16/8/16", 1), devices(t, 1, geforce), nil)
	pos := gametest.Positions(gametest.Rand(3), board, 200, false)
	want := evaluate(t, e, board, pos)
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		b := eval.NewBatch(board, len(pos))
		copy(b.Pos, pos)
		cancel()
		if err := e.Compute(ctx, b); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if !sameRows(evaluate(t, e, board, pos), want) {
		t.Error("after cancelled batches answers differ")
	}
}

func TestEvaluatorClose(t *testing.T) {
	noGoroutineLeft(t)
	e := evaluator(t, scrambled(t, "1x16/8/16", 1), devices(t, 2, geforce), nil)
	for range 2 {
		closed(t, e)
	}
	nothingLeft(t, "after Close")
	b := eval.NewBatch(game.MustBoard(game.Connect4), 1)
	if err := e.Compute(t.Context(), b); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// Time measures launches of any number of positions, and frees all memory.
func TestEvaluatorTime(t *testing.T) {
	board := game.MustBoard(game.Connect4)
	for _, test := range []struct {
		net   string
		want  Timing
		tests int
	}{
		{"1x16/8/16", Timing{Kernel: "tower_64_half", Boards: 6, Wave: 24}, 2}, // also of a wide kernel
		{"1x16/130/16", Timing{Kernel: "tower_any", Boards: 1, Wave: 4}, 1},
	} {
		t.Run(test.want.Kernel, func(t *testing.T) {
			e := evaluator(t, scrambled(t, test.net, 1), devices(t, 1, geforce), nil)
			pos := gametest.Positions(gametest.Rand(3), board, 50, false)
			before := fakeDriver.Count()
			got, err := e.Time(board, pos, 3)
			if err != nil || got.Seconds <= 0 {
				t.Errorf("%s: %+v, %v", test.net, got, err)
			}
			if got.Seconds = 0; got != test.want || got.Waves(50) != (50+got.Wave-1)/got.Wave {
				t.Errorf("%s: %+v, want %+v", test.net, got, test.want)
			}
			if now := fakeDriver.Count(); now != before {
				t.Errorf("%+v lives, before %+v", now, before)
			}
			if n := fakeDriver.Calls()["kernel"]; n != test.tests+4 {
				t.Errorf("%d launches, want %d of self-tests, one to warm up and 3", n, test.tests)
			}
		})
	}
}

// The time from one question whether a launch is done to the next, which is how late an answer or another launch may be. The
// driver says that the launch is not done, until the session waits for it.
func BenchmarkEvaluatorPolls(b *testing.B) {
	board := game.MustBoard(game.TicTacToe)
	for _, busy := range []int{0, 2 * runtime.GOMAXPROCS(0)} {
		b.Run(fmt.Sprintf("busy=%d", busy), func(b *testing.B) {
			e := evaluator(b, scrambled(b, "1x4/3/5", 1), devices(b, 1, geforce), nil)
			batch := eval.NewBatch(board, 1)
			const notReady = 600 // CUDA_ERROR_NOT_READY
			fakeDriver.Fail("cuStreamQuery", 1, -1, notReady)
			var stop atomic.Bool
			var others sync.WaitGroup
			for range busy {
				others.Go(func() {
					for !stop.Load() {
					}
				})
			}
			before := fakeDriver.Calls()["cuStreamQuery"]
			for b.Loop() {
				if err := e.Compute(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
			polls := fakeDriver.Calls()["cuStreamQuery"] - before
			b.ReportMetric(float64(patience.Nanoseconds())*float64(b.N)/float64(polls), "ns/poll")
			stop.Store(true)
			others.Wait()
		})
	}
}
