package solver

import (
	"context"

	"github.com/evald/evald/engine/game"
)

// Bounds searches for the exact score of every action, for the side to move, within a limit on nodes. It writes bounds of action a's score
// to low[a] and high[a]. They are equal if the score is known, and NoMove if the action cannot be played. Both slices must have length
// Actions(). The result has the nodes and the time; Best is -1.
//
// The actions share the nodes: an action that needs fewer leaves the rest to the others. The search may exceed the limit by about 1,000
// nodes per action; a limit of 0 finds only scores that need no search. Bounds first clears the solver's table. So with one thread the
// bounds depend only on p, the limit, the book and the size of the table.
func (s *Solver) Bounds(ctx context.Context, p game.Position, limit uint64, low, high []int32) (Result, error) {
	s.Reset()
	return s.call(ctx, func(r *run) Result {
		r.bare = true
		var open []int
		left := s.board.Cells() - p.Plies()
		over := s.board.Result(p) != game.Ongoing
		for a := range s.board.Actions() {
			low[a], high[a] = NoMove, NoMove
			if !over && s.board.CanPlay(p, a) {
				low[a], high[a] = int32(-(left-1)/2), int32((left+1)/2)
				open = append(open, a)
			}
		}
		for first := true; len(open) > 0; first = false {
			spent := s.prover.nodes() - r.before
			if spent > limit || !first && (limit-spent)/uint64(len(open)) < pollEvery {
				break
			}
			unsolved := open[:0]
			for i, a := range open {
				spent := s.prover.nodes() - r.before
				r.limit = s.prover.nodes() + max(1, (limit-min(spent, limit))/uint64(len(open)-i))
				r.spent.Store(false)
				r.least, r.most = -int(high[a]), -int(low[a])
				res := s.solve(r, s.board.Play(p, a))
				if r.ctx.Err() != nil {
					return Result{Best: -1}
				}
				if low[a], high[a] = int32(-res.Score), int32(-res.Score); r.spent.Load() {
					low[a], high[a] = int32(-r.upper), int32(-r.lower)
				}
				if low[a] != high[a] {
					unsolved = append(unsolved, a)
				}
			}
			open = unsolved
		}
		return Result{Best: -1}
	})
}
