package mcts

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
)

// panicsAt returns a function that panics at its n-th call.
func panicsAt(n int64) func() {
	var calls atomic.Int64
	return func() {
		if calls.Add(1) == n {
			panic("broken")
		}
	}
}

func broken(t *testing.T, what string, err error) {
	t.Helper()
	if fault.In(err) == nil || !strings.Contains(err.Error(), "evald has a fault") {
		t.Errorf("%s: error %v, want a fault", what, err)
	}
}

// some are trees of open positions.
func some(t *testing.T, c Config, n int) (trees []*Tree) {
	b := game.MustBoard(game.Connect4)
	for _, p := range gametest.Open(gametest.Rand(3), b, n) {
		tr := gametest.Must(New(b, c))(t)
		tr.Reset(p)
		trees = append(trees, tr)
	}
	return trees
}

func stub(before func()) *eval.Evaluator {
	return evaltest.Raw(&evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
		before()
		return nil
	}})
}

// A panic in any goroutine of a search is its error, and no goroutine waits for the one that
// panicked: in the evaluator, called by the worker (one tree) or in flight (many); in the driver,
// for the first goal or a later one; in a worker that visits trees or gives them their answers; in
// the helpers with which it probes; and in those that probe roots.
func TestSearchPanics(t *testing.T) {
	c := DefaultConfig(PUCT)
	limits := Limits{Visits: 20, Batch: 16}
	for _, n := range []int{1, 60} {
		for _, call := range []int64{1, 2, 9} {
			broken(t, "evaluator", Search(t.Context(), stub(panicsAt(call)), some(t, c, n), limits))
			next := panicsAt(call)
			broken(t, "driver", Drive(t.Context(), stub(func() {}), some(t, c, n), 16, 1, func(tr *Tree) Goal {
				next()
				return Goal{Visits: tr.Visits() + 20}
			}))
		}
	}
	c.Exact, c.RootNodes = 100, 100
	for what, damage := range map[string]func(tr *Tree){
		"start":   func(tr *Tree) { tr.nodes = tr.nodes[:1] },
		"visits":  func(tr *Tree) { tr.nodes[rootNode] = node{first: 1 << 20, count: 7, visits: 1} },
		"answers": func(tr *Tree) { tr.random, tr.config.Noise = nil, 1 },
		"helpers": func(tr *Tree) { tr.prober = new(solver.Prober) },
		"roots":   func(tr *Tree) { tr.rootProber = new(solver.Prober) },
	} {
		for _, n := range []int{1, 60} {
			trees := some(t, c, n)
			damage(trees[n/2])
			broken(t, what, Search(t.Context(), stub(func() {}), trees, limits))
		}
	}
}

// However a job of a scheduler panics, each job ends once. The fault is an error of jobs, or Wait
// repeats it.
func TestSchedulerPanics(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	const n = 300
	var s *Scheduler
	spoil := func() { // configurations that Add would have refused
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, j := range s.groups[b.Rules()].waiting {
			j.Config.MaxNodes = -1
		}
	}
	for what, c := range map[string]struct{ before, next, done func() }{
		"evaluator": {before: panicsAt(3)},
		"goal":      {next: panicsAt(100)},
		"done":      {done: panicsAt(100)},
		"last done": {done: panicsAt(n)},
		"new tree":  {next: spoil},
	} {
		call := func(f func()) {
			if f != nil {
				f()
			}
		}
		s = gametest.Must(NewScheduler(t.Context(), t.Context(), stub(func() { call(c.before) }), 16, 1, 100))(t)
		var ended, failed atomic.Int64
		var jobs []*Job
		for _, p := range gametest.Open(gametest.Rand(3), b, n) {
			jobs = append(jobs, &Job{
				Board: b, Position: p, Visits: 30, Config: DefaultConfig(PUCT),
				Next: func(*Job, *Tree) Goal {
					call(c.next)
					return Goal{Visits: 30}
				},
				Done: func(_ *Job, _ *Tree, err error) {
					ended.Add(1)
					if fault.In(err) != nil {
						failed.Add(1)
					}
					call(c.done)
				},
			})
		}
		err := func() (err error) {
			defer fault.Catch(&err)
			gametest.OK(t, s.Add(jobs...))
			s.Wait()
			return nil
		}()
		if err == nil && failed.Load() == 0 || ended.Load() != n {
			t.Errorf("%s: Wait: %v, %d jobs ended, %d of them with a fault", what, err, ended.Load(), failed.Load())
		}
	}
}
