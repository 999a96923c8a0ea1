//go:build gpu && cgo && linux && amd64

package gpu

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cuda/driver/fake"
)

// measuring is quick with a trial of kernels.
func measuring() retry {
	r := quick
	r.trial = time.Minute
	return r
}

// faults makes calls of the driver fail in processes that are started from now on, as fake.Driver.Fail does in this one. What
// trials of other tests left behind is forgotten.
func faults(t *testing.T, name string, code int) {
	t.Helper()
	failed.Lock()
	failed.kernels = nil
	failed.Unlock()
	t.Setenv("EVALD_FAKE_FAULTS", "")
	if name != "" {
		t.Setenv("EVALD_FAKE_FAULTS", fmt.Sprintf("%s:1:-1:%d", name, code))
	}
}

// tuned makes an evaluator on devices whose kernels are measured.
func tuned(t *testing.T, n int, o Options, r retry) (*Backend, []error, error) {
	t.Helper()
	on := devices(t, n, hopper)
	for i := range on {
		on[i].Multiprocessors = 1 // so that a wave is small
	}
	if o.Trial == nil {
		o.Trial = trialProgram(t)
	}
	return newEvaluator(convolutions{scrambled(t, "1x4/3/5", 1)}, on, o, r)
}

// notUnderRace skips a test whose time goes into trials, which are other processes. In this one
// TestEvaluatorWithoutTrial has the same goroutines.
func notUnderRace(t *testing.T) {
	t.Helper()
	if gametest.Race {
		t.Skip("the race detector sees nothing of a trial's process")
	}
}

// noProcessLeft checks that every process that this one started has ended, and its end was noticed.
func noProcessLeft(t *testing.T) {
	t.Helper()
	lists := gametest.Must(filepath.Glob("/proc/self/task/*/children"))(t)
	for _, list := range lists {
		if text, err := os.ReadFile(list); err == nil && len(text) > 0 {
			t.Errorf("process %s is still there", text)
		}
	}
	if len(lists) == 0 {
		t.Error("the system does not say which processes there are")
	}
}

// A device measures all kernels that could evaluate the network, and those with the least times are used. Nothing of the
// trial is left. TestEvaluatorSurvivesKernels has trials each day.
func TestEvaluatorTunes(t *testing.T) {
	notUnderRace(t)
	if !gametest.Today(t, 0, 2) {
		t.Skip("every other day, and in make soak: emulated kernels are slow")
	}
	noGoroutineLeft(t)
	faults(t, "", 0)
	e, notes, err := tuned(t, 2, Options{}, measuring())
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
				t.Errorf("batches of %d are for %s, but %s is faster", small.Most, small.Kernel, kernel)
			}
		}
	}
	closed(t, e)
}

// The kernel for Hopper is used for all batches if two waves of it take less time, and for none if they do not.
func TestEvaluatorChoosesHopper(t *testing.T) {
	gametest.OneGoroutine(t)
	noGoroutineLeft(t)
	board, n := game.MustBoard(game.Connect4), scrambled(t, "1x4/3/5", 1)
	pos := gametest.Positions(gametest.Rand(4), board, 9, true)
	for name, seconds := range map[string]float64{"hopper_64": 1e-6, "tower_64": 1} {
		on := devices(t, 1, hopper)
		e, _, err := newEvaluator(convolutions{n}, on, Options{}, quick)
		if err != nil {
			t.Fatal(err)
		}
		first, _ := newPlan(n.Config(), game.Connect4, hopper)
		h, _ := planHopper(n.Config(), game.Connect4, hopper)
		var groups []choice
		times := Samples{}
		for _, plans := range [][]plan{family(first, targetOf(on[0])), {h}} {
			c := choose(plans, targetOf(on[0]), nil)
			groups = append(groups, c)
			for _, p := range plans {
				for _, s := range c.sizes {
					x := Sample{s.most, 1e-3 * float64(s.most)}
					if p.Kernel.Name == "hopper_64" {
						x.Seconds = seconds * float64(s.most)
					}
					times[p.Kernel.Name] = append(times[p.Kernel.Name], x)
				}
			}
		}
		if got := gains(groups, targetOf(on[0]), times); got != (name == "hopper_64") {
			t.Errorf("with %g s a position of hopper_64 it is used: %v", seconds, got)
		}
		e.serves.hopper = gains(groups, targetOf(on[0]), times)
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

// A kernel that fails in its trial, whatever it does, is not used, which is said; the others serve, and are right. No process, and
// nothing in this one, is left of the trial. No other evaluator of this process tries the kernel again, also on other devices.
func TestEvaluatorSurvivesKernels(t *testing.T) {
	notUnderRace(t)
	noGoroutineLeft(t)
	board := game.MustBoard(game.Connect4)
	pos := gametest.Positions(gametest.Rand(4), board, 9, false)
	n := scrambled(t, "1x4/3/5", 1)
	t.Setenv(withoutVariable, few)
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
			r.trial = hangTime
		}
		on := devices(t, 2, hopper)
		on[0].Multiprocessors, on[1].Multiprocessors = 1, 2 // of two kinds
		faults(t, test.kernel, test.code)
		e, notes, err := newEvaluator(convolutions{n}, on, Options{Trial: trialProgram(t)}, r)
		if err != nil {
			t.Fatal(err)
		}
		if want := "GPU 0: kernel " + test.kernel + " is not used: "; len(notes) != 1 || !strings.HasPrefix(notes[0].Error(), want) || !strings.Contains(notes[0].Error(), test.says) {
			t.Errorf("%s fails with %d: notes %v, want %s... %s", test.kernel, test.code, notes, want, test.says)
		}
		if out := withoutVariable + "=" + test.kernel + " leaves it out from the start"; !strings.HasSuffix(notes[0].Error(), out) {
			t.Errorf("%v, want %s", notes[0], out)
		}
		noProcessLeft(t)
		compare(t, evaluate(t, e, board, pos), reference(t, n, board, pos))
		for _, s := range e.Stats() {
			if _, tried := s.Times[test.kernel]; tried || s.Kernel == test.kernel || s.Faults != 0 || len(s.Times) != 1 {
				t.Errorf("%s fails with %d: %+v", test.kernel, test.code, s)
			}
		}
		closed(t, e)

		t.Setenv("EVALD_FAKE_FAULTS", "")
		if e, notes, err = tuned(t, 1, Options{}, r); err != nil || len(notes) > 0 {
			t.Fatal(err, notes)
		}
		if _, tried := e.Stats()[0].Times[test.kernel]; tried {
			t.Errorf("%s is tried again after it failed", test.kernel)
		}
		closed(t, e)
	}
}

// few leaves tower_64 and hopper_64, so that trials are short.
const few = "tower_64_half,wide_64,few_64"

// hangTime is how long tests wait for what does not end. It is more than any step of a trial in emulation takes.
const hangTime = 20 * time.Second

// If the process of a trial dies, writes nonsense or too much, or cannot be started, one note says so and what is used without
// it. Nothing is left of the process.
func TestEvaluatorWithoutTrial(t *testing.T) {
	noGoroutineLeft(t)
	t.Setenv(withoutVariable, few)
	script := func(text string) []string { return []string{"/bin/sh", "-c", text} }
	for _, test := range []struct {
		program []string
		says    string
	}{
		{[]string{"/no/such/program", trialCommand}, "GPU 0: the trial of its kernels by /no/such/program gpu-trial: fork/exec /no/such/program: no such file or directory; without it evald chooses"},
		{script("echo boom >&2; exit 3"), ": its process ended with exit status 3: boom; without"},
		{script(`kill -SEGV $$`), ": its process ended with signal: segmentation fault"},
		{script(`printf '{"Kernel":"hopper_64"}\n{"Times":{"tow'`), ": its process has no time of kernel tower_64 with 1 positions: is the program of this version?; without"},
		{script(`echo '{"Kernel":"another"}'; exit 1`), ": its process ended with exit status 1: ; without"},
		{script(`echo '{"Times":{"tower_64":[{"positions":1,"seconds":-1}]}}'`), ": its process has no time of kernel tower_64 with 1 positions"},
		{script("echo '{\"Kernel\":\"hopper_64\"}'; echo PASS; exec sleep 1000"), `: its process writes "PASS": invalid character 'P'`},
		{script("exec yes '{}'"), ": its process writes more than 1048576 bytes; without"},
		{script("exec head -c 2000000 /dev/zero"), ": its process writes more than 1048576 bytes; without"},
		{script("exec sleep 1000"), ": a launch does not end; without"},
	} {
		faults(t, "", 0)
		r := measuring()
		if strings.HasPrefix(test.says, ": a launch") {
			r.trial = time.Second
		}
		e, notes, err := tuned(t, 1, Options{Trial: test.program}, r)
		if err != nil || len(notes) != 1 || !strings.HasPrefix(notes[0].Error(), "GPU 0: ") || !strings.Contains(notes[0].Error(), test.says) || len(failed.kernels) > 0 {
			t.Fatalf("%v, notes %v, want %q; without %v", err, notes, test.says, failed.kernels)
		}
		noProcessLeft(t)
		if s := e.Stats()[0]; s.Kernel != "tower_64" || s.Times != nil {
			t.Errorf("%+v", s)
		}
		closed(t, e)
	}
	e, notes, err := tuned(t, 1, Options{Trial: []string{}}, measuring())
	if err != nil || len(notes) != 1 || !strings.HasPrefix(notes[0].Error(), "GPU 0: kernel hopper_64, which may be faster, is not used: no program for its trial is named") {
		t.Fatalf("without a program: %v, notes %v", err, notes)
	}
	closed(t, e)
}

// A process whose kernel crashes it is killed by that alone: the kernel is left out.
func TestEvaluatorCrashingKernel(t *testing.T) {
	notUnderRace(t)
	noGoroutineLeft(t)
	faults(t, "", 0)
	t.Setenv(withoutVariable, "wide_64,hopper_64")
	crashed := filepath.Join(t.TempDir(), "crashed")
	script := `[ -e "$0" ] && exec "$@"; >"$0"; echo '{"Kernel":"tower_64_half"}'; kill -SEGV $$`
	program := append([]string{"/bin/sh", "-c", script, crashed}, trialProgram(t)...)
	e, notes, err := tuned(t, 1, Options{Trial: program}, measuring())
	if err != nil || len(notes) != 1 || !strings.HasPrefix(notes[0].Error(), "GPU 0: kernel tower_64_half is not used: its process ended with signal: segmentation fault") {
		t.Fatalf("%v, notes %v", err, notes)
	}
	if s := e.Stats()[0]; len(s.Times) != 1 {
		t.Errorf("%+v", s)
	}
	noProcessLeft(t)
	closed(t, e)
}

// closing closes an input when something is written.
type closing struct{ input io.Closer }

func (c closing) Write(text []byte) (int, error) { return len(text), c.input.Close() }

// A trial ends when the process that asked for it does, also while a kernel hangs, and refuses requests that it cannot do.
func TestTrialEnds(t *testing.T) {
	noGoroutineLeft(t)
	on := devices(t, 1, hopper)
	on[0].Multiprocessors = 1
	e := &Backend{serves: newServed(convolutions{scrambled(t, "1x4/3/5", 1)})}
	e.serves.barred = strings.Split(few, ",")
	groups := gametest.Must(e.serves.candidates(targetOf(on[0])))(t)
	request := gametest.Must(e.request(on[0], groups))(t)
	fakeDriver.Fail("kernel", 1, -1, fake.Hang)
	const gone = "gpu: trial: the process that asked for it has ended"
	in, ask := io.Pipe()
	go ask.Write(request)
	if err := Trial(in, closing{ask}); err == nil || err.Error() != gone {
		t.Errorf("error %v, want %s", err, gone)
	}
	fakeDriver.Reset()
	settled(t)
	for from, to := range map[string]string{
		"\n": "", `"WDL":[`: `"WDL":[1,`, on[0].UUID: "GPU-another", `"index":0`: `"index":7`, `"Bytes":`: `"Bytes":-`,
	} {
		bad := bytes.Replace(request, []byte(from), []byte(to), 1)
		if err := Trial(bytes.NewReader(bad), io.Discard); err == nil || err.Error() == gone || !strings.HasPrefix(err.Error(), "gpu: trial: ") {
			t.Errorf("with %s in place of %s: error %v", to, from, err)
		}
	}
	nothingLeft(t, "after trials that were refused")
}

// The environment can leave kernels out, but not the one that is needed.
func TestEvaluatorWithoutKernels(t *testing.T) {
	notUnderRace(t)
	noGoroutineLeft(t)
	t.Setenv(withoutVariable, "hopper_64,wide_64,tower_64")
	faults(t, "", 0)
	e, notes, err := tuned(t, 1, Options{}, measuring())
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
	notUnderRace(t)
	noGoroutineLeft(t)
	t.Setenv(withoutVariable, few)
	faults(t, "tower_64", fake.Hang)
	e, _, err := tuned(t, 1, Options{}, retry{trial: hangTime, hang: time.Minute})
	if e != nil || !errors.Is(err, errHung) || err.Error() != "GPU 0: kernel tower_64: a launch does not end: the device is not used" {
		t.Errorf("in a trial: %v", err)
	}
	noProcessLeft(t)
	faults(t, "", 0)
	on := devices(t, 1, hopper)
	fakeDriver.Fail("tower_64", 1, -1, fake.Hang)
	e, _, err = newEvaluator(convolutions{scrambled(t, "1x4/3/5", 1)}, on, Options{}, retry{hang: time.Second})
	if e != nil || !errors.Is(err, errHung) || !strings.HasPrefix(err.Error(), "GPU 0: ") || !strings.HasSuffix(err.Error(), "a launch does not end: the device is LOST to this process, and only a new one can use it") {
		t.Errorf("in its self-test: %v", err)
	}
	fakeDriver.Reset()
	settled(t)
	// One of two devices: the other serves.
	n := scrambled(t, "1x4/3/5", 1)
	on = devices(t, 2, hopper)
	fakeDriver.Fail("tower_64", 1, 1, fake.Hang)
	e, notes, err := newEvaluator(convolutions{n}, on, Options{}, retry{hang: hangTime})
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
	const refusal = "cuLaunchKernel: CUDA_ERROR_INVALID_CLUSTER_SIZE (912): cluster misconfiguration"
	faults(t, "cluster", fake.ClusterSize)
	on := devices(t, 1, hopper)
	on[0].Multiprocessors = 4 // one cluster
	fakeDriver.Fail("cluster", 1, -1, fake.ClusterSize)
	e, notes, err := newEvaluator(convolutions{n}, on, Options{Trial: trialProgram(t)}, measuring())
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

	if _, _, err := newEvaluator(convolutions{n}, on, Options{Kernel: kernel}, quick); err == nil || !strings.HasSuffix(err.Error(), refusal) {
		t.Errorf("the kernel that is refused alone: %v", err)
	}
	fakeDriver.Reset()
	if e, _, err = newEvaluator(convolutions{n}, on, Options{Kernel: kernel}, quick); err != nil {
		t.Fatal(err)
	}
	if got := evaluate(t, e, board, pos); !sameRows(got, want) {
		t.Error("clusters give other answers")
	}
	closed(t, e)
}
