package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/internal/yield"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/mcts/opening"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/engine/solver"
)

// over reports whether ctx has ended or its deadline has passed. It reads the clock, because while all cores compute, the runtime may end
// ctx milliseconds late.
func over(ctx context.Context) bool {
	yield.ToEvents()
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && time.Now().After(deadline)
}

// searcher plays by tree search. If it is limited by time, it keeps its tree between the moves of a game. If it is limited by visits, it
// starts each move with an empty tree, so that its move depends only on the position. If probes prove that every move loses, it searches
// again without probes: probes do not tell how long a game lasts, and a search without them is faster at finding moves that are hard to
// refute.
type searcher struct {
	spec      Spec // its Leaves are at least 1
	evaluator *eval.Evaluator
	config    mcts.Config
	tree      *mcts.Tree
	exact     solver.Nodes  // mcts.Config.Exact of the tree
	book      *opening.Book // nil without one
	searched  func(*mcts.Tree)
}

// Estimates of the memory and the number of visits that a search needs.
const (
	nodesPerVisit  = 7
	nodesPerSecond = 5e6
	rootVisit      = 2 * time.Millisecond // time per visit for mcts.RootNodesFor; the root's probes then take about a quarter of a move's time
)

// TimedLeaves is the number of pending leaves of a search that is limited by time, if Spec.Leaves is 0.
const TimedLeaves = 32

// reserve is the part of a move's time that is left unused for pauses of the garbage collector and the scheduler.
func reserve(d time.Duration) time.Duration { return min(d/4, 10*time.Millisecond+d/50) }

// within returns a context that ends when a move's time, minus the reserve, is over; 0 means no limit.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d-reserve(d))
}

// uct returns the agent that searches by UCT and evaluates leaves with a backend.
func uct(s Spec, leaves eval.Backend, shared Shared) (*searcher, error) {
	s.Exact = cmp.Or(s.Exact, solver.NoProbes)
	return newSearcher(s, eval.New(leaves, eval.Options{}), mcts.UCT, shared)
}

func newUCT(s Spec, shared Shared) (Agent, error) {
	return uct(s, heuristic.Rollout{Games: 1, Seed: s.Seed}, shared)
}

// newUCTHeuristic is for the agents uct-NAME.
func newUCTHeuristic(s Spec, shared Shared) (Agent, error) {
	return uct(s, s.Heuristic.New(), shared)
}

func newMCTS(s Spec, shared Shared) (Agent, error) { return puct(s, shared) }

// puct returns the agent that searches by PUCT, unless s says otherwise, and evaluates leaves with a network or heuristic.
func puct(s Spec, shared Shared) (*searcher, error) {
	e, err := s.evaluator(shared)
	if err != nil {
		return nil, err
	}
	return newSearcher(s, e, s.Selection, shared)
}

func newSearcher(s Spec, e *eval.Evaluator, rule mcts.Selection, shared Shared) (*searcher, error) {
	s.Selection = rule
	c := s.Config(e.Backend())
	c.MaxNodes = 1 << 23   // 256 MiB
	if shared.Memory > 0 { // half of it, because a growing slice exists twice
		c.MaxNodes = min(c.MaxNodes, max(1<<12, int(shared.Memory/64)))
	}
	leaves := 1
	c.Reserve = min(s.Visits, c.MaxNodes) * nodesPerVisit
	if s.Visits == 0 {
		c.Reserve = int(min(s.Time.Seconds(), float64(c.MaxNodes)) * nodesPerSecond)
		leaves = TimedLeaves
		if !c.Plain {
			c.RootNodes = mcts.RootNodesFor(int(min(s.Time, time.Second) / rootVisit))
		}
	}
	c.Reserve = min(c.Reserve, c.MaxNodes)
	s.Leaves = cmp.Or(s.Leaves, leaves)
	a := &searcher{spec: s, evaluator: e, config: c, searched: shared.Searched}
	if s.Book == "" {
		return a, nil
	}
	if shared.Books == nil {
		return nil, fmt.Errorf("agent: no opening books here, so no book %s", short.Quote(s.Book))
	}
	var err error
	a.book, err = shared.Books(s.Book)
	return a, err
}

// Supports is that of the evaluator.
func (s *searcher) Supports(b *game.Board) error { return s.evaluator.Supports(b) }

func (s *searcher) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	inner, cancel := within(ctx, s.spec.Time)
	defer cancel()
	return s.move(ctx, inner, b, p)
}

// move searches until inner ends, and then returns the best move so far. If ctx ends, it returns an error.
func (s *searcher) move(ctx, inner context.Context, b *game.Board, p game.Position) (int, error) {
	if err := s.Supports(b); err != nil {
		return 0, fmt.Errorf("%s: %w", s.spec.Name, err)
	}
	if s.book != nil && s.book.Rules() == b.Rules() { // ignore a book of another game
		if a, ok := s.book.Move(p); ok && ctx.Err() == nil {
			return a, nil
		}
	}
	if err := s.root(b, p, s.config.Exact); err != nil {
		return 0, err
	}
	if legal := b.Legal(p); legal.OnesCount() == 1 && s.searched == nil && ctx.Err() == nil { // a book needs the value of the only move
		return b.Action(legal.First()), nil
	}
	limits := mcts.Limits{Visits: cmp.Or(s.spec.Visits, math.MaxInt32), Batch: 1, Leaves: s.spec.Leaves, Decide: s.spec.Selection != mcts.Gumbel} // which spreads all its visits by a plan
	err := mcts.Search(inner, s.evaluator, []*mcts.Tree{s.tree}, limits)
	if err == nil && s.exact.On(b) > 0 && s.tree.Result() == game.Loss {
		if err = s.root(b, p, solver.NoProbes); err == nil {
			err = mcts.Search(inner, s.evaluator, []*mcts.Tree{s.tree}, limits)
		}
	}
	if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		return 0, fmt.Errorf("%s: %w", s.spec.Name, err)
	}
	if s.searched != nil {
		s.searched(s.tree)
	}
	if best := s.tree.Best(); best >= 0 {
		return best, nil
	}
	return Quick(b, p), nil // the evaluator has not answered in time
}

// root makes p the root of a tree with the given Exact. It keeps the tree's nodes if p is two moves after the last root.
func (s *searcher) root(b *game.Board, p game.Position, exact solver.Nodes) (err error) {
	c := s.config
	c.Exact, c.MaxNodes = exact, max(c.MaxNodes, mcts.NodesFor(b, s.spec.Visits))
	switch {
	case s.tree == nil || s.tree.Board().Rules() != b.Rules():
		if s.tree, err = mcts.New(b, c); err == nil {
			s.tree.Reset(p)
		}
	case s.exact != exact:
		err = s.tree.Reconfigure(c, p)
	case s.spec.Visits > 0 || !s.advance(b, p):
		s.tree.Reset(p)
	}
	if err != nil {
		return err
	}
	s.exact = exact
	return nil
}

// advance moves the root to p and returns true if p is the position after one move of each side.
func (s *searcher) advance(b *game.Board, p game.Position) bool {
	root := s.tree.Root()
	if root == p {
		return true
	}
	for _, first := range actions(b, root) {
		middle := b.Play(root, first)
		if b.Result(middle) != game.Ongoing {
			continue
		}
		for _, second := range actions(b, middle) {
			if b.Play(middle, second) == p {
				s.tree.Advance(first)
				s.tree.Advance(second)
				return true
			}
		}
	}
	return false
}

func actions(b *game.Board, p game.Position) (all []int) {
	for l := b.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
		all = append(all, b.Action(l.First()))
	}
	return all
}
