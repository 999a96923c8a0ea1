package solver

import (
	"context"

	"github.com/evald/evald/engine/game"
)

// Best finds the exact score and all actions that reach it, in ascending order. It is cheaper than Scores, because it does not find the
// scores of the other actions. If the game is over, actions is empty. On error actions is nil.
func (s *Solver) Best(ctx context.Context, p game.Position) (actions []int, result Result, err error) {
	result, err = s.call(ctx, func(r *run) Result {
		best := s.solve(r, p)
		for a := range s.board.Actions() {
			if s.isBest(r, p, a, best) {
				actions = append(actions, a)
			}
		}
		return best
	})
	if err != nil {
		actions = nil
	}
	return actions, result, err
}

// First is Solve with the first of the given actions that reaches the score as Result.Best. So it depends on the position alone, while
// that of Solve may be another best action after other positions were solved, because their results are in the table.
func (s *Solver) First(ctx context.Context, p game.Position, order []int) (Result, error) {
	return s.call(ctx, func(r *run) Result {
		best := s.solve(r, p)
		for _, a := range order {
			if s.isBest(r, p, a, best) {
				best.Best = a
				break
			}
		}
		return best
	})
}

// isBest reports whether an action reaches the score of p, which best has found. None does after the end of the game.
func (s *Solver) isBest(r *run, p game.Position, a int, best Result) bool {
	return best.Best >= 0 && s.board.CanPlay(p, a) && (a == best.Best || s.atMost(r, s.board.Play(p, a), -best.Score))
}

// atMost reports whether p's score is at most the given number.
func (s *Solver) atMost(r *run, p game.Position, most int) bool {
	if res, over := s.over(p); over {
		return res.Score <= most
	}
	safe, _, score := s.firstLook(p)
	if !safe {
		return score <= most
	}
	left := s.board.Cells() - p.Plies()
	r.lower, r.upper, r.window = -(left-2)/2, (left-1)/2, most
	switch {
	case most >= r.upper:
		return true
	case most < r.lower || r.ctx.Err() != nil:
		return false
	}
	if s.options.Book != nil {
		if score, ok := s.options.Book.Score(p); ok {
			return score <= most
		}
	}
	value, _ := s.prover.prove(r, p, most)
	return value <= most
}
