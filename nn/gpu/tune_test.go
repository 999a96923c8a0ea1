//go:build gpu && cgo && linux && amd64

package gpu

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/kernels/cuda/driver/fake"
)

// measuring is quick with a trial of kernels.
func measuring() retry {
	r := quick
	r.trial = time.Minute
	return r
}

// forget removes what trials of other tests left behind.
func forget(t *testing.T) {
	hung.Lock()
	defer hung.Unlock()
	hung.kernels = nil
}

// tuned makes an evaluator on a device whose kernels are measured, while a fault is there.
func tuned(t *testing.T, n int, r retry, fault func()) (*Backend, []error, error) {
	t.Helper()
	forget(t)
	on := devices(t, n, hopper)
	for i := range on {
		on[i].Multiprocessors = 1 // so that a wave is small
	}
	fault()
	return newEvaluator(scrambled(t, "1x4/3/5", 1), on, Options{}, r)
}

// A device measures all kernels that could evaluate the network, and those with the least times are used. Nothing of the
// trial is left.
func TestEvaluatorTunes(t *testing.T) {
	noGoroutineLeft(t)
	e, notes, err := tuned(t, 2, measuring(), func() {})
	if err != nil || len(notes) > 0 {
		t.Fatal(err, notes)
	}
	s := e.Stats()[1]
	for _, kernel := range []string{"tower_64", "tower_64_half", "wide_64", "hopper_64", "few_64"} {
		if len(s.Times[kernel]) < 5 {
			t.Errorf("%s was measured %d times", kernel, len(s.Times[kernel]))
		}
		for _, x := range s.Times[kernel] {
			if !(x.Seconds > 0 && x.Seconds < 100) {
				t.Errorf("%s takes %g s for %d positions", kernel, x.Seconds, x.Positions)
			}
		}
	}
	most := s.Times[s.Kernel][len(s.Times[s.Kernel])-1].Positions
	for _, small := range append(slices.Clone(s.Small), Sized{s.Kernel, most}) {
		for kernel := range s.Times {
			hopper := func(name string) bool { return strings.HasPrefix(name, "hopper") || strings.HasPrefix(name, "few") }
			if hopper(kernel) == hopper(s.Kernel) && s.Times.at(kernel, small.Most) < s.Times.at(small.Kernel, small.Most) {
				t.Errorf("batches of %d are for %s, but %s is sooner", small.Most, small.Kernel, kernel)
			}
		}
	}
	closed(t, e)
}

// The kernel for Hopper is used for all batches if two waves of it take less time, and for none if they do not.
func TestEvaluatorChoosesHopper(t *testing.T) {
	noGoroutineLeft(t)
	board, n := game.MustBoard(game.Connect4), scrambled(t, "1x4/3/5", 1)
	pos := gametest.Positions(gametest.Rand(4), board, 9, true)
	for name, seconds := range map[string]float64{"hopper_64": 1e-6, "tower_64": 1} {
		on := devices(t, 1, hopper)
		e, _, err := newEvaluator(n, on, Options{}, quick)
		if err != nil {
			t.Fatal(err)
		}
		first, _ := newPlan(n.Config(), game.Connect4, hopper)
		h, _ := planHopper(n.Config(), game.Connect4, hopper)
		tr := &trial{d: on[0], times: Samples{}}
		for _, plans := range [][]plan{family(first, targetOf(on[0])), {h}} {
			c := choose(plans, targetOf(on[0]), nil)
			tr.groups = append(tr.groups, c)
			for _, p := range plans {
				for _, s := range c.sizes {
					x := Sample{s.most, 1e-3 * float64(s.most)}
					if p.Kernel.Name == "hopper_64" {
						x.Seconds = seconds * float64(s.most)
					}
					tr.times[p.Kernel.Name] = append(tr.times[p.Kernel.Name], x)
				}
			}
		}
		if got := tr.gains(); got != (name == "hopper_64") {
			t.Errorf("with %g s a position of hopper_64 it is used: %v", seconds, got)
		}
		e.serves.hopper = tr.gains()
		e.serves.plans = map[planKey]*planned{}
		for _, n := range []int{1, 9} {
			if got := evaluate(t, e, board, pos[:n]); countSource(got, eval.GPU) == 0 {
				t.Errorf("sources %v", got.Source)
			}
			p, err := e.serves.planned(board, targetOf(on[0]))
			if err != nil || p.at(n).Kernel.Exact != (name == "hopper_64") {
				t.Errorf("%d positions by %s, %v", n, p.at(n).Kernel.Name, err)
			}
		}
		closed(t, e)
	}
}

// A kernel that fails in its trial, whatever it does, is not used, which is said; the others serve, and are right.
func TestEvaluatorSurvivesKernels(t *testing.T) {
	noGoroutineLeft(t)
	board := game.MustBoard(game.Connect4)
	pos := gametest.Positions(gametest.Rand(4), board, 9, false)
	n := scrambled(t, "1x4/3/5", 1)
	for _, test := range []struct {
		kernel string
		code   int
		says   string
	}{
		{"hopper_64", fake.Spoil, "self-test failed"},
		{"hopper_64", fake.LaunchFailed, "CUDA_ERROR_LAUNCH_FAILED (719)"},
		{"hopper_64", fake.Hang, "a launch does not end"},
	} {
		r := measuring()
		if test.code == fake.Hang {
			r.trial = 8 * time.Second
		}
		e, notes, err := tuned(t, 1, r, func() { fakeDriver.Fail(test.kernel, 1, -1, test.code) })
		if err != nil {
			t.Fatal(err)
		}
		if want := "GPU 0: kernel " + test.kernel + " is not used: "; len(notes) != 1 || !strings.HasPrefix(notes[0].Error(), want) || !strings.Contains(notes[0].Error(), test.says) {
			t.Errorf("%s fails with %d: notes %v, want %s... %s", test.kernel, test.code, notes, want, test.says)
		}
		if out := withoutVariable + "=" + test.kernel + " leaves it out from the start"; !strings.HasSuffix(notes[0].Error(), out) {
			t.Errorf("%v, want %s", notes[0], out)
		}
		compare(t, evaluate(t, e, board, pos), reference(t, n, board, pos))
		s := e.Stats()[0]
		if _, tried := s.Times[test.kernel]; tried || s.Kernel == test.kernel || s.Faults != 0 || len(s.Times) != 3 {
			t.Errorf("%s fails with %d: %+v", test.kernel, test.code, s)
		}
		if test.code == fake.Hang { // the next evaluator does not try it again, though the thread hangs still
			again, notes, err := newEvaluator(n, []driver.Device{e.devices[0].info}, Options{}, r)
			if err != nil || len(notes) > 0 {
				t.Fatal(err, notes)
			}
			if _, tried := again.Stats()[0].Times[test.kernel]; tried {
				t.Errorf("%s is tried again after it hung", test.kernel)
			}
			if err := again.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		fakeDriver.Reset() // what hung goes on, and ends
		settled(t)
	}
}

// The environment can leave kernels out, but not the one that is needed.
func TestEvaluatorWithoutKernels(t *testing.T) {
	noGoroutineLeft(t)
	t.Setenv(withoutVariable, "hopper_64,wide_64,tower_64")
	e, notes, err := tuned(t, 1, measuring(), func() {})
	if err != nil || len(notes) > 0 {
		t.Fatal(err, notes)
	}
	s := e.Stats()[0]
	var got []string
	for kernel := range s.Times {
		got = append(got, kernel)
	}
	slices.Sort(got)
	if want := []string{"tower_64", "tower_64_half"}; !slices.Equal(got, want) {
		t.Errorf("%v were measured, want %v", got, want)
	}
	closed(t, e)
}

// If even the tower does not end, the device is refused, and the next evaluator can answer.
func TestEvaluatorRefusesWhatHangs(t *testing.T) {
	noGoroutineLeft(t)
	for name, r := range map[string]retry{"in a trial": {trial: time.Second, hang: time.Minute}, "in its self-test": {hang: time.Second}} {
		e, _, err := tuned(t, 1, r, func() { fakeDriver.Fail("tower_64", 1, -1, fake.Hang) })
		if e != nil || !errors.Is(err, errHung) || !strings.HasPrefix(err.Error(), "GPU 0: ") || !strings.HasSuffix(err.Error(), "a launch does not end: the device is LOST to this process, and only a new one can use it") {
			t.Errorf("%s: %v", name, err)
		}
		fakeDriver.Reset()
		settled(t)
	}
	// One of two devices: the other serves.
	n := scrambled(t, "1x4/3/5", 1)
	on := devices(t, 2, hopper)
	fakeDriver.Fail("tower_64", 1, 1, fake.Hang)
	e, notes, err := newEvaluator(n, on, Options{}, retry{hang: 8 * time.Second})
	if err != nil || len(notes) != 1 || !errors.Is(notes[0], errHung) || len(e.devices) != 1 {
		t.Fatalf("%v, notes %v", err, notes)
	}
	board := game.MustBoard(game.Connect4)
	evaluate(t, e, board, gametest.Positions(gametest.Rand(4), board, 9, false))
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	fakeDriver.Reset()
	settled(t)
}

// settled waits until threads that hung have given back what they had.
func settled(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); fakeDriver.Count().Contexts > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after the end of what hung there is %+v", fakeDriver.Count())
		}
	}
	nothingLeft(t, "after the end of what hung")
}

// A device that refuses to launch clusters uses the kernel without, and says so. One that launches them answers by them, with the same
// bits.
func TestEvaluatorWithoutClusters(t *testing.T) {
	soakOnly(t, true)
	noGoroutineLeft(t)
	t.Setenv(withoutVariable, "wide_256,tower_256_half") // so that the trial is shorter
	const network, kernel = "1x130/3/5", "few_256"
	board, n := game.MustBoard(game.Connect4), scrambled(t, network, 1)
	pos := gametest.Positions(gametest.Rand(4), board, 4, false)
	refuse := func() { fakeDriver.Fail("cluster", 1, -1, fake.ClusterSize) }
	const refusal = "cuLaunchKernel: CUDA_ERROR_INVALID_CLUSTER_SIZE (912): cluster misconfiguration"
	forget(t)
	on := devices(t, 1, hopper)
	on[0].Multiprocessors = 4 // one cluster
	refuse()
	e, notes, err := newEvaluator(n, on, Options{}, measuring())
	if err != nil {
		t.Fatal(err)
	}
	if want := "GPU 0: kernel " + kernel + " is not used: " + refusal; len(notes) != 1 || !strings.HasPrefix(notes[0].Error(), want) {
		t.Errorf("notes %v, want %s", notes, want)
	}
	if got := slices.Sorted(maps.Keys(e.Stats()[0].Times)); !slices.Equal(got, []string{"hopper_256", "tower_256"}) {
		t.Errorf("%v were measured", got)
	}
	e.serves.hopper = true // whatever the times
	e.serves.plans = map[planKey]*planned{}
	want := evaluate(t, e, board, pos)
	compare(t, want, reference(t, n, board, pos))
	if got := e.Stats()[0]; got.Kernel != "hopper_256" || len(got.Small) > 0 || got.Faults > 0 {
		t.Errorf("%+v", got)
	}
	closed(t, e)

	if _, _, err := newEvaluator(n, on, Options{Kernel: kernel}, quick); err == nil || !strings.HasSuffix(err.Error(), refusal) {
		t.Errorf("the kernel that is refused alone: %v", err)
	}
	fakeDriver.Reset()
	if e, _, err = newEvaluator(n, on, Options{Kernel: kernel}, quick); err != nil {
		t.Fatal(err)
	}
	if got := evaluate(t, e, board, pos); !sameRows(got, want) {
		t.Error("clusters give other answers")
	}
	closed(t, e)
}
