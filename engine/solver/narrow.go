package solver

import (
	"context"

	"github.com/evald/evald/engine/game"
)

// ScoreBounds returns the lowest and highest score that a position with p's number of stones can have, even if the game is over.
func (s *Solver) ScoreBounds(p game.Position) (low, high int) {
	left := s.board.Cells() - p.Plies()
	return -(left + 2) / 2, (left + 2) / 2 // the game may have ended a ply ago (Solver.over)
}

// Narrow looks for p's exact score between low and high, which need not be bounds of it: a score outside counts as the nearer of the two.
// It returns the bounds that it has found, and the number of nodes. It stops when it knows the score, after the given number of nodes,
// within about 1,000, or when ctx ends. With 0 nodes it finds only scores that need no search.
//
// A caller with bounds of the score can continue an earlier search, or ask only for a part, for example only for the result (-1 and 1).
// The solver keeps its table, so ask for the positions of a game from the last to the first.
func (s *Solver) Narrow(ctx context.Context, p game.Position, low, high int, nodes uint64) (least, most int, searched uint64) {
	if low >= high {
		return low, high, 0
	}
	res, _ := s.call(ctx, func(r *run) Result { // an error only repeats that ctx has ended or the nodes are spent
		r.bare = true
		r.limit, r.least, r.most = s.prover.nodes()+max(1, nodes), low, high
		r.lower, r.upper = low, high
		res := s.solve(r, p)
		if r.ended() && r.lower < r.upper {
			low, high = r.lower, r.upper
			return res
		}
		low = min(max(res.Score, low), high)
		high = low
		return res
	})
	return low, high, res.Nodes
}
