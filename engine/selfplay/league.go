package selfplay

import (
	"sync"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/mcts"
)

// Member is a network of a league.
type Member struct {
	Evaluator *eval.Evaluator
	Plain     bool // its searches: Lab.Plain
}

// pair returns the networks of a game, of n. Each plays each other equally often, as the first player
// and as the second: game 0 is of 0 and 1, game 1 of 1 and 0, game 2 of 0 and 2, and so on.
func pair(number, n int) (networks [2]int) {
	if n == 1 {
		return networks
	}
	k := number % (n * (n - 1))
	swapped := k%2 == 1
	k /= 2
	for a := range n { // pairs with a smaller first index come first
		if k < n-1-a {
			networks = [2]int{a, a + 1 + k}
			break
		}
		k -= n - 1 - a
	}
	if swapped {
		networks[0], networks[1] = networks[1], networks[0]
	}
	return networks
}

// mover is the network that is to move in a seat's game.
func (r *run) mover(s *seat) Member { return r.members[s.Networks[s.position.Plies()&1]] }

// league plays the games of several networks. Each has a scheduler, which searches the positions of
// all seats in which it is to move, so that its batches are full.
func (r *run) league() error {
	schedulers := make([]*mcts.Scheduler, len(r.members))
	for i, m := range r.members {
		var err error
		if schedulers[i], err = mcts.NewScheduler(r.ctx, r.ctx, m.Evaluator, r.Batch, 1, r.Parallel); err != nil {
			return err
		}
	}
	var seats sync.WaitGroup // games go on with another scheduler, so all wait for the last one
	for range r.Parallel {
		s := r.seat()
		seats.Add(1)
		r.turn(s, nil, schedulers, seats.Done)
	}
	seats.Wait()
	for _, s := range schedulers {
		s.Wait()
	}
	return r.ctx.Err()
}

// turn gives a seat's next position to the network that is to move, or calls empty if there is none.
func (r *run) turn(s *seat, searched *mcts.Tree, schedulers []*mcts.Scheduler, empty func()) {
	if !r.step(s, searched) {
		empty()
		return
	}
	config, visits := r.search(s)
	job := &mcts.Job{
		Board: r.board, Position: s.position, Visits: visits, Config: config,
		Next: func(*mcts.Job, *mcts.Tree) mcts.Goal { return mcts.Goal{Visits: visits} },
		Done: func(_ *mcts.Job, t *mcts.Tree, err error) {
			if err != nil {
				r.fail(s.Number, err)
				empty()
				return
			}
			r.turn(s, t, schedulers, empty)
		},
	}
	if err := schedulers[s.Networks[s.position.Plies()&1]].Add(job); err != nil {
		r.fail(s.Number, err)
		empty()
	}
}
