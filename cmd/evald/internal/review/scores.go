package review

import (
	"context"

	"github.com/evald/evald/engine/game"
)

// effort is one call's search: its context, and the nodes that are left.
type effort struct {
	*Reviewer
	ctx  context.Context
	left uint64
}

func (r *Reviewer) effort(ctx context.Context) *effort {
	e := &effort{Reviewer: r, ctx: ctx, left: r.nodes}
	if r.nodes == 0 {
		e.left = 1 << 62
	}
	return e
}

func (e *effort) over() bool { return e.left == 0 || e.ctx.Err() != nil }

// Limits on the nodes of one question: of the first pass, and how they grow.
const (
	firstLimit = 1 << 11
	growth     = 8
)

// narrow looks for p's score between two numbers, and returns better bounds.
func (e *effort) narrow(p game.Position, known Bounds, low, high int, limit uint64) Bounds {
	low, high = max(low, known.Low), min(high, known.High)
	if low >= high || e.over() {
		return known
	}
	limit = min(limit, e.left)
	l, h, nodes := e.solver.Narrow(e.ctx, p, low, high, limit)
	e.left -= min(nodes, e.left)
	if l > low {
		known.Low = l
	}
	if h < high {
		known.High = h
	}
	return known
}

// sign narrows p's bounds until it is known who wins.
func (e *effort) sign(p game.Position, known Bounds, limit uint64) Bounds {
	if known.Result() != game.Ongoing {
		return known
	}
	switch result := e.results.Known(p); result {
	case game.Win:
		known.Low = max(known.Low, 1)
	case game.Draw:
		known.Low, known.High = 0, 0
	case game.Loss:
		known.High = min(known.High, -1)
	default:
		return e.narrow(p, known, -1, 1, limit)
	}
	return known
}

// score fills in the bounds of all positions and which of them are critical.
func (r *Reviewer) score(ctx context.Context, g *Review) {
	e := r.effort(ctx)
	for i, p := range g.Positions {
		low, high := r.solver.ScoreBounds(p)
		g.Scores[i] = Bounds{low, high}
	}
	for limit, open := uint64(firstLimit), true; open && !e.over(); limit *= growth {
		open = false
		for i := len(g.Positions) - 1; i >= 0; i-- {
			g.improve(i, e.sign(g.Positions[i], g.Scores[i], limit))
		}
		for i := len(g.Positions) - 1; i >= 0; i-- {
			p := g.Positions[i]
			if i+1 < len(g.Positions) && g.Scores[i+1].Exact() { // is there a better move than the one that was made?
				made := -g.Scores[i+1].Low
				g.improve(i, e.narrow(p, g.Scores[i], made, made+1, limit))
			}
			known := g.Scores[i]
			g.improve(i, e.narrow(p, known, known.Low, known.High, limit))
			open = open || !g.Scores[i].Exact()
		}
		for i := range g.Critical {
			e.criticalAt(g, i, limit)
			open = open || g.Critical[i] == Unknown
		}
	}
}

// improve keeps better bounds of a position. A position is worth at least what the move that was made is worth, so two
// successive scores, each for the side to move, are never negative together.
func (g *Review) improve(i int, better Bounds) {
	g.Scores[i] = better
	for j := i - 1; j >= 0; j-- {
		if low := -g.Scores[j+1].High; low > g.Scores[j].Low {
			g.Scores[j].Low = low
		} else {
			break
		}
	}
	for j := i + 1; j < len(g.Scores); j++ {
		if low := -g.Scores[j-1].High; low > g.Scores[j].Low {
			g.Scores[j].Low = low
		} else {
			break
		}
	}
}

// criticalAt finds out whether some move gives the result away at position i, if that is not known yet.
func (e *effort) criticalAt(g *Review, i int, limit uint64) {
	result := g.Scores[i].Result()
	switch made := g.Scores[i+1].flip().Result(); {
	case g.Critical[i] != Unknown || result == game.Ongoing:
		return
	case result == game.Loss:
		g.Critical[i] = No
		return
	case made != game.Ongoing && made != result:
		g.Critical[i] = Yes
		return
	}
	b, p := e.board, g.Positions[i]
	if losing := b.Legal(p).AndNot(b.Wins(p)).AndNot(b.Safe(p)); !losing.IsZero() {
		g.Critical[i] = Yes // the other side wins with its next stone
		return
	}
	least := -int(result.Value()) // the score of a position after a move that keeps the result is at most this
	open := false
	for l := b.Legal(p).AndNot(b.Wins(p)); !l.IsZero(); l = l.WithoutFirst() {
		child := b.PlayCell(p, l.LowBit())
		low, high := e.solver.ScoreBounds(child)
		known := Bounds{low, high}
		if e.results.Known(child) != game.Ongoing {
			known = e.sign(child, known, 0)
		}
		known = e.narrow(child, known, least, least+1, limit)
		if known.Low > least {
			g.Critical[i] = Yes
			return
		}
		open = open || known.High > least
	}
	if !open {
		g.Critical[i] = No
	}
}
