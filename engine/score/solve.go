package score

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
)

// SolveOptions are the options of Solve.
type SolveOptions struct {
	Threads int         // each solves one position at a time; 0 means 1
	Book    solver.Book // asked before a search, if not nil

	// Solved, if not nil, is called with each position's index as soon as it has its scores, in any order, one call at a
	// time. An error that it returns ends Solve.
	Solved func(i int, p Position) error
}

// Solve finds the exact score of each move in positions of one board whose games are not over. The answers are in the order
// of the positions and do not depend on the number of threads. The first error ends it, including that of ctx.
func Solve(ctx context.Context, board *game.Board, positions []game.Position, o SolveOptions) ([]Position, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	solved := make([]Position, len(positions))
	var next atomic.Int64
	var mu sync.Mutex // guards calls of Solved
	work := func() error {
		s, err := solver.New(board, solver.Options{Threads: 1, Book: o.Book})
		if err != nil {
			return err
		}
		for i := int(next.Add(1)) - 1; i < len(positions) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
			if solved[i], err = exact(ctx, s, positions[i]); err != nil {
				return fmt.Errorf("position %d of %d: %w", i+1, len(positions), err)
			}
			if o.Solved == nil {
				continue
			}
			mu.Lock()
			err := o.Solved(i, solved[i])
			mu.Unlock()
			if err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	var wg sync.WaitGroup
	for range min(max(1, o.Threads), len(positions)) {
		wg.Go(func() {
			if err := work(); err != nil {
				cancel(err) // only the first error is kept; it ends the other threads
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return solved, nil
}

// exact returns a position with its scores.
func exact(ctx context.Context, s *solver.Solver, at game.Position) (Position, error) {
	scores, _, err := s.Scores(ctx, at)
	if err != nil {
		return Position{}, err
	}
	for a := range scores {
		if scores[a] == solver.NoMove {
			scores[a] = Illegal
		}
	}
	p := Position{State: game.State{Board: s.Board(), Position: at, Mark: at.Mover()}, Scores: scores}
	return p, p.validate()
}

// AppendLine appends the line `moves s1 s2 ..`, which a Reader reads. moves is in the form of game.FormatNotation, scores as
// in Position.
func AppendLine(text []byte, moves string, scores []int) []byte {
	text = append(text, moves...)
	for _, s := range scores {
		text = fmt.Appendf(text, " %d", s)
	}
	return append(text, '\n')
}
