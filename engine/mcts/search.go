package mcts

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// Limits end a search: each tree gets Visits visits in all, and no visit begins once ctx has ended.
type Limits struct {
	Visits int // of a tree's root, those it had before included; from 1
	Batch  int // rows of a batch at most, from 1; or Leaves, where these are more

	// Leaves is how many leaves each tree has under way at once, 1 to MaxLeaves; 0 is 1. They are chosen one after the
	// other, and each counts as a loss until all are answered (virtual loss), in the order in which they were chosen. More of
	// them fill the batches of few trees, which is faster, and know less of each other: another search with other answers.
	Leaves int

	// Decide ends the search of a single tree once no other move can become the one with the most visits, in the visits
	// that are left, or in those that the time until ctx's deadline allows at the rate so far.
	Decide bool
}

// MaxLeaves is how many leaves a tree can have under way.
const MaxLeaves = 1 << 12

func (l Limits) validate() error {
	if l.Visits < 1 || l.Batch < 1 {
		return fmt.Errorf("mcts: %d visits in batches of %d: must be 1 or more", l.Visits, l.Batch)
	}
	if l.Leaves < 0 || l.Leaves > MaxLeaves {
		return fmt.Errorf("mcts: %d leaves under way: must be 1 to %d", l.Leaves, MaxLeaves)
	}
	return nil
}

// Search drives trees of one board through an evaluator until each has its visits, or its root is proved, or ctx ends.
//
// A tree chooses its Limits.Leaves, fewer where every line leads to one of them, and rests until all are answered. So its
// visits follow from its root, configuration and limits alone: not from the other trees, the batches, or the cores.
//
// Two batches take turns: while the one is evaluated the other is filled; with trees enough, each core has two. Where
// ctx ends, the trees keep what they have and the error wraps ctx.Err(). An evaluator's error ends the search too.
func Search(ctx context.Context, e eval.Evaluator, trees []*Tree, limits Limits) error {
	if err := limits.validate(); err != nil {
		return err
	}
	return newSearch(e, limits).start(ctx, trees)
}

// Goal is what a tree is to have next.
type Goal struct {
	Visits int // of its root in all
	Look   int // how many it has when it is asked for another goal, while no leaf is under way; 0: Visits
}

// Drive searches like Search, but each tree for itself and again and again: next says what a tree is to have, at first
// and each time it has that or is proved, and may move its root on in between; 0 visits end with the tree. So batches stay
// full while some trees go on. next is called concurrently, with one tree at a time.
func Drive(ctx context.Context, e eval.Evaluator, trees []*Tree, batch, leaves int, next func(*Tree) Goal) error {
	limits := Limits{Visits: 1, Batch: batch, Leaves: leaves}
	if err := limits.validate(); err != nil {
		return err
	}
	s := newSearch(e, limits)
	s.next = next
	return s.start(ctx, trees)
}

func newSearch(e eval.Evaluator, limits Limits) *search {
	limits.Leaves = max(1, limits.Leaves)
	limits.Batch = max(limits.Batch, limits.Leaves)
	return &search{evaluator: e, limits: limits}
}

func (s *search) start(ctx context.Context, trees []*Tree) error {
	if len(trees) == 0 {
		return nil
	}
	for _, t := range trees {
		if t.board.Rules() != trees[0].board.Rules() {
			return fmt.Errorf("mcts: trees of %v and %v in one search", trees[0].board.Rules(), t.board.Rules())
		}
	}
	// As many workers as have trees enough for two full batches under way, and where trees end all the time, one more.
	each := 3 * s.limits.Batch
	if s.next != nil {
		each = 2 * s.limits.Batch
	}
	workers := max(1, min(runtime.GOMAXPROCS(0), len(trees)*s.limits.Leaves/each))
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	s.deadline, _ = ctx.Deadline()
	for _, t := range trees {
		if t.goal = (Goal{Visits: s.limits.Visits}); s.next != nil {
			t.goal = s.next(t)
		}
		if s.renew(t) {
			s.todo = append(s.todo, t)
		}
	}
	run := s.run
	if len(s.todo) == 1 {
		run = s.runAlone
	}
	if s.limits.Decide && len(trees) == 1 {
		s.clock = newClock(s.deadline, trees[0])
	}
	failed := make([]error, workers)
	var wait sync.WaitGroup
	for k := range workers {
		wait.Go(func() {
			if failed[k] = run(inner, trees[0].board); failed[k] != nil {
				cancel() // the others need not go on
			}
		})
	}
	wait.Wait()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("mcts: %w", err)
	}
	if s.late() {
		return fmt.Errorf("mcts: %w", context.DeadlineExceeded)
	}
	for _, err := range failed {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err // the others were told to end
		}
	}
	return errors.Join(failed...)
}

// over reports whether no more visits should begin.
func (s *search) over(ctx context.Context) bool { return ctx.Err() != nil || s.late() }

// late looks at the clock: the runtime may find out milliseconds after a deadline, while all cores compute.
func (s *search) late() bool { return !s.deadline.IsZero() && time.Now().After(s.deadline) }

// search is what the workers share.
type search struct {
	evaluator eval.Evaluator
	limits    Limits
	next      func(*Tree) Goal // of Drive; nil where a tree is done once it has its visits
	deadline  time.Time        // zero where there is none
	clock     *clock           // nil where the search goes on to its limits whatever it finds

	mu   sync.Mutex
	todo []*Tree // first come, first served; a tree with leaves under way is not here
}

// take moves up to n trees from todo to the end of trees.
func (s *search) take(trees []*Tree, n int) []*Tree {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, len(s.todo))
	trees = append(trees, s.todo[:n]...)
	s.todo = append(s.todo[:0], s.todo[n:]...)
	return trees
}

// put gives trees without leaves under way back to todo, those that are done with excepted.
func (s *search) put(trees []*Tree) {
	trees = slices.DeleteFunc(trees, func(t *Tree) bool { return !s.renew(t) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.todo = append(s.todo, trees...)
}

// renew reports whether the tree, which has no leaf under way, needs more visits, after asking next where it has those
// it was to have.
func (s *search) renew(t *Tree) bool {
	for t.goal.Visits > 0 && (t.finished() || t.goal.Look > 0 && t.Visits() >= t.goal.Look) {
		if s.next == nil {
			return false
		}
		before := t.root
		if t.goal = s.next(t); t.root == before {
			return t.goal.Visits > 0 && !t.finished() // next may want what the tree has, or more of what is proved
		}
	}
	return t.goal.Visits > 0
}

// wave is a batch under way.
type wave struct {
	memory eval.Batch
	batch  eval.Batch // the rows of memory in use
	trees  []*Tree    // of each row
	leaves []*Leaf    // of each row
	free   []*Leaf    // the others
	taken  []*Tree    // being visited, or landed
	start  chan struct{}
	done   chan error
}

// newWave is a wave with nothing in it.
func (s *search) newWave() *wave {
	w := &wave{start: make(chan struct{}), done: make(chan error, 1)}
	room := make([]Leaf, s.limits.Batch+lanes)
	for i := range room {
		w.free = append(w.free, &room[i])
	}
	return w
}

// fly evaluates a wave each time it is told to, until start is closed.
func (s *search) fly(ctx context.Context, w *wave) {
	for range w.start {
		w.done <- s.evaluator.Evaluate(ctx, &w.batch)
	}
}

// runAlone is the worker of a single tree, where nothing can be done while a wave is evaluated.
func (s *search) runAlone(ctx context.Context, board *game.Board) error {
	for w := s.newWave(); !s.over(ctx); {
		s.fill(ctx, w, board)
		if len(w.trees) == 0 {
			break
		}
		if err := s.land(w, s.evaluator.Evaluate(ctx, &w.batch)); err != nil {
			return err
		}
	}
	return nil
}

// run is one worker.
func (s *search) run(ctx context.Context, board *game.Board) error {
	waves := [2]*wave{s.newWave(), s.newWave()}
	for _, w := range waves {
		go s.fly(ctx, w)
		defer close(w.start)
	}
	var failed error
	// Waves fly and land in turn; flying is how many are under way.
	for turn, flying := 0, 0; ; {
		if flying < 2 && failed == nil && !s.over(ctx) {
			w := waves[turn%2]
			s.fill(ctx, w, board)
			if len(w.trees) > 0 {
				w.start <- struct{}{}
				runtime.Gosched() // a device should have it before this core is busy again
				turn, flying = turn+1, flying+1
				if flying < 2 {
					continue
				}
			}
		}
		if flying == 0 {
			return failed
		}
		w := waves[(turn-flying)&1]
		failed = errors.Join(failed, s.land(w, <-w.done))
		flying--
	}
}

// fill makes visits until the batch is full or no tree can make one.
func (s *search) fill(ctx context.Context, w *wave, board *game.Board) {
	w.free = append(w.free, w.leaves...)
	w.trees, w.leaves = w.trees[:0], w.leaves[:0]
	w.memory.Reset(board, s.limits.Batch)
	for room := s.limits.Batch; room >= s.limits.Leaves; room = s.limits.Batch - len(w.trees) {
		if w.taken = s.take(w.taken[:0], room/s.limits.Leaves); len(w.taken) == 0 {
			break
		}
		s.visitAll(ctx, w)
	}
	w.batch = w.memory.Slice(0, len(w.trees))
}

// spare is a leaf that is in no row.
func (w *wave) spare() *Leaf {
	last := len(w.free) - 1
	leaf := w.free[last]
	w.free = w.free[:last]
	return leaf
}

// add makes a leaf the batch's next row.
func (w *wave) add(t *Tree, leaf *Leaf) {
	w.memory.Pos[len(w.trees)] = leaf.Position
	w.trees, w.leaves = append(w.trees, t), append(w.leaves, leaf)
}

// finished reports whether the tree needs no more visits than it has or has under way.
func (t *Tree) finished() bool {
	n := &t.nodes[rootNode]
	return n.proof != open || int(n.visits)+int(n.pending) >= t.goal.Visits
}

// land hands out a wave's answers, or takes its leaves back where there are none.
func (s *search) land(w *wave, err error) error {
	landed := w.taken[:0]
	for i, t := range w.trees {
		if err != nil {
			t.Abandon(w.leaves[i])
			continue
		}
		if ahead := i + lanes/2; ahead < len(w.trees) {
			w.trees[ahead].prefetchPath(w.leaves[ahead])
		}
		if ahead := i + lanes; ahead < len(w.trees) {
			w.trees[ahead].prefetch()
		}
		if s := w.batch.Source[i]; !slices.Contains(t.sources, s) {
			t.sources = append(t.sources, s)
		}
		t.Expand(w.leaves[i], w.batch.WDLRow(i), w.batch.PolicyRow(i), w.batch.Source[i])
		if t.nodes[rootNode].pending == 0 { // its last
			landed = append(landed, t)
		}
	}
	s.put(landed)
	w.taken = landed[:0]
	return err
}
