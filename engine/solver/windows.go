package solver

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/internal/yield"
)

// run is one call of the solver: its start, whether it must stop, and its state for progress reports.
type run struct {
	solver *Solver
	ctx    context.Context
	wdl    bool // only the sign is needed
	bare   bool // no action is needed

	// for Bounds and Options.Nodes
	limit       uint64      // the prover's node count at which spent is set; 0 means no limit
	spent       atomic.Bool // the search must stop without an answer
	least, most int         // known bounds of the score, if there is a limit

	start, next  time.Time
	before       uint64 // nodes of the prover when the call began
	lower, upper int
	window       int
}

// ended reports whether the search must stop without an answer.
func (r *run) ended() bool { return r.ctx.Err() != nil || r.spent.Load() }

// poll sets spent if the nodes are spent, and reports whether the search must stop. It yields, so that other goroutines, such as those that
// pass on a network's answers, need not wait for the 10 ms after which Go would interrupt a search.
func (r *run) poll() bool {
	runtime.Gosched()
	yield.ToEvents()
	if r.limit > 0 && r.solver.prover.nodes() >= r.limit {
		r.spent.Store(true)
	}
	return r.ended()
}

// pollAt is the node count at which a search polls next.
func (r *run) pollAt(nodes uint64) uint64 {
	if at := nodes + pollEvery; r.limit <= nodes || at < r.limit {
		return at
	}
	return r.limit
}

// progressEvery is short enough for a lively display, and too long for the calls to cost time.
const progressEvery = 300 * time.Millisecond

// report calls Progress if it is due. nodes is the prover's count.
func (r *run) report(nodes uint64) {
	progress := r.solver.options.Progress
	if progress == nil {
		return
	}
	now := time.Now()
	if r.next.IsZero() {
		r.next = r.start.Add(progressEvery)
	}
	if now.Before(r.next) {
		return
	}
	r.next = now.Add(progressEvery)
	progress(Progress{
		Lower: r.lower, Upper: r.upper, Window: r.window,
		Nodes: nodes - r.before, Elapsed: now.Sub(r.start), Fill: r.solver.prover.fill(),
	})
}

// solve finds p's score, or with r.wdl a number of the same sign, and a best action. The caller fills in nodes and time.
func (s *Solver) solve(r *run, p game.Position) Result {
	if res, over := s.over(p); over {
		return res
	}
	safe, best, score := s.firstLook(p)
	if !safe {
		return Result{Score: score, Best: best}
	}
	left := s.board.Cells() - p.Plies()
	r.lower, r.upper = -(left-2)/2, (left-1)/2
	if r.wdl {
		r.lower, r.upper = max(r.lower, -1), min(r.upper, 1)
	}
	if r.limit > 0 {
		r.lower, r.upper = max(r.lower, r.least), min(r.upper, r.most)
	}
	booked := false
	if s.options.Book != nil {
		if score, ok := s.options.Book.Score(p); ok {
			score = min(max(score, r.lower), r.upper)
			if r.bare {
				return Result{Score: score, Best: -1, Booked: true}
			}
			if a := s.bookAction(p, score, r.wdl); a >= 0 {
				return Result{Score: score, Best: a, Booked: true}
			}
			// The score is known but no best action is. One more window finds one, unless every action reaches the score.
			booked = true
			r.upper = score
			r.lower = max(r.lower, score-1)
		}
	}
	guess := 0
	for r.lower < r.upper && !r.ended() {
		r.window = s.nextWindow(r, guess)
		value, action := s.prover.prove(r, p, r.window)
		if r.ended() { // then the answer is meaningless
			break
		}
		if value > r.window {
			r.lower = min(value, r.upper)
			if action >= 0 { // otherwise every move that does not lose at once reaches it
				best = action
			}
		} else {
			r.upper = max(value, r.lower)
		}
		guess = value
	}
	return Result{Score: r.lower, Best: best, Booked: booked}
}

// smallScore is the largest bound on both sides' scores at which nextWindow tests the sign. With values from 6 to 10, the nodes differ by
// about 5% at most.
const smallScore = 8

// nextWindow returns the number to compare the score with next.
//
// It finds quick wins and losses fast, so it first tries numbers far from 0: half of the larger bound. So the range shrinks from both ends
// in turn. Once only small scores are left, it tests the sign. That halves the range, while a bound on the wrong side of 0 would exclude
// little. MTD(f) instead tries the number next to the last answer.
func (s *Solver) nextWindow(r *run, guess int) int {
	alpha := r.lower / 2
	switch {
	case s.options.MTD:
		alpha = guess
		if guess == r.lower {
			return guess // a lower bound so far: is the score greater?
		}
		alpha--
	case r.lower < 0 && 0 < r.upper && max(-r.lower, r.upper) <= smallScore:
		alpha = 0
	case r.upper > -r.lower:
		alpha = r.upper / 2
	}
	return min(max(alpha, r.lower), r.upper-1)
}

// over returns the score of a game that is over. The last stone was placed one ply ago, so the score of a lost position is the negated
// score of that last move. A position with a line of the side to move is an observation with the wrong side to move.
func (s *Solver) over(p game.Position) (res Result, over bool) {
	result := s.board.Result(p)
	left := s.board.Cells() - p.Plies()
	return Result{Score: int(result.Value()) * ((left + 2) / 2), Best: -1}, result != game.Ongoing
}

// firstLook tests every move and every reply. If the side to move can win at once, or if every move loses to the next stone, safe is false,
// and score and best are final. Otherwise best is a move that does not lose at once.
func (s *Solver) firstLook(p game.Position) (safe bool, best, score int) {
	b := s.board
	left := b.Cells() - p.Plies()
	if wins := b.Wins(p); !wins.IsZero() {
		return false, b.Action(wins.First()), (left + 1) / 2
	}
	if safe := b.Safe(p); !safe.IsZero() {
		return true, b.Action(safe.First()), 0
	}
	return false, b.Action(b.Legal(p).First()), -left / 2
}

// bookAction returns an action after which the book's score agrees with score, or -1.
func (s *Solver) bookAction(p game.Position, score int, wdl bool) int {
	for a := range s.board.Actions() {
		if !s.board.CanPlay(p, a) {
			continue
		}
		child, ok := s.options.Book.Score(s.board.Play(p, a))
		if wdl {
			child = min(max(child, -1), 1)
		}
		if ok && -child == score {
			return a
		}
	}
	return -1
}
