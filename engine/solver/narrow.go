package solver

import (
	"context"

	"github.com/evald/evald/engine/game"
)

// ScoreBounds returns the lowest and highest score that a position with p's number of stones can have, even if the game is over.
func (s *Solver) ScoreBounds(p game.Position) (low, high int) {
	left := s.board.Cells() - p.Plies()
	return -(left + 2) / 2, (left + 2) / 2 // the game may have ended a ply ago; see Solver.over
}

// Narrow searches for p's exact score within the window from low to high. A score outside the window counts as the nearer end. Narrow
// returns the bounds that it found, and the number of nodes searched. It stops when it knows the score, after the given number of nodes
// (within about 1,000), or when ctx ends. With 0 nodes it finds only scores that need no search.
//
// With the bounds of an earlier call, a caller continues an earlier search. With a small window, it asks for less: -1 and 1 give only the
// result. The solver keeps its table between calls, so solve the positions of a game from the last to the first.
func (s *Solver) Narrow(ctx context.Context, p game.Position, low, high int, nodes uint64) (least, most int, searched uint64) {
	if low >= high {
		return low, high, 0
	}
	res, _ := s.call(ctx, func(r *run) Result { // the only errors are that ctx has ended or that the nodes are spent
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
