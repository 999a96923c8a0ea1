package score

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
	"github.com/evald/evald/engine/solver"
)

// SolveOptions are the options of Solve.
type SolveOptions struct {
	Threads int         // threads that solve one position each; 0 means 1
	Book    solver.Book // consulted before a search, if not nil
	Nodes   uint64      // if not 0, positions whose moves together take more nodes get no scores

	// Solved, if not nil, is called with each position's index when its scores are known, or known to be omitted, in any order, one call at
	// a time. If it returns an error, Solve ends with that error.
	Solved func(i int, p Position) error
}

// Solve finds the exact score of each move in positions of one board whose games are not over. The answers have the order of the positions
// and do not depend on the number of threads. Solve returns the first error, including that of ctx.
func Solve(ctx context.Context, board *game.Board, positions []game.Position, o SolveOptions) ([]Position, error) {
	solved := make([]Position, len(positions))
	solvers := make([]*solver.Solver, max(1, o.Threads))
	var mu sync.Mutex // guards calls of Solved
	err := jobs.Each(ctx, len(solvers), len(positions), func(ctx context.Context, worker, i int) (err error) {
		if solvers[worker] == nil {
			if solvers[worker], err = solver.New(board, solver.Options{Threads: 1, Book: o.Book, Nodes: o.Nodes}); err != nil {
				return err
			}
		}
		solved[i].State = game.State{Board: board, Position: positions[i], Mark: positions[i].Mover()}
		if o.Nodes > 0 {
			solvers[worker].Reset() // otherwise earlier positions would affect whether the nodes suffice
		}
		solved[i].Scores, _, err = solvers[worker].Scores(ctx, positions[i])
		if err == nil {
			err = solved[i].Validate()
		} else if errors.Is(err, solver.ErrNodes) {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("position %d of %d: %w", i+1, len(positions), err)
		}
		if o.Solved == nil {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		return o.Solved(i, solved[i])
	})
	if err != nil {
		return nil, err
	}
	return solved, nil
}

// SolveMoves finds the scores of the moves of positions that a Reader read from lines `moves score`. It consults the books that ship first.
// done is called with the number of solved positions, one call at a time. If a position's score differs from the solver's, the error names
// the line.
func SolveMoves(ctx context.Context, positions []Position, threads int, done func(int)) error {
	count := 0
	for from := 0; from < len(positions); {
		board := positions[from].State.Board
		to := from
		var unsolved []game.Position
		for ; to < len(positions) && positions[to].State.Board.Rules() == board.Rules(); to++ {
			unsolved = append(unsolved, positions[to].State.Position)
		}
		some := positions[from:to]
		_, err := Solve(ctx, board, unsolved, SolveOptions{Threads: threads, Book: solver.ShippedBook(board.Rules()), Solved: func(i int, p Position) error {
			if best := slices.Max(p.Scores); best != some[i].Score {
				return fmt.Errorf("line %d: score %d of the position is wrong: the solver finds %d", some[i].Line, some[i].Score, best)
			}
			some[i].Scores = p.Scores
			count++
			done(count)
			return nil
		}})
		if err != nil {
			return err
		}
		from = to
	}
	return nil
}

// AppendLine appends the line `moves s1 s2 ..`, which a Reader can read. moves has the form of game.FormatNotation; scores are as in
// Position.
func AppendLine(text []byte, moves string, scores []int) []byte {
	text = append(text, moves...)
	for _, s := range scores {
		text = fmt.Appendf(text, " %d", s)
	}
	return append(text, '\n')
}
