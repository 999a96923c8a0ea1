//go:build gpu && cgo && linux && amd64

package gpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/kernels/cuda/driver/fake"
	"github.com/evald/evald/nn/net"
)

// events stores what an evaluator reports, and lets a test wait for it.
type events struct {
	mu   sync.Mutex
	cond sync.Cond
	said []string
}

func newEvents() *events {
	e := &events{}
	e.cond.L = &e.mu
	return e
}

func (e *events) say(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.said = append(e.said, text)
	e.cond.Broadcast()
}

// wait returns when an event with that text has been reported that many times.
func (e *events) wait(text string, times int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.times(text) < times {
		e.cond.Wait()
	}
}

func (e *events) times(text string) (n int) {
	for _, s := range e.said {
		if strings.Contains(s, text) {
			n++
		}
	}
	return n
}

// scenario is a service's life: it starts, answers batches by a fallback of the GPU and the reference, one of them on a board
// that needs a kernel of its own, and ends.
type scenario struct {
	network      *net.Network
	boards       [2]*game.Board
	batches      []part // the last is served after the faults
	pos          [2][]game.Position
	onGPU, onCPU [2]*eval.Batch // the answers
	on           []driver.Device
}

// part is a batch of a scenario: the positions from..to-1 on one of its boards.
type part struct{ board, from, to int }

var (
	fewRows  = []part{{0, 0, 9}, {0, 2, 4}, {1, 0, 2}, {0, 1, 6}, {0, 7, 9}}
	manyRows = []part{{0, 0, 70}, {0, 7, 12}, {1, 0, 5}, {0, 3, 20}, {0, 30, 37}}
)

// newScenario has a network of so many features that large needs another kernel, and no wide one has room.
func newScenario(t *testing.T, batches []part) *scenario {
	return scenarioOf(t, "1x4/1/8181", batches)
}

func scenarioOf(t *testing.T, network string, batches []part) *scenario {
	s := &scenario{
		batches: batches,
		network: scrambled(t, network, 1),
		boards:  [2]*game.Board{game.MustBoard(game.TicTacToe), game.MustBoard(large)},
		on:      devices(t, 1, geforce),
	}
	for i := range s.boards {
		n := 0
		for _, b := range batches {
			if b.board == i {
				n = max(n, b.to)
			}
		}
		s.pos[i] = gametest.Positions(gametest.Rand(4), s.boards[i], n, true)
		s.onCPU[i] = reference(t, s.network, s.boards[i], s.pos[i])
		e, _, err := newEvaluator(s.network, s.on, Options{}, quick)
		if err != nil {
			t.Fatal(err)
		}
		s.onGPU[i] = evaluate(t, e, s.boards[i], s.pos[i])
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// large is a game of more cells than the kernels for small boards hold.
var large = game.Rules{Rows: 10, Columns: 10, InARow: 4, Gravity: true}

// outcome is the result of a run of the scenario.
type outcome struct {
	start, close error
	gpu, cpu     int // number of batches answered by each
	stats        DeviceStats
}

// run plays the scenario. fault injects the faults, which are removed before the last batch.
func (s *scenario) run(t *testing.T, what string, fault func()) (o outcome) {
	t.Helper()
	said := newEvents()
	fakeDriver.Reset()
	fault()
	e, _, err := newEvaluator(s.network, s.on, Options{Event: said.say}, quick)
	if o.start = err; err != nil {
		nothingLeft(t, what+": after it did not start")
		return o
	}
	f := eval.NewFallback(eval.Stage{Name: "gpu", Evaluator: e}, eval.Stage{Name: "cpu", Evaluator: net.NewEvaluator(s.network)})
	rows := uint64(0)
	serve := func(p part) {
		b := eval.NewBatch(s.boards[p.board], p.to-p.from)
		copy(b.Pos, s.pos[p.board][p.from:p.to])
		rows += uint64(len(b.Pos))
		if err := f.Evaluate(t.Context(), b); err != nil {
			t.Errorf("%s: a batch is lost: %v", what, err)
			return
		}
		by := s.check(t, what, b, p.board, p.from, p.to)
		o.gpu, o.cpu = o.gpu+by, o.cpu+1-by
	}
	last := len(s.batches) - 1
	for _, p := range s.batches[:last] {
		serve(p)
	}
	fakeDriver.Reset()
	if o.stats = e.Stats().Devices[0]; o.stats.Faults > 0 {
		said.wait("works again", int(o.stats.Faults))
		o.stats = e.Stats().Devices[0]
	}
	before := o.gpu
	if serve(s.batches[last]); o.gpu != before+1 {
		t.Errorf("%s: after it the GPU does not answer", what)
	}
	if got := f.Stats(); got[0].Failed != uint64(o.cpu) || got[1].Failed != 0 || got[0].Answered+got[1].Answered != rows {
		t.Errorf("%s: the fallback counts %+v, batches by the GPU and the CPU are %d and %d", what, got, o.gpu, o.cpu)
	}
	if now := e.Stats().Devices[0]; !now.Working || now.Faults != now.Rebuilt || int(now.Faults) != said.times("tried again") {
		t.Errorf("%s: %+v, said %q", what, now, said.said)
	}
	o.close = e.Close()
	nothingLeft(t, what+": after Close")
	return o
}

// check checks that all rows of a batch are the answers of one source. It returns 1 if the GPU answered.
func (s *scenario) check(t *testing.T, what string, b *eval.Batch, board, from, to int) int {
	t.Helper()
	gpu, cpu := s.onGPU[board].Slice(from, to), s.onCPU[board].Slice(from, to)
	switch {
	case sameRows(b, &gpu):
		return 1
	case sameRows(b, &cpu):
		return 0
	}
	t.Errorf("%s: a batch has rows that nobody answers so, of sources %v", what, slices.Compact(b.Source))
	return 0
}

// Every call of the driver fails in turn, once and always, with an error that costs only the call and with one that costs
// the context. No batch is lost, no row is wrong, nothing is left allocated, and the counters are right.
func TestEvaluatorEveryCallFails(t *testing.T) {
	noGoroutineLeft(t)
	t.Run("two towers", func(t *testing.T) { everyCallFails(t, newScenario(t, fewRows)) })
	t.Run("wide kernels", func(t *testing.T) {
		s := scenarioOf(t, "1x4/3/5", manyRows) // 5 boards by wide_64, 17 by wide_64_two, 70 by tower_64_half, and those of large by it too
		c, err := NewChoice(s.network.Config(), s.boards[0].Rules(), targetOf(s.on[0]))
		if err != nil {
			t.Fatal(err)
		}
		for n, want := range map[int]string{5: "wide_64", 22: "wide_64_two", 70: "tower_64_half"} {
			if got := c.For(n).Kernel.Name; got != want {
				t.Errorf("%d positions are for %s, want %s", n, got, want)
			}
		}
		everyCallFails(t, s)
	})
}

func everyCallFails(t *testing.T, s *scenario) {
	clean := s.run(t, "without a fault", func() {})
	if clean.start != nil || clean.close != nil || clean.gpu != len(s.batches) || clean.stats.Faults != 0 {
		t.Fatalf("without a fault: %+v", clean)
	}
	calls := s.calls(t)
	if len(calls) != 15 {
		t.Fatalf("%d kinds of calls: %v", len(calls), calls)
	}
	runs, seen := 0, map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		for at := 1; at <= calls[name]; at++ {
			if (testing.Short() || gametest.Race) && at%7 != 1 {
				continue
			}
			for i, times := range []int{1, -1} {
				for j, code := range []int{fake.OutOfMemory, fake.LaunchFailed} {
					if calls[name] > 4 && (at+i+j)%2 == 1 {
						continue // of a call that there are many of, one fails so and the next one the other way
					}
					what := fmt.Sprintf("call %d of %s fails %d times with %d", at, name, times, code)
					o := s.run(t, what, func() { fakeDriver.Fail(name, at, times, code) })
					runs++
					switch {
					case o.start != nil:
						seen["start"]++
						call, _, _ := strings.Cut(name, "_")
						if e := new(driver.Error); !errors.As(o.start, &e) || e.Code != code || name != "kernel" && e.Call != call {
							t.Errorf("%s: does not start: %v", what, o.start)
						}
					case o.stats.Faults > 0:
						seen["fault"]++
					case name == "cuStreamQuery" || name == "cuStreamSynchronize": // their number varies
					default:
						t.Errorf("%s: is not noticed: %+v", what, o)
					}
				}
			}
		}
	}
	t.Logf("%d runs: %v", runs, seen)
	for _, way := range []string{"start", "fault"} {
		if seen[way] == 0 {
			t.Errorf("no fault was seen at %s", way)
		}
	}
}

// calls counts the driver's calls in a scenario without faults, before Close.
func (s *scenario) calls(t *testing.T) map[string]int {
	t.Helper()
	e := s.served(t)
	defer e.Close()
	return fakeDriver.Calls()
}

// served returns an evaluator that has done the whole scenario except Close.
func (s *scenario) served(t *testing.T) *Evaluator {
	t.Helper()
	fakeDriver.Reset()
	e, _, err := newEvaluator(s.network, s.on, Options{}, quick)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.batches[:len(s.batches)-1] {
		evaluate(t, e, s.boards[p.board], s.pos[p.board][p.from:p.to])
	}
	return e
}

// Close reports every call that fails, and frees everything.
func TestEvaluatorCloseFails(t *testing.T) {
	noGoroutineLeft(t)
	s := newScenario(t, fewRows)
	e := s.served(t)
	fakeDriver.Reset()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	calls := fakeDriver.Calls()
	if len(calls) != 5 {
		t.Errorf("calls of Close: %v", calls)
	}
	for name, n := range calls {
		for _, at := range []int{1, n} {
			for _, times := range []int{1, -1} {
				e := s.served(t)
				fakeDriver.Reset()
				fakeDriver.Fail(name, at, times, fake.LaunchFailed)
				var failed *driver.Error
				if err := e.Close(); !errors.As(err, &failed) || failed.Code != fake.LaunchFailed {
					t.Errorf("call %d of %s fails %d times: Close: %v", at, name, times, err)
				}
				nothingLeft(t, fmt.Sprintf("after Close, where call %d of %s failed %d times", at, name, times))
			}
		}
	}
}

// An answer that is not finite costs its batch and nothing else.
func TestEvaluatorNotFinite(t *testing.T) {
	noGoroutineLeft(t)
	s := newScenario(t, fewRows)
	o := s.run(t, "an answer is not finite", func() { fakeDriver.Fail("kernel", 2, 1, fake.Spoil) })
	if o.start != nil || o.cpu != 1 || o.stats.Faults != 0 || o.stats.Rebuilt != 0 {
		t.Errorf("%+v", o)
	}
	if o := s.run(t, "always", func() { fakeDriver.Fail("kernel", 1, -1, fake.Spoil) }); !errors.Is(o.start, errSelfTest) {
		t.Errorf("a device whose answers are never finite serves: %+v", o)
	}
}

// The self-test notices rows that were not written, that differ from their repetition, or that belong to another position.
func TestEvaluatorSelfTestNotices(t *testing.T) {
	devices(t, 1, geforce)
	p, err := newServed(scrambled(t, "1x16/8/16", 1)).planned(testBoard, geforce)
	if err != nil {
		t.Fatal(err)
	}
	l, size := p.variants[0].test, p.RowBytes()
	for name, test := range map[string]struct {
		damage func(rows []byte)
		says   string
	}{
		"nothing":             {func([]byte) {}, ""},
		"nothing was written": {func(rows []byte) { clear(rows) }, "the device left no answer"},
		"a bit of a late row": {func(rows []byte) { rows[13*size+9] ^= 1 }, "rows 5 and 13 are the same position, and differ"},
		"all rows are one": {func(rows []byte) {
			for i := 1; i < 20; i++ {
				copy(rows[i*size:(i+1)*size], rows)
			}
		}, " apart from the reference, at most"},
		"too much of a win": {func(rows []byte) {
			for i := 0; i < 20; i += probes {
				rows[i*size+3] |= 1
				rows[i*size] |= 1
			}
		}, "the device left no answer"},
	} {
		rows := make([]byte, 0, 20*size)
		for i := range 20 {
			rows = appendAnswer(rows, l.want, i%probes)
		}
		test.damage(rows)
		err := l.compare(rows)
		if test.says == "" && err != nil || test.says != "" && (!errors.Is(err, errSelfTest) || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}

// appendAnswer writes an answer in a kernel's format.
func appendAnswer(rows []byte, b *eval.Batch, i int) []byte {
	unit := func(x float32) uint32 { return uint32(x * (1 << 24)) }
	rows = binary.LittleEndian.AppendUint32(rows, answered<<28|unit(b.WDLRow(i)[0]))
	rows = binary.LittleEndian.AppendUint32(rows, unit(b.WDLRow(i)[1]))
	for _, x := range b.PolicyRow(i) {
		rows = binary.LittleEndian.AppendUint32(rows, math.Float32bits(x))
	}
	return rows
}

// A kernel that only another board needs is refused if it fails its self-test. Other batches do not suffer.
func TestEvaluatorRefuses(t *testing.T) {
	noGoroutineLeft(t)
	board, large := game.MustBoard(game.Connect4), game.MustBoard(large)
	e := evaluator(t, scrambled(t, "1x200/8/16", 1), devices(t, 1, geforce), nil)
	pos := gametest.Positions(gametest.Rand(4), board, 5, false)
	want, memory := evaluate(t, e, board, pos), fakeDriver.Count().Memory

	fakeDriver.Reset()
	fakeDriver.Fail("kernel", 1, 1, fake.Spoil)
	for range 2 { // the second time it is refused without a launch
		if err := e.Evaluate(t.Context(), eval.NewBatch(large, 3)); !errors.Is(err, errSelfTest) || !strings.Contains(err.Error(), "kernel tower_any") {
			t.Errorf("a kernel that fails its self-test serves: %v", err)
		}
	}
	if n := fakeDriver.Calls()["kernel"]; n != 1 {
		t.Errorf("it was started %d times", n)
	}
	if !sameRows(evaluate(t, e, board, pos), want) || e.Stats().Devices[0].Faults != 0 {
		t.Error("other batches suffer from it")
	}
	if now := fakeDriver.Count().Memory; now != memory+1 { // that kernel's scratch memory, which is kept for its next test
		t.Errorf("%d pieces of memory after it, %d before", now, memory)
	}
}

// A network that is never finite is refused at the start.
func TestEvaluatorOverflows(t *testing.T) {
	n := scrambled(t, "1x4/3/5", 1)
	for _, name := range []string{"value.wdl.weight", "value.wdl.bias"} {
		for i, w := 0, n.Weight(name).Float32s(); i < len(w); i++ {
			w[i] = 3e38
		}
	}
	noGoroutineLeft(t)
	_, _, err := newEvaluator(n, devices(t, 1, geforce), Options{}, quick)
	if err == nil || !strings.Contains(err.Error(), "self-test: network 1x4/3/5: evaluate: row 0: win-draw-loss logit 0 is") {
		t.Errorf("a network that is never finite: %v", err)
	}
	nothingLeft(t, "after a network that is never finite")
}

// A position with an activation that fp16 cannot hold is answered by the next evaluator, as often as it comes, and the
// device goes on with others.
func TestEvaluatorFloat16Overflows(t *testing.T) {
	noGoroutineLeft(t)
	n, board := scrambled(t, "1x16/8/16", 1), game.MustBoard(game.Connect4)
	w := n.Weight("stem.weight").Float32s() // [16,5,3,3]
	for tap := range 9 {
		w[tap] = 8000 // of the first channel and the plane of own stones: only if all nine are there, it overflows
	}
	for name, taps := range map[string]int{"blocks.0.conv1": 9, "value.conv": 1, "policy.conv": 1} {
		w := n.Weight(name + ".weight").Float32s() // [..,16,..]
		for i := range w {
			if i/taps%16 == 0 {
				w[i] = 0 // nothing comes of that channel while it is finite
			}
		}
	}
	e := evaluator(t, n, devices(t, 1, geforce), nil)
	f := eval.NewFallback(eval.Stage{Name: "gpu", Evaluator: e}, eval.Stage{Name: "cpu", Evaluator: net.NewEvaluator(n)})
	large, _, err := board.ParseMoves("151515262626373737") // nine stones of the side to move in a square
	if err != nil {
		t.Fatal(err)
	}
	small := gametest.Positions(gametest.Rand(4), board, 3, false)
	for range 3 {
		got := evaluate(t, f, board, append([]game.Position{large}, small...))
		if want := reference(t, n, board, got.Pos); !sameRows(got, want) {
			t.Errorf("the rows are not the reference's, sources %v", got.Source)
		}
		if got := evaluate(t, f, board, small); countSource(got, eval.GPU) == 0 || countSource(got, eval.CPU) > 0 {
			t.Errorf("without that position sources are %v", got.Source)
		}
	}
	if d := e.Stats().Devices[0]; !d.Working || d.Faults != 0 || d.Rebuilt != 0 {
		t.Errorf("%+v", d)
	}
}

// A network with a weight that fp16 cannot hold is refused at the start.
func TestEvaluatorRefusesLargeWeights(t *testing.T) {
	noGoroutineLeft(t)
	n := scrambled(t, "1x4/3/5", 1)
	n.Weight("blocks.0.conv1.weight").Float32s()[5] = 7e4
	_, _, err := newEvaluator(n, devices(t, 1, geforce), Options{}, quick)
	if want := "blocks.0.conv1.weight[5] is 70000, and GPUs multiply in float16, up to 65504: take the CPU"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	nothingLeft(t, "after a network of large weights")
}

// If one of two devices is lost, the other serves alone until the first is back.
func TestEvaluatorLosesOneOfTwo(t *testing.T) {
	noGoroutineLeft(t)
	s, said := newScenario(t, fewRows), newEvents()
	e := evaluator(t, s.network, devices(t, 2, geforce), said.say)
	fakeDriver.Fail("kernel", 1, 1, fake.LaunchFailed)
	fakeDriver.Fail("cuCtxCreate_v2", 1, 3, fake.LaunchFailed)
	b := eval.NewBatch(s.boards[0], len(s.pos[0]))
	copy(b.Pos, s.pos[0])
	if err := e.Evaluate(t.Context(), b); err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_LAUNCH_FAILED (719)") {
		t.Errorf("the batch of a device that was lost: %v", err)
	}
	said.wait("tried again", 1)
	for range 5 {
		if b := evaluate(t, e, s.boards[0], s.pos[0]); !sameRows(b, s.onGPU[0]) {
			t.Error("with one device answers differ")
		}
	}
	said.wait("works again", 1)
	faults, tries := uint64(0), uint64(0)
	for _, d := range e.Stats().Devices {
		faults, tries = faults+d.Faults, tries+d.Tries
	}
	if faults != 1 || tries != 4 || len(said.said) != 2 {
		t.Errorf("%d faults, %d tries, said %q; want 1, 4 and two texts", faults, tries, said.said)
	}
	if b := evaluate(t, e, s.boards[0], s.pos[0]); !sameRows(b, s.onGPU[0]) {
		t.Error("after it answers differ")
	}
}

// A launch that does not end is given up: the next evaluator answers its batch and those after it, and Close does not wait.
// If the device comes back, it serves again.
func TestEvaluatorHangs(t *testing.T) {
	noGoroutineLeft(t)
	s, said := newScenario(t, fewRows), newEvents()
	slow := quick
	slow.hang = 4 * time.Second
	e, _, err := newEvaluator(s.network, s.on, Options{Event: said.say}, slow)
	if err != nil {
		t.Fatal(err)
	}
	f := eval.NewFallback(eval.Stage{Name: "gpu", Evaluator: e}, eval.Stage{Name: "cpu", Evaluator: net.NewEvaluator(s.network)})
	fakeDriver.Fail("kernel", 1, 1, fake.Hang)
	var callers sync.WaitGroup
	for range slotsADevice + 2 { // more than there are slots
		callers.Go(func() {
			for range 2 {
				if b := evaluate(t, f, s.boards[0], s.pos[0]); s.check(t, "a device that hangs", b, 0, 0, len(s.pos[0])) != 0 {
					t.Error("a device that hangs answers")
				}
			}
		})
	}
	callers.Wait()
	if d := e.Stats().Devices[0]; d.Working || d.Faults != 1 || d.Last != "GPU 0: a launch does not end" {
		t.Errorf("%+v", d)
	}
	fakeDriver.Reset()
	said.wait("works again", 1)
	if b := evaluate(t, e, s.boards[0], s.pos[0]); !sameRows(b, s.onGPU[0]) {
		t.Error("after it answers differ")
	}
	if d := e.Stats().Devices[0]; !d.Working || d.Faults != 1 || d.Rebuilt != 1 || len(said.said) != 2 {
		t.Errorf("%+v, said %q", d, said.said)
	}

	fakeDriver.Fail("kernel", 1, 1, fake.Hang)
	evaluate(t, f, s.boards[0], s.pos[0])
	if err := e.Close(); !errors.Is(err, errHung) {
		t.Errorf("Close of a device that hangs: %v", err)
	}
	fakeDriver.Reset()
	<-e.devices[0].ended
	nothingLeft(t, "after a device that hung has come back")
}

// Devices that fail for good, with an error that a process does not survive, are given up, which is said once for each, and
// once for all. The next evaluator answers. Other errors are tried again for ever.
func TestEvaluatorLosesDevices(t *testing.T) {
	noGoroutineLeft(t)
	s, said := newScenario(t, fewRows), newEvents()
	few := quick
	few.lose = 3
	lost := make(chan error, 2)
	e, _, err := newEvaluator(s.network, devices(t, 2, geforce), Options{Event: said.say, Lost: func(err error) { lost <- err }}, few)
	if err != nil {
		t.Fatal(err)
	}
	f := eval.NewFallback(eval.Stage{Name: "gpu", Evaluator: e}, eval.Stage{Name: "cpu", Evaluator: net.NewEvaluator(s.network)})
	ask := func(gpu int) {
		t.Helper()
		if b := evaluate(t, f, s.boards[0], s.pos[0]); s.check(t, "a device that is lost", b, 0, 0, len(s.pos[0])) != gpu {
			t.Errorf("a batch is of sources %v", slices.Compact(b.Source))
		}
	}
	fakeDriver.Fail("cuCtxCreate_v2", 1, 10, fake.OutOfMemory)
	fakeDriver.Fail("kernel", 1, 1, fake.IllegalAddress)
	ask(0)
	said.wait("works again", 1)
	for range 2 { // lose one, then the other
		fakeDriver.Fail("cuCtxCreate_v2", 1, -1, fake.IllegalAddress)
		fakeDriver.Fail("kernel", 1, 1, fake.IllegalAddress)
		ask(0)
		said.wait("LOST", 1)
		fakeDriver.Reset()
		if len(*e.live.Load()) > 0 {
			ask(1)
			said.said = nil
		}
	}
	const says = "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered; 3 attempts to use it again have failed: it is LOST to this process, and only a new one can use it"
	if err := <-lost; !strings.HasPrefix(err.Error(), "gpu: no device works: GPU ") || strings.Count(err.Error(), says) != 2 {
		t.Errorf("all devices are lost: %v", err)
	}
	ask(0)
	for _, d := range e.Stats().Devices {
		if d.Working || !d.Lost || !strings.HasSuffix(d.Last, says) || d.Launches > 0 != (d.Busy > 0) {
			t.Errorf("%+v", d)
		}
	}
	if err := e.Close(); err != nil || len(lost) > 0 {
		t.Errorf("Close: %v; lost was called again: %v", err, len(lost) > 0)
	}
	nothingLeft(t, "after both devices were lost")
}

// Many callers evaluate while faults come and go: every batch is answered by the GPU or the reference, never by both.
func TestEvaluatorFaultsUnderLoad(t *testing.T) {
	noGoroutineLeft(t)
	s, said := newScenario(t, manyRows), newEvents()
	s.on = devices(t, 2, geforce)
	e := evaluator(t, s.network, s.on, said.say)
	f := eval.NewFallback(eval.Stage{Name: "gpu", Evaluator: e}, eval.Stage{Name: "cpu", Evaluator: net.NewEvaluator(s.network)})
	stop := make(chan struct{})
	var callers sync.WaitGroup
	var batches [2]atomic.Uint64
	for c := range 4 {
		callers.Go(func() {
			r := gametest.Rand(uint64(c))
			for {
				select {
				case <-stop:
					return
				default:
				}
				from := r.IntN(30)
				to := from + 1 + r.IntN(40)
				b := eval.NewBatch(s.boards[0], to-from)
				copy(b.Pos, s.pos[0][from:to])
				ctx, cancel := context.WithCancel(t.Context())
				if r.IntN(5) == 0 {
					go cancel()
				}
				switch err := f.Evaluate(ctx, b); {
				case err == nil:
					batches[s.check(t, "under load", b, 0, from, to)].Add(1)
				case ctx.Err() == nil:
					t.Error(err)
				}
				cancel()
			}
		})
	}
	faults := []string{"kernel", "cuLaunchKernel", "cuMemcpyDtoHAsync_v2", "cuStreamQuery", "cuMemAlloc_v2"}
	for i, name := range faults {
		code := []int{fake.LaunchFailed, fake.OutOfMemory, fake.IllegalAddress, fake.LaunchFailed, fake.OutOfMemory}[i]
		if name == "cuMemAlloc_v2" { // no memory is allocated while it serves
			fakeDriver.Fail("kernel", 3, 1, fake.LaunchFailed)
		}
		fakeDriver.Fail(name, 2, 1, code)
		said.wait("works again", i+1)
	}
	close(stop)
	callers.Wait()
	if batches[0].Load() == 0 || batches[1].Load() == 0 {
		t.Errorf("batches by CPU and GPU: %d, %d", batches[0].Load(), batches[1].Load())
	}
	stats := e.Stats()
	if n := stats.Devices[0].Faults + stats.Devices[1].Faults; n != uint64(len(faults)) || stats.Devices[0].Rebuilt+stats.Devices[1].Rebuilt != n {
		t.Errorf("%d faults injected: %+v", len(faults), stats)
	}
}

func TestRetry(t *testing.T) {
	r := retry{first: 1, most: 5, calm: 100}
	for _, test := range []struct{ last, worked, want time.Duration }{
		{0, 0, 1}, {1, 0, 2}, {2, 99, 4}, {4, 0, 5}, {5, 0, 5}, {5, 100, 1},
	} {
		if got := r.after(test.last, test.worked); got != test.want {
			t.Errorf("after a wait of %d and %d of work: %d, want %d", test.last, test.worked, got, test.want)
		}
	}
}
