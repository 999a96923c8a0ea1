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

// Why is what a move's mark rests on.
type Why struct {
	Best    []int // the moves that are worth most, as far as that is proved
	Instead Line  // best play before the move, with a best move
	After   Line  // best play after the move
}

// Why explains the move of number i, from 0. It continues from what the Reviewer's table has of a game reviewed before.
func (r *Reviewer) Why(ctx context.Context, moves []int, i int) *Why {
	e := r.effort(ctx)
	before := r.board.PlayMoves(moves[:i])
	w := &Why{}
	w.After = e.line(r.board.Play(before, moves[i]))
	w.Best = e.best(before, e.exact(before))
	w.Instead = e.line(before)
	return w
}

// exact narrows p's bounds until the score is known: first who wins.
func (e *effort) exact(p game.Position) Bounds {
	low, high := e.solver.ScoreBounds(p)
	known := Bounds{low, high}
	for limit := uint64(firstLimit); !known.Exact() && !e.over(); limit *= growth {
		known = e.sign(p, known, limit)
		known = e.narrow(p, known, known.Low, known.High, limit)
	}
	return known
}

// best returns the moves that reach p's score, or that keep its result if that alone is known, the middle columns first.
func (e *effort) best(p game.Position, score Bounds) (best []int) {
	if e.board.Result(p) != game.Ongoing {
		return nil
	}
	worth := score.Low
	switch {
	case score.Exact():
	case score.Result() == game.Win:
		worth = 1
	case score.Result() == game.Loss:
		return nil // every move keeps it, and the one that resists longest is not known
	default:
		return nil
	}
	for _, a := range outwards(e.board) {
		if !e.board.CanPlay(p, a) {
			continue
		}
		child := e.board.Play(p, a)
		low, high := e.solver.ScoreBounds(child)
		known := Bounds{low, high}
		for limit := uint64(firstLimit); known.High > -worth && known.Low <= -worth && !e.over(); limit *= growth {
			known = e.narrow(child, known, -worth, -worth+1, limit)
		}
		if known.High <= -worth {
			best = append(best, a)
		}
	}
	return best
}

// line plays best moves from p until the game ends or no best move is proved.
func (e *effort) line(p game.Position) (l Line) {
	start := p
	for e.board.Result(p) == game.Ongoing {
		score := e.exact(p)
		if p == start {
			l.Result = score.Result()
		}
		best := e.best(p, score)
		if len(best) == 0 {
			break
		}
		l.Moves, p = append(l.Moves, best[0]), e.board.Play(p, best[0])
	}
	if p == start {
		l.Result = e.board.Result(p)
	}
	l.Ends = ending(e.board, start, l.Moves)
	return l
}

// outwards returns all actions, those of the middle columns first.
func outwards(b *game.Board) []int {
	var order []int
	for distance := range b.Columns() { // twice the distance of a column from the middle
		for a := range b.Actions() {
			if d := 2*(a%b.Columns()) - (b.Columns() - 1); max(d, -d) == distance {
				order = append(order, a)
			}
		}
	}
	return order
}
