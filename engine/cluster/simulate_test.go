package cluster

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evald/evald/engine/game/gametest"
)

// The simulation runs a learner and workers in one goroutine and in virtual time: the same learnerState and workerState that run in
// the real program, the same store, spool and networks, over a simulated network, disk and clock, whose faults follow from a seed. A
// seed of the same code is always the same run.
//
//	simulate_test.go  the test: seeds, options, shrinking
//	simworld_test.go  time, the network between the processes, faults, and what must hold
//	simlearner_test.go, simworker_test.go  the processes
//
// EVALD_SEEDS=N runs N seeds, beginning with EVALD_SEED_FROM (1). EVALD_SEED=K runs seed K alone and prints what happens. A failure prints
// the value of EVALD_SEED that repeats it with fewer workers and faults, for example 7,workers=3,faults=kill+loss (gametest.Kind).

// simOptions are what is simulated. A failure is shrunk by making them smaller.
type simOptions struct {
	seed    uint64
	workers int
	games   int // of a generation
	seconds int // for which there are faults
	faults  simFaults
}

// simFaults are kinds of faults, as bits.
type simFaults uint

const (
	loss      simFaults = 1 << iota // messages are lost
	double                          // and come twice
	late                            // and come late, after later ones
	cut                             // connections are cut
	kill                            // processes are killed, between events or at any operation of their disk
	power                           // machines lose their power, and what was not synced
	full                            // disks are full for a while
	flip                            // bits of files are flipped while a machine is down
	clock                           // clocks are wrong
	damage                          // bits of networks are flipped on their way
	liar                            // a worker lies
	old                             // a worker has another version
	switched                        // the learner is another run's for a while
	slow                            // disks and computers are slow
	failing                         // disks cannot write for a while, so that syncs fail
	allFaults = failing<<1 - 1
)

var faultNames = []string{"loss", "double", "late", "cut", "kill", "power", "full", "flip", "clock", "damage", "liar", "old", "switched", "slow", "failing"}

// optionsOf are those of a seed.
func optionsOf(seed uint64) simOptions {
	random := rand.New(rand.NewPCG(seed, 1))
	o := simOptions{seed: seed, workers: 3 + min(random.IntN(18), random.IntN(18)), games: 6 + random.IntN(25), seconds: 10 + random.IntN(60)}
	switch random.IntN(4) {
	case 0:
		o.faults = allFaults
	case 1: // one kind alone, or none
		o.faults = 1 << random.IntN(len(faultNames)+1) & allFaults
	default:
		o.faults = simFaults(random.Uint64()) & allFaults
	}
	return o
}

func (o simOptions) String() string {
	var names []string
	for i, name := range faultNames {
		if o.faults>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return fmt.Sprintf("%d,workers=%d,games=%d,seconds=%d,faults=%s", o.seed, o.workers, o.games, o.seconds, strings.Join(names, "+"))
}

// parseOptions reads what String writes; what is left out is that of the seed.
func parseOptions(text string) (o simOptions, err error) {
	first, rest, _ := strings.Cut(text, ",")
	seed, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		return o, err
	}
	o = optionsOf(seed)
	for rest != "" {
		var field string
		field, rest, _ = strings.Cut(rest, ",")
		name, value, _ := strings.Cut(field, "=")
		if name == "faults" {
			o.faults = 0
			for _, f := range strings.FieldsFunc(value, func(r rune) bool { return r == '+' }) {
				i := slices.Index(faultNames, f)
				if i < 0 {
					return o, fmt.Errorf("fault %q, want some of %v", f, faultNames)
				}
				o.faults |= 1 << i
			}
			continue
		}
		target := map[string]*int{"workers": &o.workers, "games": &o.games, "seconds": &o.seconds}[name]
		if target == nil {
			return o, fmt.Errorf("option %q", field)
		}
		if *target, err = strconv.Atoi(value); err != nil {
			return o, err
		}
	}
	return o, nil
}

// smaller are runs that are easier to understand.
func (o simOptions) smaller() (all []simOptions) {
	add := func(change func(*simOptions)) {
		c := o
		change(&c)
		if c != o && c.workers > 0 && c.games > 0 {
			all = append(all, c)
		}
	}
	for i := range faultNames {
		add(func(c *simOptions) { c.faults &^= 1 << i })
	}
	for _, n := range []int{1, o.workers / 2, o.workers - 1} {
		add(func(c *simOptions) { c.workers = n })
	}
	for _, n := range []int{1, o.games / 2, o.games - 1} {
		add(func(c *simOptions) { c.games = n })
	}
	for _, n := range []int{o.seconds / 2, max(0, o.seconds-1)} {
		add(func(c *simOptions) { c.seconds = n })
	}
	return all
}

// When a worker changes to another run, it does not number its questions from 1 again. So a late answer from the earlier run is not taken
// for the answer to a new question.
func TestQuestionNumbersContinue(t *testing.T) {
	s := newWorkerState(WorkerOptions{Log: slog.New(slog.DiscardHandler)}, simPace, "w", 7, nil)
	s.step(time.Unix(0, 0))
	if e := s.take(); len(e) != 1 || e[0].call != 8 {
		t.Fatalf("effects %+v, want question 8", e)
	}
	s.answered(time.Unix(1, 0), 7, encode(reply{Run: "R"}), nil)
	if s.hello.number != 8 || s.run != "" {
		t.Errorf("the answer to question 7 counts for question %d", s.hello.number)
	}
}

// A seed is always the same run.
func TestSimulateRepeats(t *testing.T) {
	gametest.OneGoroutine(t)
	for seed := range uint64(6) {
		var runs [2]strings.Builder
		for i := range runs {
			w := newWorld(optionsOf(1000+seed), func(format string, args ...any) { fmt.Fprintf(&runs[i], format+"\n", args...) })
			gametest.OK(t, w.run())
		}
		if a, b := runs[0].String(), runs[1].String(); a != b || len(a) < 1000 {
			t.Errorf("seed %d: two runs of %d and %d bytes differ", 1000+seed, len(a), len(b))
		}
	}
}

// Under all faults a cluster keeps each game that was reported to a worker, once, and no other; the files are those of one machine; the run
// continues within simBound after the last fault; and the memory is bounded.
func TestSimulate(t *testing.T) {
	var mu sync.Mutex
	var sum simStats
	seeds := 150
	if gametest.Race { // a world has one goroutine
		seeds = 12
	}
	gametest.Kind[simOptions]{Of: optionsOf, Parse: parseOptions, Smaller: simOptions.smaller, Run: func(o simOptions, trace gametest.Trace) error {
		w := newWorld(o, trace)
		err := w.run()
		mu.Lock()
		defer mu.Unlock()
		sum.add(w.stats)
		return err
	}}.Simulate(t, seeds)
	t.Logf("%+v", sum)
}
