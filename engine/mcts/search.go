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
	Batch  int // rows of a batch at most, from 1

	// Decide ends the search of a single tree once no other move can become the one with the most visits, in the visits
	// that are left, or in those that the time until ctx's deadline allows at the rate so far.
	Decide bool
}

// Search drives trees of one board through an evaluator until each has its visits, or its root is proved, or ctx ends.
// With many trees each has one leaf under way, so that its visits are the same whatever the batch; a single tree has up
// to Limits.Batch under way at once, which count as losses until they are answered (virtual loss).
//
// Two batches take turns: while the one is evaluated the other is filled; with trees enough, each core has two. Where ctx ends, the trees keep what they have
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
	for _, t := range trees {
		if t.board.Rules() != trees[0].board.Rules() {
			return fmt.Errorf("mcts: trees of %v and %v in one search", trees[0].board.Rules(), t.board.Rules())
		}
	}
	// As many workers as have trees enough for two full batches under way and one being filled.
	workers := max(1, min(runtime.GOMAXPROCS(0), len(trees)/(3*limits.Batch)))
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &search{evaluator: e, limits: limits, single: single, todo: slices.Clone(trees)}
	s.deadline, _ = ctx.Deadline()
	if limits.Decide && single {
		s.clock = newClock(ctx, trees[0])
	}
	failed := make([]error, workers)
	var wait sync.WaitGroup
	for k := range workers {
		wait.Go(func() {
			if failed[k] = s.run(inner, trees[0].board); failed[k] != nil {
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
	single    bool
	deadline  time.Time // zero where there is none
	clock     *clock    // nil where the search goes on to its limits whatever it finds

	mu   sync.Mutex
	todo []*Tree // first come, first served; a tree with a leaf under way is not here, but a single tree stays
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

// put gives trees back to todo, those that need no more visits excepted.
func (s *search) put(trees []*Tree) {
	if s.single {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range trees {
		if !s.finished(t) {
			s.todo = append(s.todo, t)
		}
	}
}

// wave is a batch under way.
type wave struct {
	memory eval.Batch
	batch  eval.Batch // the rows of memory in use
	trees  []*Tree    // of each row
	leaves []*Leaf    // of each row
	free   []*Leaf    // the others
	taken  []*Tree    // being visited
	start  chan struct{}
	done   chan error
}

// newWave starts the goroutine that evaluates a wave each time it is told to; it ends when start is closed.
func (s *search) newWave(ctx context.Context) *wave {
	w := &wave{start: make(chan struct{}), done: make(chan error, 1)}
	room := make([]Leaf, s.limits.Batch+lanes)
	for i := range room {
		w.free = append(w.free, &room[i])
	}
	go func() {
		for range w.start {
			w.done <- s.evaluator.Evaluate(ctx, &w.batch)
		}
	}()
	return w
}

// run is one worker.
func (s *search) run(ctx context.Context, board *game.Board) error {
	waves := [2]*wave{s.newWave(ctx), s.newWave(ctx)}
	defer close(waves[0].start)
	defer close(waves[1].start)
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
		failed = errors.Join(failed, s.land(waves[(turn-flying)&1]))
		flying--
	}
}

// fill makes visits until the batch is full or no tree can make one.
func (s *search) fill(ctx context.Context, w *wave, board *game.Board) {
	w.free = append(w.free, w.leaves...)
	w.trees, w.leaves = w.trees[:0], w.leaves[:0]
	w.memory.Reset(board, s.limits.Batch)
	if s.single {
		s.visitOne(ctx, w)
	} else {
		for free := s.limits.Batch; free > 0; free = s.limits.Batch - len(w.trees) {
			if w.taken = s.take(w.taken[:0], free); len(w.taken) == 0 {
				break
			}
			s.visitAll(w)
		}
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

// freeVisits is how many visits that want no evaluation are made between two looks at the clock.
const freeVisits = 256

// visitOne makes visits in a single tree until the batch is full, or nothing is left to visit, or the search is over: a
// tree can have endless visits that want no evaluation, such as those of a draw that is proved and beats all else.
func (s *search) visitOne(ctx context.Context, w *wave) {
	t := s.todo[0]
	for visits := 0; len(w.trees) < s.limits.Batch && !s.finished(t); visits++ {
		if visits%freeVisits == 0 && (s.over(ctx) || s.clock != nil && s.clock.decided(t, s.limits.Visits)) {
			return
		}
		leaf := w.spare()
		wants, free := t.Descend(leaf)
		if wants {
			w.add(t, leaf)
			continue
		}
		w.free = append(w.free, leaf)
		if !free {
			return
		}
	}
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
		if ahead := i + lanes/2; ahead < len(w.trees) {
			w.trees[ahead].prefetchPath(w.leaves[ahead])
		}
		if ahead := i + lanes; ahead < len(w.trees) {
			w.trees[ahead].prefetch()
		}
		t.Expand(w.leaves[i], w.batch.WDLRow(i), w.batch.PolicyRow(i))
	}
	if err == nil {
		s.put(w.trees)
	}
	return err
}
