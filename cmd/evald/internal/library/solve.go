package library

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
	"github.com/evald/evald/engine/labels"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/engine/solver"
)

// SolveOptions are options of Solve, as JSON.
type SolveOptions struct {
	Nodes   uint64 `json:"nodes"`   // maximum per position, with Results per move; 0: no limit
	Threads int    `json:"threads"` // 0: all processors
	Results bool   `json:"results"` // find only whether a move wins, draws or loses
}

// Solve writes the exact score of each move for the side to move into scores [N,A]: more is better, above 0 wins (package solver). The score
// is solver.NoMove for illegal actions, and for all actions of a position that takes more than Nodes. With Results it is 1, 0 or -1, which takes much less time. No game may be over.
func Solve(b *game.Board, positions []game.Position, options string, scores []int32) (*Work, error) {
	var o SolveOptions
	if err := decode(options, &o); err != nil {
		return nil, fmt.Errorf("options of the solver: %w", err)
	}
	if o.Threads < 0 {
		return nil, fmt.Errorf("threads is %d, must be 0 or more", o.Threads)
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if err := unfinished(b, positions); err != nil {
		return nil, err
	}
	return begin(nil, len(positions), nil, func(ctx context.Context, w *Work) error {
		n := b.Actions()
		if o.Results {
			return results(ctx, b, positions, o, scores, w)
		}
		_, err := score.Solve(ctx, b, positions, score.SolveOptions{Threads: min(o.Threads, max(1, len(positions))), Book: solver.ShippedBook(b.Rules()), Nodes: o.Nodes, Solved: func(i int, p score.Position) error {
			for a := range n {
				scores[i*n+a] = solver.NoMove
				if p.Scores != nil {
					scores[i*n+a] = int32(p.Scores[a])
				}
			}
			w.done.Add(1)
			return nil
		}})
		return err
	}), nil
}

// results is Solve with Results.
func results(ctx context.Context, b *game.Board, positions []game.Position, o SolveOptions, scores []int32, w *Work) error {
	solvers := make([]*solver.Solver, min(o.Threads, max(1, len(positions))))
	return jobs.Each(ctx, len(solvers), len(positions), func(ctx context.Context, worker, i int) (err error) {
		if solvers[worker] == nil {
			if solvers[worker], err = solver.New(b, solver.Options{Threads: 1, Nodes: o.Nodes}); err != nil {
				return err
			}
		}
		if o.Nodes > 0 {
			solvers[worker].Reset() // otherwise earlier positions would affect whether the nodes suffice
		}
		row := scores[i*b.Actions() : (i+1)*b.Actions()]
		found, err := labels.MoveResults(ctx, solvers[worker], positions[i])
		switch {
		case errors.Is(err, solver.ErrNodes):
			found = slices.Repeat([]int{solver.NoMove}, len(row))
		case err != nil:
			return err
		}
		for a, result := range found {
			row[a] = int32(result)
		}
		w.done.Add(1)
		return nil
	})
}
