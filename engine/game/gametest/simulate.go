package gametest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

// Simulation is one run of a simulation. All that happens in it follows from these numbers.
type Simulation struct {
	Seed     uint64
	Clients  int  // at most
	Requests int  // of each client, at most
	Faults   bool // whether backends fail, requests are cancelled, and so on

	trace func(format string, args ...any) // nil: none
}

// Tracef writes a line of the trace, if this run is a replay.
func (s *Simulation) Tracef(format string, args ...any) {
	if s.trace != nil {
		s.trace(format, args...)
	}
}

// Traced reports whether Tracef writes.
func (s *Simulation) Traced() bool { return s.trace != nil }

// String is the value of EVALD_SEED that repeats the run.
func (s Simulation) String() string {
	return fmt.Sprintf("%d:%d:%d:%t", s.Seed, s.Clients, s.Requests, s.Faults)
}

// Simulate runs a simulation with the seeds 1 to n, or to EVALD_SEEDS. The error of a run says what was wrong. Then smaller runs are
// tried, and the test fails with the command that repeats the smallest run that fails too.
// EVALD_SEED=K, or a value of String, runs one seed and logs its trace.
func Simulate(t *testing.T, n int, most Simulation, run func(*Simulation) error) {
	t.Helper()
	if text := os.Getenv("EVALD_SEED"); text != "" {
		s := parse(t, text, most)
		s.trace = func(format string, args ...any) { fmt.Fprintf(t.Output(), format+"\n", args...) }
		if err := safely(&s, run); err != nil {
			t.Error(err)
		}
		return
	}
	if text := os.Getenv("EVALD_SEEDS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			t.Fatalf("EVALD_SEEDS=%q: must be a number of seeds, from 1", text)
		}
	}
	if testing.Short() {
		n = max(1, n/10) // under the race detector
	}
	for seed := range uint64(n) {
		s := most
		s.Seed = seed + 1
		if err := safely(&s, run); err != nil {
			small, smallErr := shrink(s, err, run)
			t.Fatalf("seed %d: %v\n\nThe smallest run that fails: %v\nIts trace: EVALD_SEED=%v go test ./%s -run '^%s$' -v", s.Seed, err, smallErr, small, folder(t), t.Name())
		}
	}
}

// parse reads a value of EVALD_SEED.
func parse(t testing.TB, text string, most Simulation) Simulation {
	t.Helper()
	s, fields := most, strings.Split(text, ":")
	var err error
	if s.Seed, err = strconv.ParseUint(fields[0], 10, 64); err == nil && len(fields) > 1 {
		_, err = fmt.Sscanf(strings.Join(fields[1:], " "), "%d %d %t", &s.Clients, &s.Requests, &s.Faults)
	}
	if err != nil {
		t.Fatalf("EVALD_SEED=%q: must be a seed, or SEED:CLIENTS:REQUESTS:FAULTS as a test has printed it: %v", text, err)
	}
	return s
}

// safely is a run whose panic is its error.
func safely(s *Simulation, run func(*Simulation) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v\n%s", p, debug.Stack())
		}
	}()
	return run(s)
}

// shrink looks for a smaller run that fails. A run with other numbers is another one, so it tries several seeds, and
// gives up after a thousand runs.
func shrink(s Simulation, err error, run func(*Simulation) error) (Simulation, error) {
	const seeds = 50
	for tries := 0; ; {
		var smaller []Simulation
		for _, c := range []int{1, s.Clients / 2, s.Clients - 1} {
			smaller = append(smaller, Simulation{Clients: c, Requests: s.Requests, Faults: s.Faults})
		}
		for _, r := range []int{1, s.Requests / 2, s.Requests - 1} {
			smaller = append(smaller, Simulation{Clients: s.Clients, Requests: r, Faults: s.Faults})
		}
		smaller = append(smaller, Simulation{Clients: s.Clients, Requests: s.Requests})
		found := false
		for _, try := range smaller {
			if found || try.Clients < 1 || try.Requests < 1 || try.Clients == s.Clients && try.Requests == s.Requests && try.Faults == s.Faults {
				continue
			}
			for k := range uint64(seeds) {
				if tries++; tries > 1000 {
					return s, err
				}
				try.Seed = s.Seed + k
				if e := safely(&try, run); e != nil {
					s, err, found = try, e, true
					break
				}
			}
		}
		if !found {
			return s, err
		}
	}
}

// folder is the tested package's folder in the repository.
func folder(t *testing.T) string {
	_, self, _, _ := runtime.Caller(0)
	wd := Must(os.Getwd())(t)
	name, err := filepath.Rel(filepath.Join(filepath.Dir(self), "../../.."), wd)
	OK(t, err)
	return filepath.ToSlash(name)
}
