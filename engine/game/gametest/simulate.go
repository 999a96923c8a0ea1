package gametest

import (
	"cmp"
	"container/heap"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Trace writes a line of a simulation's trace; nil if the trace is not wanted.
type Trace func(format string, args ...any)

// Kind is a kind of simulation. All events of a run depend only on its options O, whose String is the input of Parse.
type Kind[O fmt.Stringer] struct {
	Of      func(seed uint64) O
	Parse   func(text string) (O, error) // also accepts only a seed
	Smaller func(O) []O                  // options of simpler runs, for shrinking
	Run     func(O, Trace) error         // returns the fault that the run found
}

// Simulate runs n seeds, or EVALD_SEEDS seeds; with -short, n/10. Seeds begin at 1 or EVALD_SEED_FROM. GOMAXPROCS or EVALD_SEED_CORES of
// them run at once. When one fails, Simulate tries smaller runs, and the test prints the command that repeats the smallest failing one.
// EVALD_SEED=K, or the value that the test printed, repeats one run and logs its trace.
func (k Kind[O]) Simulate(t *testing.T, n int) {
	t.Helper()
	if text := os.Getenv("EVALD_SEED"); text != "" {
		o, err := k.Parse(text)
		if err != nil {
			t.Fatalf("EVALD_SEED=%q: must be a seed, or what a test has printed: %v", text, err)
		}
		OK(t, k.safely(o, func(format string, args ...any) { fmt.Fprintf(t.Output(), format+"\n", args...) }))
		return
	}
	if testing.Short() {
		n = max(1, n/10)
	}
	n, from := number(t, "EVALD_SEEDS", n), number(t, "EVALD_SEED_FROM", 1)
	var next atomic.Int64
	var failed atomic.Bool
	var all sync.WaitGroup
	start := time.Now()
	for range min(n, number(t, "EVALD_SEED_CORES", runtime.GOMAXPROCS(0))) {
		all.Go(func() {
			for i := int(next.Add(1)); i <= n && !failed.Load(); i = int(next.Add(1)) {
				o := k.Of(uint64(from + i - 1))
				if err := k.safely(o, nil); err != nil {
					failed.Store(true)
					small, smallErr := k.shrink(o, err)
					t.Errorf("seed %d of %d from %d, %v: %v\n\nThe smallest run that fails: %v\nIts trace: EVALD_SEED=%v go test ./%s -run '^%s$' -v", i, n, from, o, err, smallErr, small, folder(t), t.Name())
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d seeds from %d on, %.0f a minute", min(int(next.Load()), n), from, float64(n)/time.Since(start).Minutes())
}

func number(t testing.TB, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: must be a number from 1 on", variable, text)
	}
	return n
}

// safely runs o and turns a panic into an error.
func (k Kind[O]) safely(o O, trace Trace) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v\n%s", p, debug.Stack())
		}
	}()
	return k.Run(o, trace)
}

// shrink looks for a smaller run that fails, in at most a thousand tries.
func (k Kind[O]) shrink(o O, err error) (O, error) {
	for tries, found := 0, true; found; {
		found = false
		for _, small := range k.Smaller(o) {
			if tries++; tries > 1000 {
				return o, err
			}
			if e := k.safely(small, nil); e != nil {
				o, err, found = small, e, true
				break
			}
		}
	}
	return o, err
}

// folder is the tested package's folder in the repository.
func folder(t *testing.T) string {
	_, self, _, _ := runtime.Caller(0)
	wd := Must(os.Getwd())(t)
	name, err := filepath.Rel(filepath.Join(filepath.Dir(self), "../../.."), wd)
	OK(t, err)
	return filepath.ToSlash(name)
}

// Simulation is one run of a simulation of clients and their requests. Every event depends only on these fields.
type Simulation struct {
	Seed     uint64
	Clients  int  // at most
	Requests int  // of each client, at most
	Faults   bool // whether backends fail, requests are cancelled, and so on

	trace Trace
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

// Simulate runs simulations with at most the numbers of most; see Kind.Simulate.
func Simulate(t *testing.T, n int, most Simulation, run func(*Simulation) error) {
	t.Helper()
	Kind[Simulation]{
		Of: func(seed uint64) Simulation {
			return Simulation{Seed: seed, Clients: most.Clients, Requests: most.Requests, Faults: most.Faults}
		},
		Parse:   func(text string) (Simulation, error) { return parse(text, most) },
		Smaller: Simulation.smaller,
		Run:     func(s Simulation, trace Trace) error { s.trace = trace; return run(&s) },
	}.Simulate(t, n)
}

// parse reads a value of EVALD_SEED.
func parse(text string, most Simulation) (s Simulation, err error) {
	fields := strings.Split(text, ":")
	s = most
	if s.Seed, err = strconv.ParseUint(fields[0], 10, 64); err == nil && len(fields) > 1 {
		_, err = fmt.Sscanf(strings.Join(fields[1:], " "), "%d %d %t", &s.Clients, &s.Requests, &s.Faults)
	}
	return s, err
}

// smaller lists runs with fewer clients, requests or faults. Any changed number changes the whole run, so smaller tries each change with
// several seeds.
func (s Simulation) smaller() (all []Simulation) {
	add := func(change func(*Simulation)) {
		c := s
		change(&c)
		if c.String() == s.String() || c.Clients < 1 || c.Requests < 1 {
			return
		}
		for range 50 {
			all = append(all, c)
			c.Seed++
		}
	}
	for _, n := range []int{1, s.Clients / 2, s.Clients - 1} {
		add(func(c *Simulation) { c.Clients = n })
	}
	for _, n := range []int{1, s.Requests / 2, s.Requests - 1} {
		add(func(c *Simulation) { c.Requests = n })
	}
	add(func(c *Simulation) { c.Faults = false })
	return all
}

// Agenda is the queue of future events in a simulation.
type Agenda struct{ events events }

type events []event

type event struct {
	at    time.Time
	order uint64
	do    func()
}

// Len is the number of events.
func (a *Agenda) Len() int { return len(a.events) }

// Add adds an event. Events at the same time happen in ascending order of order.
func (a *Agenda) Add(at time.Time, order uint64, do func()) {
	heap.Push(&a.events, event{at, order, do})
}

// Next removes the earliest event.
func (a *Agenda) Next() (at time.Time, do func()) {
	e := heap.Pop(&a.events).(event)
	return e.at, e.do
}

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return cmp.Or(e[i].at.Compare(e[j].at), cmp.Compare(e[i].order, e[j].order)) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
