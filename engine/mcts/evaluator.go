package mcts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// searcher is a backend that answers each position with its own search: the policy is Tree.Policy with temperature 1, the value Tree.WDL.
// All searches of a batch fill the batches of the evaluator below them together.
type searcher struct {
	next   *eval.Evaluator
	config Config
	limits Limits
	forest *sync.Pool // of *Forest; a pointer for the same reason as eval.Cache.work
}

// NewEvaluator returns an Evaluator that answers each position with its own search, with Source eval.Searched. The searches evaluate leaves
// with next. limits.Visits must be 2 or more. Errors name the value that is out of range.
func NewEvaluator(next *eval.Evaluator, c Config, limits Limits) (*eval.Evaluator, error) {
	if limits.Visits < 2 || limits.Batch < 1 {
		return nil, fmt.Errorf("mcts: %d visits in batches of %d: a policy needs 2 visits or more, a batch 1 row", limits.Visits, limits.Batch)
	}
	if err := limits.validate(); err != nil {
		return nil, err
	}
	return eval.New(&searcher{next: next, config: c, limits: limits, forest: new(sync.Pool)}, eval.Options{OwnRules: true}), nil
}

// Attributes implements eval.Backend.
func (e *searcher) Attributes() eval.Attributes {
	return eval.Attributes{Rows: AtOnce(0), Invariant: true, Supports: e.next.Supports}
}

// Compute implements eval.Backend.
func (e *searcher) Compute(ctx context.Context, b *eval.Batch) error {
	forest, _ := e.forest.Get().(*Forest)
	if forest == nil {
		forest = new(Forest)
	}
	err := SearchBatch(ctx, e.next, b, e.config, e.limits, forest, nil)
	e.forest.Put(forest) // not after a panic
	return err
}

// Forest holds trees of one board, and other memory, for reuse by later searches. The zero value is empty. It must be used by one goroutine
// at a time.
type Forest struct {
	trees []*Tree
	waves []*wave
	todo  []*Tree
	roots []*Tree
	jobs  []Job
	added []*Job // of jobs
}

// take removes the trees of a board from the forest and returns them. It discards those of other boards.
func (f *Forest) take(board *game.Board) (trees []*Tree) {
	if len(f.trees) > 0 && f.trees[0].board.Rules() == board.Rules() {
		trees = f.trees
	}
	f.trees = nil
	return trees
}

// SearchBatch is one Evaluate of NewEvaluator for callers that need more than the answers. found, if not nil, is called with the tree of
// each searched row, in which it can read the moves with their visits and values. It is called after the row has its answer, one call at a
// time, in any order. A Scheduler searches the rows in the trees of the forest. If limits.Visits is 1, the policy is uniform over the moves
// that are not known to lose.
func SearchBatch(ctx context.Context, next *eval.Evaluator, b *eval.Batch, c Config, limits Limits, forest *Forest, found func(row int, t *Tree)) error {
	if err := b.Ready(ctx); err != nil {
		return err
	}
	if err := limits.validate(); err != nil {
		return err
	}
	s, err := NewScheduler(ctx, ctx, next, limits.Batch, limits.Leaves, 0)
	if err != nil {
		return err
	}
	s.forest, s.halves = forest, false
	var mu sync.Mutex // guards failed and the calls of found
	var failed error
	job := Job{Board: b.Board, Visits: limits.Visits, Config: c}
	show := func(j *Job, t *Tree) {
		t.WDL(b.WDLRow(j.Row))
		t.Policy(b.PolicyRow(j.Row), 1)
		b.Source[j.Row] = eval.Searched
		if found != nil {
			found(j.Row, t)
		}
	}
	job.Next = func(j *Job, t *Tree) Goal {
		if limits.Report == 0 {
			return Goal{Visits: limits.Visits}
		}
		next := limits.Report
		for next <= t.Visits() {
			next *= 2
		}
		if t.Visits() >= limits.Report && t.Visits() < limits.Visits && t.Result() == game.Ongoing {
			mu.Lock()
			defer mu.Unlock()
			show(j, t)
		}
		return Goal{Visits: min(next, limits.Visits)}
	}
	job.Done = func(j *Job, t *Tree, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = cmp.Or(failed, err)
			return
		}
		show(j, t)
	}
	forest.jobs, forest.added = slices.Grow(forest.jobs[:0], len(b.Pos)), forest.added[:0]
	for i, p := range b.Pos {
		breathe(i)
		if !b.AnswerTerminal(i) {
			job.Row, job.Position = i, p
			forest.jobs = append(forest.jobs, job)
			forest.added = append(forest.added, &forest.jobs[len(forest.jobs)-1])
		}
	}
	err = s.Add(forest.added...)
	s.Wait()
	s.mu.Lock() // if ctx ends now, the scheduler may still be reading its waiting jobs
	defer s.mu.Unlock()
	forest.trees = s.group(b.Board).resting
	return cmp.Or(err, failed)
}
