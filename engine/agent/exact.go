package agent

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/engine/solver"
)

// mostEmpty is the maximum number of empty cells at which an agent with a time limit tries the solver. With more, the solver rarely
// finishes, and the tree search makes better use of that time.
const mostEmpty = 42

// exact plays the best move that is nearest to the centre, or a random one of those with the best score. With a time limit, the solver gets
// half of the time. If that does not suffice, or if more than mostEmpty cells are empty, a tree search with a network plays in the remaining
// time, as in the agent mcts.
type exact struct {
	solver  *solver.Solver
	books   func(game.Rules) solver.Book
	time    time.Duration
	instead *searcher // nil without a time limit

	random *rand.Rand // nil: plays the best move nearest to the centre, or with a time limit the one that the solver finds first
	solved *Solved
	memory int64 // maximum size of the solver's table in bytes; 0 is the solver's default
}

func newSolver(s Spec, shared Shared) (Agent, error) {
	const useless = "agent solver: without a time it solves every position, and %s=%s does nothing: give a time too"
	switch {
	case s.Time > 0:
	case s.Model != "":
		return nil, fmt.Errorf(useless, "model", short.Quote(s.Model))
	case s.Exact != 0:
		return nil, fmt.Errorf(useless, "exact", s.Exact)
	}
	e := &exact{time: s.Time, solved: cmp.Or(shared.Solved, new(Solved)), memory: shared.Memory}
	if s.Time > 0 {
		var err error
		rest := Spec{Name: "mcts", Model: s.Model, Chosen: s.Chosen, Time: s.Time / 2, Search: s.Search}
		rest.How = rest.How.Helped()
		if e.instead, err = puct(shared.Choose(rest), shared); err != nil {
			return nil, err
		}
	}
	if s.Random {
		e.random = source(s.Seed)
	}
	if s.Book == "" {
		e.books = shared.Ships
		return e, nil
	}
	if shared.Exact == nil {
		return nil, fmt.Errorf("agent: no books of exact scores here, so no book %s", short.Quote(s.Book))
	}
	own, err := shared.Exact(s.Book)
	if err != nil {
		return nil, err
	}
	e.books = func(r game.Rules) solver.Book {
		if own.Rules() != r {
			return nil
		}
		return own
	}
	return e, nil
}

// Supports is that of the network, because any position may be too hard for the solver.
func (e *exact) Supports(b *game.Board) error {
	if e.instead == nil {
		return nil
	}
	return e.instead.Supports(b)
}

func (e *exact) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	whole, cancel := within(ctx, e.time) // includes the creation of a large board's table, which takes tenths of a second
	defer cancel()
	if err := e.Supports(b); err != nil {
		return 0, fmt.Errorf("solver: %w", err)
	}
	if e.instead != nil && b.Cells()-p.Plies() > mostEmpty {
		return e.instead.move(ctx, whole, b, p)
	}
	if e.solver == nil || e.solver.Board().Rules() != b.Rules() {
		o := solver.Options{}
		if e.memory > 0 && b.Cells() > 42 { // smaller boards have small tables
			o.TableMiB = int(min(256, max(16, e.memory>>20)))
		}
		if e.books != nil {
			o.Book = e.books(b.Rules())
		}
		s, err := solver.New(b, o)
		if err != nil {
			return 0, err
		}
		e.solver = s
	}
	half, cancelHalf := within(whole, e.time/2)
	defer cancelHalf()
	action, err := e.solve(half, b, p)
	switch {
	case err == nil:
		return action, nil
	case ctx.Err() != nil || half.Err() == nil:
		return 0, err
	}
	return e.instead.move(ctx, whole, b, p)
}

// solve returns an action with the best score.
func (e *exact) solve(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	if e.random == nil {
		order := b.FromCentre()
		if e.time > 0 {
			order = nil // other moves need time
		}
		r, err := e.solver.First(ctx, p, order)
		return r.Best, err
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("solver: %w", err)
	}
	best, ok := e.solved.find(b, p)
	if !ok {
		var err error
		if best, _, err = e.solver.Best(ctx, p); err != nil {
			return 0, err
		}
		e.solved.keep(b, p, best)
	}
	return best[e.random.IntN(len(best))], nil
}

// Solved caches the best moves of the positions that a program's solvers have solved, so that games with the same beginning do not solve a
// position twice. The zero value is ready and safe for concurrent use.
type Solved struct {
	mu   sync.Mutex
	best map[solvedKey][]int
}

type solvedKey struct {
	rules    game.Rules
	position game.Position
}

// maxSolved bounds the memory of a Solved to about 100 MiB. A full Solved stores nothing more: the early positions of games, which occur
// most often, are solved first.
const maxSolved = 1 << 19

func (s *Solved) find(b *game.Board, p game.Position) (best []int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	best, ok = s.best[solvedKey{b.Rules(), p}]
	return best, ok
}

func (s *Solved) keep(b *game.Board, p game.Position, best []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.best == nil {
		s.best = map[solvedKey][]int{}
	}
	if len(s.best) < maxSolved {
		s.best[solvedKey{b.Rules(), p}] = best
	}
}
