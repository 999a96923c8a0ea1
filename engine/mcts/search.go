package mcts

import (
	"context"
	"errors"
	"fmt"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// Limits end a search: each tree gets Visits visits in all, and no visit begins once ctx has ended.
type Limits struct {
	Visits int // of a tree's root, those it had before included; from 1
	Batch  int // rows of a batch at most, from 1
}

// Search drives trees of one board through an evaluator until each has its visits, or its root is proved, or ctx ends.
// With many trees each has one leaf under way, so that its visits are the same whatever the batch; a single tree has up
// to Limits.Batch under way at once, which count as losses until they are answered (virtual loss).
//
// Two batches take turns: while the one is evaluated the other is filled. Where ctx ends, the trees keep what they have
// and the error wraps ctx.Err(). An evaluator's error ends the search too.
func Search(ctx context.Context, e eval.Evaluator, trees []*Tree, limits Limits) error {
	if limits.Visits < 1 || limits.Batch < 1 {
		return fmt.Errorf("mcts: %d visits in batches of %d: must be 1 or more", limits.Visits, limits.Batch)
	}
	return start(ctx, e, trees, limits, len(trees) == 1)
}

// searchMany is Search with one leaf under way a tree, even of a single one.
func searchMany(ctx context.Context, e eval.Evaluator, trees []*Tree, limits Limits) error {
	return start(ctx, e, trees, limits, false)
}

func start(ctx context.Context, e eval.Evaluator, trees []*Tree, limits Limits, single bool) error {
	if len(trees) == 0 {
		return nil
	}
	s := &search{evaluator: e, limits: limits, single: single}
	for _, t := range trees {
		if t.board.Rules() != trees[0].board.Rules() {
			return fmt.Errorf("mcts: trees of %v and %v in one search", trees[0].board.Rules(), t.board.Rules())
		}
	}
	s.todo = append(s.todo, trees...)
	return s.run(ctx, trees[0].board)
}

type search struct {
	evaluator eval.Evaluator
	limits    Limits
	single    bool
	todo      []*Tree // trees without a leaf under way that want visits; a single tree stays here
}

// wave is a batch under way.
type wave struct {
	memory eval.Batch
	batch  eval.Batch // the rows of memory in use
	trees  []*Tree
	leaves []*Leaf
	done   chan error
}

func (s *search) run(ctx context.Context, board *game.Board) error {
	waves := [2]*wave{{done: make(chan error, 1)}, {done: make(chan error, 1)}}
	var flying []*wave
	var failed error
	for turn := 0; ; turn++ {
		w := waves[turn%2]
		if len(flying) == 2 || len(flying) > 0 && failed != nil {
			failed = errors.Join(failed, s.land(flying[0]))
			flying = flying[1:]
		}
		if failed == nil && ctx.Err() == nil {
			s.fill(w, board)
			if len(w.trees) > 0 {
				go func() { w.done <- s.evaluator.Evaluate(ctx, &w.batch) }()
				flying = append(flying, w)
				continue
			}
		}
		if len(flying) == 0 {
			break
		}
		failed = errors.Join(failed, s.land(flying[0]))
		flying = flying[1:]
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("mcts: %w", err)
	}
	return failed
}

// fill makes visits until the batch is full or no tree can make one.
func (s *search) fill(w *wave, board *game.Board) {
	w.trees = w.trees[:0]
	w.memory.Reset(board, s.limits.Batch)
	kept := s.todo[:0]
	for i := 0; i < len(s.todo); i++ {
		t := s.todo[i]
		for len(w.trees) < s.limits.Batch {
			leaf := w.leaf()
			wants := s.visit(t, leaf)
			if !wants {
				break
			}
			w.memory.Pos[len(w.trees)] = leaf.Position
			w.trees = append(w.trees, t)
			if !s.single {
				break
			}
		}
		under := len(w.trees) > 0 && w.trees[len(w.trees)-1] == t && !s.single
		if !under && !s.finished(t) {
			kept = append(kept, t)
		}
		if len(w.trees) == s.limits.Batch {
			kept = append(kept, s.todo[i+1:]...)
			break
		}
	}
	s.todo = kept
	w.batch = w.memory.Slice(0, len(w.trees))
}

// leaf is room for the next leaf of the wave.
func (w *wave) leaf() *Leaf {
	if len(w.leaves) == len(w.trees) {
		w.leaves = append(w.leaves, new(Leaf))
	}
	return w.leaves[len(w.trees)]
}

// visit makes visits until one wants an evaluation.
func (s *search) visit(t *Tree, leaf *Leaf) bool {
	for !s.finished(t) {
		wants, free := t.Descend(leaf)
		if wants {
			return true
		}
		if !free {
			return false
		}
	}
	return false
}

// finished reports whether the tree needs no more visits than it has or has under way.
func (s *search) finished(t *Tree) bool {
	n := &t.nodes[rootNode]
	return n.proof != open || int(n.visits)+int(n.pending) >= s.limits.Visits
}

// land waits for a wave and hands out its answers.
func (s *search) land(w *wave) error {
	err := <-w.done
	for i, t := range w.trees {
		if err != nil {
			t.Abandon(w.leaves[i])
			continue
		}
		t.Expand(w.leaves[i], w.batch.WDLRow(i), w.batch.PolicyRow(i))
		if !s.single && !s.finished(t) {
			s.todo = append(s.todo, t)
		}
	}
	if s.single && len(s.todo) == 0 && err == nil {
		if t := w.trees[0]; !s.finished(t) {
			s.todo = append(s.todo, t)
		}
	}
	return err
}
