//go:build gpu && cgo && linux && amd64

package gpu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/kernels/cuda/driver/fake"
	"github.com/evald/evald/nn/net"
)

// Every call of the driver fails in turn, once and always, with an error that costs only the call and with one that costs
// the context. No batch is lost, no row is wrong, nothing is left allocated, and the counters are right. Each day has a part of
// the calls (gametest.Today), and always the first and the last ones of each kind.
func TestEvaluatorEveryCallFails(t *testing.T) {
	noGoroutineLeft(t)
	t.Run("two towers", func(t *testing.T) { everyCallFails(t, newScenario(t, fewRows)) })
	if gametest.Race {
		return // the goroutines are the same
	}
	t.Run("wide kernels", func(t *testing.T) {
		s := scenarioOf(t, "1x4/3/5", manyRows) // 5 boards by wide_64, 70 by tower_64_half, and those of large by it too
		c := predicted(t, s.network.Config(), s.boards[0].Rules(), targetOf(s.on[0]))
		for n, want := range map[int]string{5: "wide_64", 70: "tower_64_half"} {
			if got := c.at(n).Kernel.Name; got != want {
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
	if len(calls) != 16 {
		t.Fatalf("%d kinds of calls: %v", len(calls), calls)
	}
	runs, seen := 0, map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		for at := 1; at <= calls[name]; at++ {
			always := at == 1 || !gametest.Race && (at == 2 || at == calls[name])
			if !always && !gametest.Today(t, at, 14) {
				continue
			}
			for i, times := range []int{1, -1} {
				for j, code := range []int{fake.OutOfMemory, fake.LaunchFailed} {
					if calls[name] > 4 && (at+i+j)%2 == 1 {
						continue // of a call that there are many of, one fails so and the next one the other way
					}
					if calls[name] <= 4 && !gametest.Today(t, at+i+j, 2) {
						continue // of the others each fails so on one day, and the other way on the next
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

// Close destroys the context, which frees everything, and reports if that fails.
func TestEvaluatorCloseFails(t *testing.T) {
	noGoroutineLeft(t)
	s := newScenario(t, fewRows)
	e := s.served(t)
	fakeDriver.Reset()
	closed(t, e)
	calls := fakeDriver.Calls()
	if !maps.Equal(calls, map[string]int{"cuCtxDestroy_v2": 1}) {
		t.Errorf("calls of Close: %v", calls)
	}
	e = s.served(t)
	fakeDriver.Reset()
	fakeDriver.Fail("cuCtxDestroy_v2", 1, 1, fake.LaunchFailed)
	var failed *driver.Error
	if err := e.Close(); !errors.As(err, &failed) || failed.Code != fake.LaunchFailed {
		t.Errorf("Close: %v", err)
	}
	nothingLeft(t, "after Close, which failed")
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
	if err := e.Compute(t.Context(), b); err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_LAUNCH_FAILED (719)") {
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
	for _, d := range e.Stats() {
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
	e, _, err := newEvaluator(convolutions{s.network}, s.on, Options{Event: said.say}, slow)
	if err != nil {
		t.Fatal(err)
	}
	f := eval.Fallback{{Name: "gpu", Backend: e}, {Name: "cpu", Backend: net.NewBackend(s.network)}}
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
	if d := e.Stats()[0]; d.Working || d.Faults != 1 || d.Last != "GPU 0: a launch does not end" {
		t.Errorf("%+v", d)
	}
	fakeDriver.Reset()
	said.wait("works again", 1)
	if b := evaluate(t, e, s.boards[0], s.pos[0]); !sameRows(b, s.onGPU[0]) {
		t.Error("after it answers differ")
	}
	if d := e.Stats()[0]; !d.Working || d.Faults != 1 || d.Rebuilt != 1 || len(said.said) != 2 {
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

// A panic in a device's thread is an error of the batch that it had, which no other evaluator
// answers in its place. The device serves again.
func TestEvaluatorPanics(t *testing.T) {
	noGoroutineLeft(t)
	s, said := newScenario(t, fewRows), newEvents()
	e, _, err := newEvaluator(convolutions{s.network}, s.on, Options{Event: said.say}, quick)
	gametest.OK(t, err)
	f := eval.Fallback{{Name: "gpu", Backend: e}, {Name: "cpu", Backend: net.NewBackend(s.network)}}
	broken := (*e.live.Load())[0]
	gametest.OK(t, broken.order(func() error { broken.kernels, broken.tested = nil, nil; return nil }))
	b := eval.NewBatch(s.boards[0], len(s.pos[0]))
	copy(b.Pos, s.pos[0])
	if err := f.Compute(t.Context(), b); fault.In(err) == nil {
		t.Errorf("error %v, want a fault", err)
	}
	said.wait("works again", 1)
	if b := evaluate(t, e, s.boards[0], s.pos[0]); !sameRows(b, s.onGPU[0]) {
		t.Error("after it answers differ")
	}
	gametest.OK(t, e.Close())
	nothingLeft(t, "after a panic")
}

// Devices that fail for good, with an error that a process does not survive, are given up, which is said once for each, and
// once for all. The next evaluator answers. Other errors are tried again for ever.
func TestEvaluatorLosesDevices(t *testing.T) {
	noGoroutineLeft(t)
	s, said := newScenario(t, fewRows), newEvents()
	few := quick
	few.lose = 3
	lost := make(chan error, 2)
	e, _, err := newEvaluator(convolutions{s.network}, devices(t, 2, geforce), Options{Event: said.say, Lost: func(err error) { lost <- err }}, few)
	if err != nil {
		t.Fatal(err)
	}
	f := eval.Fallback{{Name: "gpu", Backend: e}, {Name: "cpu", Backend: net.NewBackend(s.network)}}
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
	for _, d := range e.Stats() {
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
	f := eval.Fallback{{Name: "gpu", Backend: e}, {Name: "cpu", Backend: net.NewBackend(s.network)}}
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
				switch err := f.Compute(ctx, b); {
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
	if n := stats[0].Faults + stats[1].Faults; n != uint64(len(faults)) || stats[0].Rebuilt+stats[1].Rebuilt != n {
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
