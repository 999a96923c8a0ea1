package library

import (
	"context"
	"fmt"
	"runtime"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/engine/solver"
)

// SolveOptions are options of Solve, as JSON.
type SolveOptions struct {
	Nodes   uint64 `json:"nodes"`   // maximum per position; 0: no limit
	Threads int    `json:"threads"` // 0: all processors
}

// Solve writes the exact score of each move for the side to move into scores [N,A]: more is better, above 0 wins (package solver). The score
// is solver.NoMove for illegal actions, and for all actions of a position that takes more than Nodes. No game may be over.
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
