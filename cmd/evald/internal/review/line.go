package review

import (
	"context"

	"github.com/evald/evald/engine/game"
)

// Line is best play from a position, as far as it is proved.
type Line struct {
	Moves  []int
	Result game.Result // for the side to move where the line begins; Ongoing if it is not proved
	Ends   Ending      // how the line ends
}

// Why explains a move's mark.
type Why struct {
	Best    []int // the best moves, as far as they are proved
	Instead Line  // best play before the move, with a best move
	After   Line  // best play after the move
}

// Why explains move i, from 0. It is faster after Game has reviewed the same game, because the Reviewer keeps its solver's table.
func (r *Reviewer) Why(ctx context.Context, moves []int, i int) *Why {
	e := r.effort(ctx)
	before := r.board.PlayMoves(moves[:i])
	w := &Why{}
	score := e.exact(before, e.all(before))
	w.Best = e.best(before, score, r.board.Actions())
	after := r.board.Play(before, moves[i])
	w.After = e.line(after, e.all(after))
	w.Instead = e.line(before, score)
	return w
}

// Best returns best play from a position with a known exact score, as far as it is proved.
func (r *Reviewer) Best(ctx context.Context, p game.Position, score int) []int {
	return r.effort(ctx).line(p, Bounds{score, score}).Moves
}

// all returns the widest bounds of a position.
func (e *effort) all(p game.Position) Bounds {
	low, high := e.solver.ScoreBounds(p)
	return Bounds{low, high}
}

// exact narrows p's bounds until the score is known. It finds the winner before the distance.
func (e *effort) exact(p game.Position, known Bounds) Bounds {
	for limit := uint64(firstLimit); !known.Exact() && !e.over(); limit *= growth {
		known = e.sign(p, known, limit)
		known = e.narrow(p, known, known.Low, known.High, limit)
	}
	return known
}

// best returns up to most of p's best moves, the middle columns first: moves that reach p's score or, if it is only known that p is won,
// moves that keep the win.
func (e *effort) best(p game.Position, score Bounds, most int) (best []int) {
	if e.board.Result(p) != game.Ongoing {
		return nil
	}
	worth := score.Low
	if !score.Exact() {
		if score.Result() != game.Win {
			return nil // it is unknown which move resists longest
		}
		worth = 1
	}
	for _, a := range e.board.FromCentre() {
		if !e.board.CanPlay(p, a) || len(best) == most {
			continue
		}
		child := e.board.Play(p, a)
		known := e.all(child)
		for limit := uint64(firstLimit); known.High > -worth && known.Low <= -worth && !e.over(); limit *= growth {
			known = e.narrow(child, known, -worth, -worth+1, limit)
		}
		if known.High <= -worth {
			best = append(best, a)
		}
	}
	return best
}

// line plays best moves from p until the game ends or no best move is proved. known are bounds of p.
func (e *effort) line(p game.Position, known Bounds) (l Line) {
	start := p
	known = e.exact(p, known)
	l.Result = known.Result()
	for e.board.Result(p) == game.Ongoing {
		best := e.best(p, known, 1)
		if len(best) == 0 {
			break
		}
		l.Moves, p = append(l.Moves, best[0]), e.board.Play(p, best[0])
		if known.Exact() {
			known = known.flip() // a best move keeps the score
		} else {
			known = e.exact(p, e.all(p))
		}
	}
	l.Ends = ending(e.board, start, l.Moves)
	return l
}
