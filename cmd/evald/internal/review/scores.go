package review

import (
	"context"

	"github.com/evald/evald/engine/game"
)

// effort is the work of one call: its context and the nodes that are left.
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

// firstLimit is the limit on the nodes of one search in the first pass; each pass multiplies it by growth.
const (
	firstLimit = 1 << 11
	growth     = 8
)

// narrow searches p with the window low to high and at most limit nodes, and returns improved bounds.
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

// sign narrows p's bounds until the result is known, with at most limit nodes.
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

// score fills in Scores and Critical.
func (r *Reviewer) score(ctx context.Context, g *Review, from Earlier) {
	e := r.effort(ctx)
	for i, p := range g.Positions {
		low, high := r.solver.ScoreBounds(p)
		if len(from.Scores) == len(g.Scores) {
			low, high = max(low, from.Scores[i].Low), min(high, from.Scores[i].High)
		}
		g.Scores[i] = Bounds{low, high}
	}
	for limit, open := max(firstLimit, growth*from.Limit), true; open && !e.over(); limit *= growth {
		open = false
		for i := len(g.Positions) - 1; i >= 0; i-- {
			g.improve(i, e.sign(g.Positions[i], g.Scores[i], limit))
		}
		for i := len(g.Positions) - 1; i >= 0; i-- {
			p := g.Positions[i]
			if i+1 < len(g.Positions) && g.Scores[i+1].Exact() { // search for a better move than the one made
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
		if !e.over() {
			g.Limit = limit
		}
	}
	g.Limit = max(g.Limit, from.Limit)
}

// improve stores better bounds of position i. A position's score is at least the score after the move that was made, so improve also raises
// the lower bounds of earlier and later positions.
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

// criticalAt finds out whether some move of position i gives the result away, unless this is already known.
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
		g.Critical[i] = Yes // after such a move the other side wins at once
		return
	}
	least := -int(result.Value()) // upper bound on the score after a move that keeps the result
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
