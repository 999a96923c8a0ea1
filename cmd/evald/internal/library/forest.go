package library

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
)

// Forest is a tree for each of N positions, which a caller searches step by step. Only one call at a
// time may use it; another one gets errBusy.
type Forest struct {
	board     *game.Board
	search    ask.Search
	evaluator *Evaluator // nil: the caller's function

	using  sync.Mutex
	trees  []*mcts.Tree
	over   []game.Result // of the position of each tree; Ongoing if its game is not over
	priors [][]float32   // for the roots that have no moves yet; nil: the evaluator's
}

var errBusy = errors.New("another call uses this forest: wait until it has ended")

// Plant makes a forest. e, positions and options are as in Search.
func Plant(e *Evaluator, b *game.Board, positions []game.Position, options string) (*Forest, error) {
	o, err := ask.Decode(options, ask.Python)
	if err != nil {
		return nil, fmt.Errorf("options of the forest: %w", err)
	}
	if o.Selection == mcts.Gumbel {
		return nil, errors.New("selection is gumbel, which plans all visits of a search at its start: the steps of a forest need puct, uct or flat")
	}
	if err := Check(b, positions); err != nil {
		return nil, err
	}
	evaluator, _, done, err := asks(e, b, o.Batch)
	if err != nil {
		return nil, err
	}
	defer done()
	c := o.Config(evaluator.Backend())
	c.MaxNodes = mcts.NodesFor(b, ask.MostVisits) // of all runs together
	f := &Forest{board: b, search: o, evaluator: e, priors: make([][]float32, len(positions))}
	for _, p := range positions {
		t, err := mcts.New(b, c)
		if err != nil {
			return nil, err
		}
		result := b.Result(p)
		if result == game.Ongoing {
			t.Reset(p)
		}
		f.trees, f.over = append(f.trees, t), append(f.over, result)
	}
	return f, nil
}

// Visits is the number of visits of the tree that has most.
func (f *Forest) Visits() (most int) {
	for i, t := range f.trees {
		if f.over[i] == game.Ongoing {
			most = max(most, t.Visits())
		}
	}
	return most
}

// Run adds visits to each tree whose game is not over, until its root is proved, and writes what all
// trees have found. found.Tree needs room for Visits() + visits of each.
func (f *Forest) Run(visits int, found Found) (work *Work, err error) {
	if !f.using.TryLock() {
		return nil, errBusy
	}
	defer func() {
		if work == nil {
			f.using.Unlock()
		}
	}()
	most := f.Visits() + visits
	if visits < 0 || most > ask.MostVisits {
		return nil, fmt.Errorf("visits is %d, must be 0 to %d", visits, ask.MostVisits-f.Visits())
	}
	evaluator, function, done, err := asks(f.evaluator, f.board, f.search.Batch)
	if err != nil {
		return nil, err
	}
	if err := found.fits(f.board, f.search.Config(evaluator.Backend()), most); err != nil {
		done()
		return nil, err
	}
	return begin(function, len(f.trees), nil, func(ctx context.Context, w *Work) error {
		defer f.using.Unlock()
		defer done()
		var trees []*mcts.Tree
		rows, goals := map[*mcts.Tree]int{}, make([]int, len(f.trees))
		for i, t := range f.trees {
			if f.over[i] == game.Ongoing {
				trees, rows[t], goals[i] = append(trees, t), i, t.Visits()+visits
			}
		}
		next := func(t *mcts.Tree) mcts.Goal {
			i := rows[t]
			if f.priors[i] != nil && t.SetPriors(f.priors[i]) {
				f.priors[i] = nil
			}
			switch {
			case t.Visits() >= goals[i]:
				w.done.Add(1)
				return mcts.Goal{}
			case f.priors[i] != nil:
				return mcts.Goal{Visits: t.Visits() + 1} // which gives the root its moves
			}
			return mcts.Goal{Visits: goals[i]}
		}
		if err := mcts.Drive(ctx, evaluator, trees, f.search.Batch, f.search.Leaves, next); err != nil {
			return err
		}
		for i, t := range f.trees {
			if f.over[i] != game.Ongoing {
				found.over(f.board, i, f.over[i])
			} else if err := found.write(f.board, i, t, most); err != nil {
				return err
			}
		}
		w.done.Store(int64(len(f.trees))) // also those whose games are over, or that are proved
		return nil
	}), nil
}

// SetPriors replaces the priors of each root by a row of policy [N,A]. Rows need not sum to 1, illegal
// moves are masked, and rows of games that are over are not read. After an error nothing has changed.
func (f *Forest) SetPriors(policy []float32) error {
	if !f.using.TryLock() {
		return errBusy
	}
	defer f.using.Unlock()
	if rule := f.search.Selection; rule != mcts.PUCT {
		return fmt.Errorf("prior: selection is %v, which uses no priors", rule)
	}
	n := f.board.Actions()
	row := func(i int) []float32 { return policy[i*n : (i+1)*n : (i+1)*n] }
	for i, t := range f.trees {
		total := 0.0
		for a, p := range row(i) {
			switch {
			case f.over[i] != game.Ongoing || !f.board.CanPlay(t.Root(), a):
				continue
			case !(p >= 0 && p <= math.MaxFloat32):
				return fmt.Errorf("prior: row %d: action %d has %v, must be a number from 0", i, a, p)
			}
			total += float64(p)
		}
		if f.over[i] == game.Ongoing && total == 0 {
			return fmt.Errorf("prior: row %d: all legal actions have 0", i)
		}
	}
	for i, t := range f.trees {
		if f.over[i] == game.Ongoing && !t.SetPriors(row(i)) {
			f.priors[i] = append([]float32(nil), row(i)...)
		}
	}
	return nil
}

// Advance plays an action in each game, and keeps what the trees have found of the positions after
// them; -1 plays none. After an error no tree has changed.
func (f *Forest) Advance(actions []int64) error {
	if !f.using.TryLock() {
		return errBusy
	}
	defer f.using.Unlock()
	for i, a := range actions {
		switch {
		case a == -1:
		case f.over[i] != game.Ongoing:
			return fmt.Errorf("actions: row %d: the game is over: only -1 is possible", i)
		case a < 0 || a >= int64(f.board.Actions()) || !f.board.CanPlay(f.trees[i].Root(), int(a)):
			return fmt.Errorf("actions: row %d: action %d is not legal", i, a)
		}
	}
	for i, a := range actions {
		if a == -1 {
			continue
		}
		f.priors[i] = nil
		if f.over[i] = f.board.Result(f.board.Play(f.trees[i].Root(), int(a))); f.over[i] == game.Ongoing {
			f.trees[i].Advance(int(a))
		}
	}
	return nil
}
