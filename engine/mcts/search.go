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
	Visits int // of a tree's root, with those it had before; from 1
	Batch  int // rows of a batch at most, from 1; Leaves if that is more

	// Leaves is how many leaves each tree has under way at once, 1 to MaxLeaves; 0 means 1. The tree chooses them one after
	// the other. Each counts as a loss (virtual loss) until all are answered, in the order in which they were chosen. With more
	// leaves few trees can fill a batch, which is faster. But a leaf is chosen without the answers to the others: more leaves
	// make another search with other results.
	Leaves int

	// Decide ends the search of a single tree early: when no other move can become the one with the most visits in the visits
	// that are left. If ctx has a deadline, these are at most as many as the time allows at the rate so far.
	Decide bool
}

// MaxLeaves is how many leaves a tree can have under way at most.
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

// Search drives trees of one board through an evaluator until each tree has its visits or a proved root, or until ctx ends.
//
// A tree chooses Limits.Leaves leaves, or fewer if every line leads to one of them, and rests until all are answered. So its
// visits follow from its root, configuration and limits alone. They do not depend on the other trees, the batches or the
// cores.
//
// Two batches take turns: one is filled while the other is evaluated. If there are enough trees, each core has two. If ctx
// ends, the trees keep what they have and the error wraps ctx.Err(). It wraps context.DeadlineExceeded as soon as ctx's deadline
// has passed, even if ctx itself is late. An error of the evaluator ends the search too.
func Search(ctx context.Context, e *eval.Evaluator, trees []*Tree, limits Limits) error {
	return searchWith(ctx, e, trees, limits, new(Forest))
}

// searchWith is Search with the waves of a forest.
func searchWith(ctx context.Context, e *eval.Evaluator, trees []*Tree, limits Limits, forest *Forest) error {
	if err := limits.validate(); err != nil {
		return err
	}
	return newSearch(e, limits, forest).start(ctx, trees)
}

// Goal is how far a tree is searched before its driver is asked again.
type Goal struct {
	Visits int // of its root in all
	Look   int // with this many visits, and no leaf under way, the driver is asked for another goal; 0 means Visits
}

// Drive searches like Search, but each tree has goals of its own. It calls next for the first goal of a tree, and again when
// the tree has reached its goal or is proved. next may change the tree's root. A goal of 0 visits ends with the tree. So
// batches stay full although trees reach their goals at different times. next is called concurrently, but never for two
// calls with the same tree at once.
func Drive(ctx context.Context, e *eval.Evaluator, trees []*Tree, batch, leaves int, next func(*Tree) Goal) error {
	limits := Limits{Visits: 1, Batch: batch, Leaves: leaves}
	if err := limits.validate(); err != nil {
		return err
	}
	s := newSearch(e, limits, new(Forest))
	s.next = next
	return s.start(ctx, trees)
}

func newSearch(e *eval.Evaluator, limits Limits, forest *Forest) *search {
	limits.Leaves = max(1, limits.Leaves)
	limits.Batch = max(limits.Batch, limits.Leaves)
	return &search{evaluator: e, limits: limits, forest: forest, todo: forest.todo[:0]}
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
	// A worker has two batches under way. Search has a worker for each three batches that the trees' leaves fill, Drive for
	// each two.
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
	s.forest.todo = s.todo
	failed := make([]error, workers)
	var wait sync.WaitGroup
	for k := range workers {
		wait.Go(func() {
			if failed[k] = run(inner, trees[0].board); failed[k] != nil {
				cancel() // the other workers stop too
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
			return err // the other workers failed because they were cancelled
		}
	}
	return errors.Join(failed...)
}

// over reports that no more visits should begin.
func (s *search) over(ctx context.Context) bool { return ctx.Err() != nil || s.late() }

// late reports whether the deadline is over. It looks at the clock itself: while all cores compute, ctx may end milliseconds
// after its deadline.
func (s *search) late() bool { return !s.deadline.IsZero() && time.Now().After(s.deadline) }

// search is the state that all workers share.
type search struct {
	evaluator *eval.Evaluator
	limits    Limits
	next      func(*Tree) Goal // of Drive; nil in Search
	deadline  time.Time        // zero if there is none
	clock     *clock           // nil unless Limits.Decide ends the search early

	mu   sync.Mutex
	todo []*Tree // trees that need visits and have no leaf under way; first come, first served

	forest *Forest // its waves are those that nobody uses, of this search or of those before it
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

// put gives trees back to todo, unless they need no more visits. They must have no leaf under way.
func (s *search) put(trees []*Tree) {
	trees = slices.DeleteFunc(trees, func(t *Tree) bool { return !s.renew(t) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.todo = append(s.todo, trees...)
}

// renew reports whether the tree needs more visits. If it has reached its goal, renew asks next for another one. The tree
// must have no leaf under way.
func (s *search) renew(t *Tree) bool {
	for t.goal.Visits > 0 && (t.finished() || t.goal.Look > 0 && t.Visits() >= t.goal.Look) {
		if s.next == nil {
			return false
		}
		before := t.root
		if t.goal = s.next(t); t.root == before {
			return t.goal.Visits > 0 && !t.finished() // the goal may be one that the tree has reached already, or the root is proved
		}
	}
	return t.goal.Visits > 0
}

// wave is a batch with its leaves, while it is filled and evaluated.
type wave struct {
	memory eval.Batch
	batch  eval.Batch // the rows of memory in use
	trees  []*Tree    // of each row
	leaves []*Leaf    // of each row
	room   []Leaf     // all its leaves
	free   []*Leaf    // leaves that are in no row
	taken  []*Tree    // trees that are being visited, or whose last row was answered
	start  chan struct{}
	done   chan error
}

// takeWave is an empty wave, if possible one that was used before.
func (s *search) takeWave() *wave {
	w, leaves := new(wave), s.limits.Batch+lanes
	s.mu.Lock()
	if last := len(s.forest.waves) - 1; last >= 0 {
		w, s.forest.waves = s.forest.waves[last], s.forest.waves[:last]
	}
	s.mu.Unlock()
	if len(w.room) < leaves {
		w.room = make([]Leaf, leaves)
	}
	w.start, w.done = make(chan struct{}), make(chan error, 1)
	w.trees, w.leaves, w.free = w.trees[:0], w.leaves[:0], w.free[:0]
	for i := range w.room {
		w.free = append(w.free, &w.room[i])
	}
	return w
}

// keepWave keeps a wave of which nothing is being evaluated for the next search.
func (s *search) keepWave(w *wave) {
	close(w.start)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forest.waves = append(s.forest.waves, w)
}

// fly evaluates a wave each time that it gets a signal on start, until start is closed. The wave may belong to another search
// by then, with channels of its own.
func (s *search) fly(ctx context.Context, w *wave, start <-chan struct{}, done chan<- error) {
	for range start {
		done <- s.evaluator.Leaves(ctx, &w.batch)
	}
}

// runAlone is the worker of a single tree. It has nothing to do while a wave is evaluated.
func (s *search) runAlone(ctx context.Context, board *game.Board) error {
	w := s.takeWave()
	defer s.keepWave(w)
	for !s.over(ctx) {
		s.fill(ctx, w, board)
		if len(w.trees) == 0 {
			break
		}
		if err := s.land(w, s.evaluator.Leaves(ctx, &w.batch)); err != nil {
			return err
		}
	}
	return nil
}

// run is one worker.
func (s *search) run(ctx context.Context, board *game.Board) error {
	waves := [2]*wave{s.takeWave(), s.takeWave()}
	for _, w := range waves {
		go s.fly(ctx, w, w.start, w.done)
		defer s.keepWave(w)
	}
	var failed error
	// The two waves take turns; flying is how many are being evaluated.
	for turn, flying := 0, 0; ; {
		if flying < 2 && failed == nil && !s.over(ctx) {
			w := waves[turn%2]
			s.fill(ctx, w, board)
			if len(w.trees) > 0 {
				w.start <- struct{}{}
				runtime.Gosched() // so that the evaluator gets the wave before this core is busy again
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

// spare takes a leaf that is in no row.
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

// finished reports whether the root is proved, or has all visits of its goal, with those under way.
func (t *Tree) finished() bool {
	n := &t.nodes[rootNode]
	return n.proof != open || int(n.visits)+int(n.pending) >= t.goal.Visits
}

// land gives the answers of a wave to its trees. If err says that there are none, it takes the leaves back. It returns err.
func (s *search) land(w *wave, err error) error {
	landed := w.taken[:0]
	for i, t := range w.trees {
		breathe(i)
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
		if t.nodes[rootNode].pending == 0 { // this was its last row
			landed = append(landed, t)
		}
	}
	s.put(landed)
	w.taken = landed[:0]
	return err
}
