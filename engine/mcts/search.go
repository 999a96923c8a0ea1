package mcts

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	Batch  int // rows of a batch at most, from 1; of a single tree at most maxPending/2

	// Decide ends the search of a single tree once no other move can become the one with the most visits, in the visits
	// that are left, or in those that the time until ctx's deadline allows at the rate so far.
	Decide bool
}

// Search drives trees of one board through an evaluator until each has its visits, or its root is proved, or ctx ends.
// With many trees each has one leaf under way, so that its visits are the same whatever the batch; a single tree has up
// to Limits.Batch under way at once, which count as losses until they are answered (virtual loss).
//
// Two batches take turns: while the one is evaluated the other is filled; with trees enough, each core has two. Where
// ctx ends, the trees keep what they have and the error wraps ctx.Err(). An evaluator's error ends the search too.
func Search(ctx context.Context, e eval.Evaluator, trees []*Tree, limits Limits) error {
	if limits.Visits < 1 || limits.Batch < 1 {
		return fmt.Errorf("mcts: %d visits in batches of %d: must be 1 or more", limits.Visits, limits.Batch)
	}
	if len(trees) == 1 && limits.Batch > maxPending/2 {
		return fmt.Errorf("mcts: batches of %d leaves of one tree: at most %d", limits.Batch, maxPending/2)
	}
	return (&search{evaluator: e, limits: limits, single: len(trees) == 1}).start(ctx, trees)
}

// Drive searches like Search, with one leaf under way a tree, but each tree for itself and again and again: next says
// how many visits a tree's root shall have in all, at first and each time it has them or is proved, and may move its
// root on in between; 0 ends with the tree. So batches stay full while some trees go on. next is called concurrently,
// with one tree at a time.
func Drive(ctx context.Context, e eval.Evaluator, trees []*Tree, batch int, next func(*Tree) int) error {
	if batch < 1 {
		return fmt.Errorf("mcts: batches of %d: must be 1 or more", batch)
	}
	return (&search{evaluator: e, limits: Limits{Batch: batch}, next: next}).start(ctx, trees)
}

// maxPending is how many leaves a tree can have under way.
const maxPending = math.MaxUint16

// searchMany is Search with one leaf under way a tree, even of a single one.
func searchMany(ctx context.Context, e eval.Evaluator, trees []*Tree, limits Limits) error {
	return (&search{evaluator: e, limits: limits}).start(ctx, trees)
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
	workers := max(1, min(runtime.GOMAXPROCS(0), len(trees)/each))
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	s.deadline, _ = ctx.Deadline()
	for _, t := range trees {
		if t.goal = s.limits.Visits; s.next != nil {
			t.goal = s.next(t)
		}
		if s.single || s.renew(t) {
			s.todo = append(s.todo, t)
		}
	}
	if s.limits.Decide && s.single {
		s.clock = newClock(s.deadline, trees[0])
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
	single    bool
	next      func(*Tree) int // of Drive; nil where a tree is done once it has its visits
	deadline  time.Time       // zero where there is none
	clock     *clock          // nil where the search goes on to its limits whatever it finds

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

// put gives trees back to todo, those that are done with excepted.
func (s *search) put(trees []*Tree) {
	if s.single {
		return
	}
	trees = slices.DeleteFunc(trees, func(t *Tree) bool { return !s.renew(t) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.todo = append(s.todo, trees...)
}

// renew reports whether the tree, which has no leaf under way, needs more visits, after asking next where it has those
// it was to have.
func (s *search) renew(t *Tree) bool {
	for t.goal > 0 && t.finished() {
		if s.next == nil {
			return false
		}
		before := t.root
		if t.goal = s.next(t); t.root == before && t.finished() {
			return false // next wants what the tree has, or more of what is proved
		}
	}
	return t.goal > 0
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
	for visits := 0; len(w.trees) < s.limits.Batch && !t.finished(); visits++ {
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
func (t *Tree) finished() bool {
	n := &t.nodes[rootNode]
	return n.proof != open || int(n.visits)+int(n.pending) >= t.goal
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
		t.sources |= 1 << w.batch.Source[i]
		t.Expand(w.leaves[i], w.batch.WDLRow(i), w.batch.PolicyRow(i), w.batch.Source[i])
	}
	if err == nil {
		s.put(w.trees)
	}
	return err
}
