package mcts

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// gated is an evaluator that answers a batch for each signal, and all after it is closed.
func gated() (*eval.Evaluator, chan struct{}) {
	gate := make(chan struct{})
	return evaltest.Raw(&evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
		<-gate
		return nil
	}}), gate
}

// All trees that are searched at once have room for at most NodesAtOnce together, however many may be searched. Waiting jobs
// begin when room becomes free, including that of resting trees.
func TestSchedulerMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e, gate := gated()
		s := gametest.Must(NewScheduler(ctx, ctx, e, 256, 1, 512))(t)
		const total, fit = 25, NodesAtOnce / (1 << 20)
		var mu sync.Mutex
		stopped, ended := map[int]bool{}, 0
		add := func(row int, rules game.Rules, visits int) {
			err := s.Add(&Job{
				Board: game.MustBoard(rules), Visits: visits, Config: DefaultConfig(PUCT), Row: row,
				Next: func(j *Job, tree *Tree) Goal {
					mu.Lock()
					defer mu.Unlock()
					if stopped[j.Row] {
						return Goal{}
					}
					return Goal{Visits: j.Visits, CheckAt: tree.Visits() + 1}
				},
				Done: func(_ *Job, _ *Tree, err error) {
					mu.Lock()
					defer mu.Unlock()
					if ended++; err != nil {
						t.Error(err)
					}
				},
			})
			gametest.OK(t, err)
		}
		stop := func(to int) {
			mu.Lock()
			defer mu.Unlock()
			for row := range to {
				stopped[row] = true
			}
		}
		check := func(when string, busy int) {
			t.Helper()
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.busy != busy || s.nodes > NodesAtOnce {
				t.Errorf("%s: %d trees are searched, all may have %d nodes; want %d trees and at most %d nodes", when, s.busy, s.nodes, busy, NodesAtOnce)
			}
		}
		for i := range total {
			rules := game.Connect4
			if i >= fit {
				rules.Columns = 9
			}
			add(i, rules, 1<<30)
		}
		check("at first", fit)
		add(total, game.TicTacToe, 5)
		check("with one of a third game", fit)
		stop(5)
		for range 100 { // the gate opens for one batch at a time
			if synctest.Wait(); ended == 5 {
				break
			}
			gate <- struct{}{}
		}
		check("after five have ended", fit)
		stop(total)
		close(gate)
		s.Wait()
		check("in the end", 0)
		if ended != total+1 {
			t.Errorf("%d jobs have ended, want %d", ended, total+1)
		}
	})
}

// A tree has room for all visits that its job may need: forced lines need more nodes than visits times moves, and a tree
// without them would not see their end.
func TestSchedulerRoom(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	e := evaltest.Raw(&evaltest.Stub{Source: eval.CPU})
	const visits = 1000
	for _, moves := range [][]int{{3, 3}, {3, 3, 4, 4}, {2, 2, 3}, {1, 1, 4, 1, 4, 6, 1, 4, 2, 5, 2, 3, 5, 1, 3, 3}} {
		p := b.PlayMoves(moves)
		c := DefaultConfig(PUCT)
		c.Visits, c.MaxNodes = visits, 1<<22
		wide := gametest.Must(New(b, c))(t)
		wide.Reset(p)
		gametest.OK(t, Search(t.Context(), e, []*Tree{wide}, Limits{Visits: visits, Batch: 1}))
		s := gametest.Must(NewScheduler(t.Context(), t.Context(), e, 1, 1, 0))(t)
		nodes := 0
		job := Job{Board: b, Position: p, Visits: visits, Config: c, Next: func(*Job, *Tree) Goal { return Goal{Visits: visits} }}
		job.Done = func(_ *Job, tree *Tree, err error) { nodes = tree.Nodes() }
		gametest.OK(t, s.Add(&job))
		s.Wait()
		if nodes != wide.Nodes() || job.Config.MaxNodes >= c.MaxNodes {
			t.Errorf("%v: %d nodes, and %d in a tree of any size", moves, nodes, wide.Nodes())
		}
	}
}

// Wait returns after the last Done, also that of a job which never began.
func TestSchedulerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, cancel := context.WithCancel(t.Context())
		defer cancel()
		e, gate := gated()
		s := gametest.Must(NewScheduler(begin, t.Context(), e, 1, 1, 1))(t)
		proceed, waited := make(chan struct{}), make(chan struct{})
		job := Job{
			Board: game.MustBoard(game.Connect4), Visits: 1, Config: DefaultConfig(PUCT),
			Next: func(_ *Job, tree *Tree) Goal { return Goal{Visits: 1} },
			Done: func(*Job, *Tree, error) {},
		}
		late := job
		late.Done = func(*Job, *Tree, error) { <-proceed }
		gametest.OK(t, s.Add(&job, &late)) // one is searched, the other waits
		cancel()
		close(gate)
		go func() { s.Wait(); close(waited) }()
		synctest.Wait()
		select {
		case <-waited:
			t.Error("Wait returned before Done")
		default:
		}
		close(proceed)
		<-waited
	})
}
