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
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/mcts/opening"
	"github.com/evald/evald/engine/short"
)

// over reports whether ctx has ended or its deadline has passed, which the runtime may find out milliseconds late while
// all cores compute.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && time.Now().After(deadline)
}

// searcher plays by tree search. Within a time it keeps its tree between the moves of a game; by visits it begins anew, so
// that its move follows from the position alone.
type searcher struct {
	name      string
	evaluator eval.Evaluator
	config    mcts.Config
	visits    int // 0: as many as time allows
	time      time.Duration
	leaves    int
	tree      *mcts.Tree
	book      *opening.Book // nil without one
	searched  func(*mcts.Tree)
}

// What a search is likely to need.
const (
	nodesPerVisit  = 7
	nodesPerSecond = 5e6
)

// TimedLeaves is how many leaves a search within a time has under way at once, where nobody says otherwise.
const TimedLeaves = 32

// reserve is what is left of a move's time unused: a garbage collector's pause, a scheduler's whim.
func reserve(d time.Duration) time.Duration { return min(d/4, 10*time.Millisecond+d/50) }

// within ends ctx when a move's time, less the reserve, is over; 0 is no limit.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d-reserve(d))
}

// uct is the agent that searches by UCT and evaluates leaves with e.
func uct(s Spec, e eval.Evaluator, shared Shared) (*searcher, error) {
	c := mcts.DefaultConfig()
	c.Selection, c.C, c.Seed = mcts.UCT, math.Sqrt2, s.Seed
	return newSearcher(s, e, c, shared)
}

func newUCT(s Spec, shared Shared) (Agent, error) {
	return uct(s, heuristic.Rollout{Games: 1, Seed: s.Seed}, shared)
}

func newUCTBitsquares(s Spec, shared Shared) (Agent, error) {
	return uct(s, heuristic.WithPower(s.Power), shared)
}

func newMCTS(s Spec, shared Shared) (Agent, error) {
	e, err := evaluator(s.Model, shared)
	if err != nil {
		return nil, err
	}
	c := mcts.DefaultConfig()
	c.Seed = s.Seed
	return newSearcher(s, e, c, shared)
}

func newSearcher(s Spec, e eval.Evaluator, c mcts.Config, shared Shared) (*searcher, error) {
	c.MaxNodes = 1 << 23   // 256 MiB
	if shared.Memory > 0 { // half of it for slices that grow
		c.MaxNodes = min(c.MaxNodes, max(1<<12, int(shared.Memory/64)))
	}
	a := &searcher{name: s.Name, evaluator: e, visits: s.Visits, time: s.Time, leaves: cmp.Or(s.Leaves, 1), searched: shared.Searched}
	c.Reserve = min(s.Visits, c.MaxNodes) * nodesPerVisit
	if s.Visits == 0 {
		c.Reserve = int(min(s.Time.Seconds(), float64(c.MaxNodes)) * nodesPerSecond)
		a.leaves = cmp.Or(s.Leaves, TimedLeaves)
	}
	c.Reserve = min(c.Reserve, c.MaxNodes)
	a.config = c
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

func (s *searcher) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	inner, cancel := within(ctx, s.time)
	defer cancel()
	return s.move(ctx, inner, b, p)
}

// move searches until inner ends, which is an answer, or ctx, which is an error.
func (s *searcher) move(ctx, inner context.Context, b *game.Board, p game.Position) (int, error) {
	if err := s.root(b, p); err != nil {
		return 0, err
	}
	if legal := b.Legal(p); legal.OnesCount() == 1 && ctx.Err() == nil {
		return b.Action(legal.First()), nil
	}
	limits := mcts.Limits{Visits: s.visits, Batch: 1, Leaves: s.leaves, Decide: true}
	if s.visits == 0 {
		limits.Visits = math.MaxInt32
	}
	err := mcts.Search(inner, s.evaluator, []*mcts.Tree{s.tree}, limits)
	if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		return 0, fmt.Errorf("%s: %w", s.name, err)
	}
	if s.searched != nil {
		s.searched(s.tree)
	}
	if best := s.tree.Best(); best >= 0 {
		return best, nil
	}
	// Not one visit in time: any legal move is better than none.
	return b.Action(b.Legal(p).First()), nil
}

// root makes p the tree's root: two moves on from the last one, or anew.
func (s *searcher) root(b *game.Board, p game.Position) error {
	if s.tree == nil || s.tree.Board().Rules() != b.Rules() {
		c := s.config
		c.MaxNodes = max(c.MaxNodes, mcts.NodesFor(b, s.visits))
		t, err := mcts.New(b, c)
		if err != nil {
			return err
		}
		s.tree = t
		t.Reset(p)
	} else if s.visits > 0 || !s.advance(b, p) {
		s.tree.Reset(p)
	}
	// A book of another game knows nothing of this one.
	if s.book != nil && s.book.Rules() == b.Rules() && s.tree.Visits() == 0 {
		s.tree.Warm(s.book.Find)
	}
	return nil
}

// advance follows the own move and the reply from the tree's root to p, if that is how p came about.
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

// actions are the legal ones.
func actions(b *game.Board, p game.Position) (all []int) {
	for l := b.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
		all = append(all, b.Action(l.First()))
	}
	return all
}
