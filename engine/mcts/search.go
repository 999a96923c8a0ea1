package mcts

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/internal/yield"
)

// Limits ends a search: each tree gets Visits visits, and no visit begins after ctx has ended.
type Limits struct {
	Visits int // of the root, including earlier ones; from 1
	Batch  int // maximum rows of a batch, from 1; Leaves if that is more

	// Leaves is the number of leaves of each tree that are pending at once, 1 to MaxLeaves; 0 means 1. The tree chooses them one after the
	// other. Each counts as a loss (virtual loss) until all are answered; they are answered in the order in which they were chosen. With
	// more leaves, fewer trees fill a batch, which is faster. But each leaf is chosen without the answers to the others, so the number of
	// leaves changes the search and its results.
	Leaves int

	// Decide ends the search of a single tree as soon as no other move can become the most visited one within the remaining visits. If ctx
	// has a deadline, the number of remaining visits is at most that of the remaining time at the current rate.
	Decide bool

	// Report is for SearchBatch only: its callback is also called when a tree has Report visits, twice as many, four times as many and so
	// on. 0 disables this. The results stay the same.
	Report int
}

// MaxLeaves is the maximum of Limits.Leaves.
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
// A tree chooses Limits.Leaves leaves, or fewer if every line leads to one of them, and waits until all are answered. So its visits depend
// only on its root, configuration and limits, and not on other trees, batches or cores.
//
// One batch is filled while others are evaluated or wait for that; with enough trees, each core has
// batches of its own. Root probes (Config.RootNodes) run beside all this. If ctx ends, the trees
// keep their results, and the error wraps ctx.Err(). If ctx's deadline has passed, the error wraps
// context.DeadlineExceeded even if ctx itself has not ended yet. An error of the evaluator ends the
// search too. So does a panic in any of its goroutines, whose error is a *fault.Error; the trees
// must not be used any more.
func Search(ctx context.Context, e *eval.Evaluator, trees []*Tree, limits Limits) error {
	if err := limits.validate(); err != nil {
		return err
	}
	return newSearch(e, limits, new(Forest)).start(ctx, trees)
}

// Goal is the number of visits after which a tree's driver is asked for the next goal.
type Goal struct {
	Visits  int // total visits of the root
	CheckAt int // the driver is asked as soon as the root has this many visits and no leaf is pending; 0 means Visits
}

// Drive is Search with separate goals for each tree. It calls next for the first goal of a tree, and again when the tree has reached its
// goal or is proved. next may change the tree's root. A goal of 0 visits ends the tree's search. So batches stay full although trees reach
// their goals at different times. next is called concurrently, but never twice at once for one tree.
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
	return &search{evaluator: e, limits: limits, forest: forest, todo: forest.todo[:0], roots: forest.roots[:0]}
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
	if err := s.evaluator.Supports(trees[0].board); err != nil {
		return fmt.Errorf("search: %w", err)
	}
	s.prepare(ctx, trees[0].board)
	if s.limits.Decide && len(trees) == 1 {
		s.clock = &clock{start: time.Now(), deadline: s.deadline, visits: trees[0].Visits()}
	}
	s.active.Store(int32(len(trees)))
	s.guard(func() { s.begin(trees) })
	return s.finish(ctx)
}

func (s *search) begin(trees []*Tree) {
	for _, t := range trees { // the first root that is queued may start a worker
		if t.goal = (Goal{Visits: s.limits.Visits}); s.next != nil {
			t.goal = s.next(t)
		}
		if s.renew(t) {
			s.mu.Lock()
			s.queue(t)
			s.mu.Unlock()
		}
	}
	s.mu.Lock()
	s.hire(len(trees))
	s.mu.Unlock()
}

// guard calls f. A panic fails the search.
func (s *search) guard(f func()) {
	defer func() {
		if value := recover(); value != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.close(true)
			s.fail(fault.New(value))
		}
	}()
	f()
}

func (s *search) prepare(ctx context.Context, board *game.Board) {
	s.board = board
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.deadline, _ = ctx.Deadline()
}

// finish waits until all workers have ended, and returns their error or that of ctx.
func (s *search) finish(ctx context.Context) error {
	s.wait.Wait()
	s.cancel()
	s.forest.todo, s.forest.roots = s.todo, s.roots
	if fault.In(s.failed) != nil {
		return s.failed
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("mcts: %w", err)
	}
	if s.late() {
		return fmt.Errorf("mcts: %w", context.DeadlineExceeded)
	}
	return s.failed
}

// hire starts workers until there are enough for the given number of trees. mu must be held.
func (s *search) hire(trees int) {
	for enough := max(1, min(runtime.GOMAXPROCS(0), trees*s.limits.Leaves/(wavesAtOnce*s.limits.Batch))); s.workers < enough; s.workers++ {
		s.wait.Go(s.run)
	}
}

// add adds trees to a running search, which will ask next for their goals. It returns false if the search has ended or is about to end. A
// worker that begins now sees all of them, so that they share its first batch.
func (s *search) add(trees ...*Tree) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	for _, t := range trees {
		t.goal = Goal{Visits: unasked}
	}
	s.queue(trees...)
	s.hire(int(s.active.Add(int32(len(trees)))))
	return true
}

// leave reports whether a worker may end: there is no work, the search has failed, or its time is over. failed is this worker's error.
func (s *search) leave(failed error, over bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	over = over || failed != nil
	if len(s.todo) > 0 && !over {
		return false
	}
	s.workers--
	s.close(over)
	s.fail(failed)
	return true
}

// fail ends the search with an error, unless err is nil or another one came first: the other
// workers fail only because this cancels them. mu must be held.
func (s *search) fail(err error) {
	if err != nil && s.failed == nil {
		s.failed = err
		s.cancel()
	}
}

// close closes the search if it is over, or if nothing runs that could make a tree ready. mu must be held.
func (s *search) close(over bool) {
	s.closed = s.closed || over || s.workers+s.consulting == 0
}

// over reports whether no more visits may begin.
func (s *search) over() bool { return s.ctx.Err() != nil || s.late() }

// late reports whether the deadline has passed. It reads the clock, because while all cores compute, ctx may end milliseconds after its
// deadline.
func (s *search) late() bool { return !s.deadline.IsZero() && time.Now().After(s.deadline) }

// search is the state that all workers share.
type search struct {
	evaluator *eval.Evaluator
	limits    Limits
	halves    bool             // a batch has at most half of all leaves, so that another one is filled meanwhile
	next      func(*Tree) Goal // of Drive; nil in Search
	ended     func(*Tree)      // receives the Scheduler's trees that have ended; nil in Search and Drive
	board     *game.Board
	ctx       context.Context
	cancel    context.CancelFunc
	deadline  time.Time    // zero if there is none
	clock     *clock       // nil unless Limits.Decide ends the search early
	active    atomic.Int32 // trees that have not ended
	wait      sync.WaitGroup

	mu         sync.Mutex
	todo       []*Tree // trees that need visits and have no pending leaf, in order of arrival
	roots      []*Tree // likewise, but they consult their root probers first
	consulting int     // running goroutines in which they do so
	probes     bool    // a tree that was in todo has a prober
	workers    int     // running workers
	closed     bool    // no tree may be added
	failed     error

	forest *Forest // its waves are unused; they come from this search or earlier ones
}

// take moves up to n trees from todo to the end of trees, and reports whether some tree of this search probes.
func (s *search) take(trees []*Tree, n int) (taken []*Tree, probes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, len(s.todo))
	trees = append(trees, s.todo[:n]...)
	s.todo = append(s.todo[:0], s.todo[n:]...)
	return trees, s.probes
}

// put returns trees to todo, unless they need no more visits. They must have no pending leaf.
func (s *search) put(trees []*Tree) {
	trees = slices.DeleteFunc(trees, func(t *Tree) bool { return !s.renew(t) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue(trees...)
}

// queue appends trees to todo or roots. mu must be held.
func (s *search) queue(trees ...*Tree) {
	for _, t := range trees {
		s.probes = s.probes || t.prober != nil
		if !t.consults() {
			s.todo = append(s.todo, t)
			continue
		}
		s.roots = append(s.roots, t)
		if s.consulting < min(runtime.GOMAXPROCS(0), runtime.NumCPU()) {
			s.consulting++
			s.wait.Go(s.consultRoots)
		}
	}
}

// unasked is the value of Goal.Visits until next is called for the first time.
const unasked = -1

// renew reports whether the tree needs more visits. If the tree has reached its goal, renew asks next for another one. The tree must have
// no pending leaf. After renew has returned false, the tree has ended, and renew must not be called for it again.
func (s *search) renew(t *Tree) bool {
	if s.ask(t) {
		return true
	}
	s.active.Add(-1)
	if s.ended != nil {
		s.ended(t)
	}
	return false
}

func (s *search) ask(t *Tree) bool {
	for t.goal.Visits == unasked || t.goal.Visits > 0 && (t.finished() || t.goal.CheckAt > 0 && t.Visits() >= t.goal.CheckAt) {
		if s.next == nil {
			return false
		}
		before := t.root
		if t.goal = s.next(t); t.root == before {
			return t.goal.Visits > 0 && !t.finished() // the tree may already have reached this goal, or its root may be proved
		}
	}
	return t.goal.Visits > 0
}

// wave is a batch and its leaves, while it is filled and evaluated.
type wave struct {
	memory eval.Batch
	batch  eval.Batch    // the rows of memory in use
	trees  []*Tree       // of each row
	leaves []*Leaf       // of each row
	room   []Leaf        // memory of all leaves
	free   []*Leaf       // leaves that are not in a row
	taken  []*Tree       // trees that are being visited, or whose last rows were answered
	next   atomic.Int32  // index of the next tree of taken to visit
	shared bool          // several goroutines visit the trees
	mu     sync.Mutex    // if shared, guards rows and free leaves
	start  chan struct{} // nil until a goroutine runs fly for this wave
	done   chan error
}

// takeWave returns an empty wave, reused if possible.
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
	w.trees, w.leaves, w.free = w.trees[:0], w.leaves[:0], w.free[:0]
	for i := range w.room {
		w.free = append(w.free, &w.room[i])
	}
	return w
}

// keepWave stores an idle wave for the next search.
func (s *search) keepWave(w *wave) {
	w.ground()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forest.waves = append(s.forest.waves, w)
}

// ground ends the goroutine that runs fly for an idle wave.
func (w *wave) ground() {
	if w.start != nil {
		close(w.start)
		w.start = nil
	}
}

// launch lets another goroutine evaluate a wave. The result arrives on w.done.
func (s *search) launch(w *wave) {
	if w.start == nil {
		w.start, w.done = make(chan struct{}), make(chan error, 1)
		go s.fly(w, w.start, w.done)
	}
	w.start <- struct{}{}
	runtime.Gosched() // let the evaluator get the wave before this core is busy again
}

// fly evaluates a wave after each signal on start, until start is closed. By then the wave may belong to another search, with its own
// channels.
func (s *search) fly(w *wave, start <-chan struct{}, done chan<- error) {
	for range start {
		done <- s.evaluate(w)
	}
}

// evaluate evaluates a wave in this goroutine. A panic is its error.
func (s *search) evaluate(w *wave) (err error) {
	defer fault.Catch(&err)
	yield.ToEvents()
	return s.evaluator.Leaves(s.ctx, &w.batch)
}

// wavesAtOnce is the number of waves of a worker. While one is evaluated and another waits for that, the worker fills the third.
const wavesAtOnce = 3

// run is one worker. It fills its waves in turns while others are evaluated.
func (s *search) run() {
	var waves [wavesAtOnce]*wave
	var failed error
	turn, flying := 0, 0
	defer func() {
		value := recover()
		for ; flying > 0; flying-- { // after a panic; the evaluator has them
			<-waves[(turn-flying)%len(waves)].done
		}
		for _, w := range waves {
			switch {
			case w == nil:
			case value == nil:
				s.keepWave(w)
			default:
				w.ground()
			}
		}
		if value != nil {
			s.leave(fault.New(value), true)
		}
	}()
	for {
		over := failed != nil || s.over()
		if flying < len(waves) && !over {
			w := waves[turn%len(waves)]
			if w == nil {
				w = s.takeWave()
				waves[turn%len(waves)] = w
			}
			s.fill(w)
			switch {
			case len(w.trees) == 0:
			case flying == 0 && s.active.Load() == 1: // nothing else to do while the leaves of a single tree are evaluated
				failed = s.land(w, s.evaluate(w))
				continue
			default:
				s.launch(w)
				turn++
				if flying++; flying < len(waves) {
					continue
				}
			}
		}
		if flying > 0 {
			w := waves[(turn-flying)%len(waves)]
			err := <-w.done
			flying--
			failed = errors.Join(failed, s.land(w, err))
		} else if s.leave(failed, over) {
			return
		}
	}
}

// fill makes visits until the batch is full or no tree can make one.
func (s *search) fill(w *wave) {
	w.free = append(w.free, w.leaves...)
	w.trees, w.leaves = w.trees[:0], w.leaves[:0]
	most := s.limits.Batch
	if s.halves {
		most = min(most, s.limits.Leaves*max(1, (int(s.active.Load())+1)/2))
	}
	w.memory.Reset(s.board, most)
	for room := most; room >= s.limits.Leaves; room = most - len(w.trees) {
		var probes bool
		if w.taken, probes = s.take(w.taken[:0], room/s.limits.Leaves); len(w.taken) == 0 {
			break
		}
		s.visitAll(w, probes)
	}
	w.batch = w.memory.Slice(0, len(w.trees))
}

// spare returns a leaf that is not in a row.
func (w *wave) spare() (leaf *Leaf) {
	if w.shared {
		w.alone(func() { leaf = w.pop() })
		return leaf
	}
	return w.pop()
}

func (w *wave) pop() *Leaf {
	last := len(w.free) - 1
	leaf := w.free[last]
	w.free = w.free[:last]
	return leaf
}

// keep takes back a leaf that did not become a row.
func (w *wave) keep(leaf *Leaf) {
	if w.shared {
		w.alone(func() { w.free = append(w.free, leaf) })
		return
	}
	w.free = append(w.free, leaf)
}

// add makes a leaf the next row of the batch.
func (w *wave) add(t *Tree, leaf *Leaf) {
	if w.shared {
		w.alone(func() { w.push(t, leaf) })
		return
	}
	w.push(t, leaf)
}

func (w *wave) push(t *Tree, leaf *Leaf) {
	w.memory.Pos[len(w.trees)] = leaf.Position
	w.trees, w.leaves = append(w.trees, t), append(w.leaves, leaf)
}

// alone calls f while no other goroutine changes rows and free leaves. A panic does not leave the
// lock behind, on which the others would wait without end.
func (w *wave) alone(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// finished reports whether the root is proved, or has all visits of its goal, including pending ones.
func (t *Tree) finished() bool {
	n := &t.nodes[rootNode]
	return n.proof != open || int(n.visits)+int(n.pending) >= t.goal.Visits
}

// land gives the answers of a wave to its trees, or abandons its leaves if err is not nil. It returns err.
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
		if t.nodes[rootNode].pending == 0 { // its last pending row
			landed = append(landed, t)
		}
	}
	s.put(landed)
	w.taken = landed[:0]
	return err
}
