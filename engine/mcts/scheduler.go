package mcts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/game"
)

// Job is a position for a Scheduler to search. The Scheduler owns it until Done is called.
type Job struct {
	Board    *game.Board
	Position game.Position // its game must not be over
	Visits   int           // maximum visits of the search; its tree has room for no more
	Config   Config        // of its tree; MaxNodes is an upper bound
	Priority int           // jobs of higher priority begin first; jobs of equal priority begin in the order of Add
	Row      int           // for the caller's use

	// Next returns the goal of the job's tree. It is called before the first visit, when the root is Position, and whenever the tree has
	// reached its goal or is proved. The job ends if the tree has already reached the returned goal (as it has for 0 visits) or if the root
	// is proved. Next is called concurrently, but never twice at once for one job.
	Next func(*Job, *Tree) Goal

	// Done is called once, when the job has ended. If err is not nil, the search failed or was interrupted, and the tree has the results
	// until then; t is nil if the search had not begun. Done is called concurrently.
	Done func(j *Job, t *Tree, err error)

	number int // sequence number in the order of Add
}

// Scheduler searches many positions of any boards at once, each in its own tree. A tree whose job has ended gets the next one, so that
// batches stay full while jobs wait. Trees of one board share batches. A batch has at most half of the leaves that its trees can have
// pending, because one batch is filled while another is evaluated.
type Scheduler struct {
	begin, ctx context.Context
	evaluator  *eval.Evaluator
	limits     Limits // Visits is unused
	trees      int
	halves     bool        // false for SearchBatch: other requests fill batches while one is evaluated
	forest     *Forest     // of SearchBatch, or nil
	release    func() bool // cancels the callback for the end of begin
	jobs       fault.Group // jobs that have not ended, and running groups

	mu     sync.Mutex
	groups map[game.Rules]*group
	added  int
	busy   int   // number of trees with a job
	nodes  int   // sum of the maximum nodes of all trees, including resting ones
	broken error // not nil after a panic: no job begins any more
}

// group is the jobs of one board. mu guards all its fields.
type group struct {
	*Scheduler
	board   *game.Board
	waiting []*Job  // not begun, in their order
	trees   []*Tree // being searched
	fresh   []*Tree // with jobs; waiting for the next search
	resting []*Tree // without jobs
	search  *search // nil until run has begun
	running bool
}

// NewScheduler returns a Scheduler that evaluates leaves with e. batch, from 1, is the maximum number of leaves in a batch; leaves is
// Limits.Leaves. trees is the maximum number of positions searched at once; 0 means AtOnce for each board. Fewer are searched if their
// trees would have more than NodesAtOnce nodes in all, but at least one. Once begin has ended, no job begins, and waiting jobs end with its
// error. When ctx ends, jobs in progress end too.
func NewScheduler(begin, ctx context.Context, e *eval.Evaluator, batch, leaves, trees int) (*Scheduler, error) {
	s := &Scheduler{begin: begin, ctx: ctx, evaluator: e, limits: Limits{Visits: 1, Batch: batch, Leaves: leaves}, trees: trees, halves: true, groups: map[game.Rules]*group{}}
	if err := s.limits.validate(); err != nil {
		return nil, err
	}
	s.release = context.AfterFunc(begin, func() { s.jobs.Run(func() { s.drop(begin.Err()) }) })
	return s, nil
}

// drop ends the jobs that have not begun with an error.
func (s *Scheduler) drop(err error) {
	for _, j := range s.withdraw(func(*Job) bool { return true }) {
		s.jobs.Run(func() { j.Done(j, nil, err) })
		s.jobs.Done() // only after Done, because Wait promises that Done has been called
	}
}

// NodesAtOnce is the maximum number of nodes, of 32 bytes each, that all trees of a Scheduler may have together. They use about half of it.
// One tree is always searched, even if it may become larger.
const NodesAtOnce = 1 << 24

// AtOnce is the number of positions of a board that are searched at once if memory permits: enough for two full batches.
func AtOnce(batch int) int { return max(256, 2*batch) }

// Add adds all jobs, or none if it returns an error: that of begin, of a configuration, or of a
// board that the evaluator does not support.
func (s *Scheduler) Add(jobs ...*Job) error {
	for _, j := range jobs {
		room := NodesFor(j.Board, j.Visits)
		j.Config.MaxNodes = min(cmp.Or(j.Config.MaxNodes, room), room)
		if err := j.Config.Check(j.Board); err != nil {
			return err
		}
		if err := s.evaluator.Supports(j.Board); err != nil {
			return fmt.Errorf("search: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmp.Or(s.broken, s.begin.Err()); err != nil {
		return fmt.Errorf("mcts: %w", err)
	}
	for _, j := range jobs {
		s.added++
		j.number = s.added
		g := s.group(j.Board)
		at, _ := slices.BinarySearchFunc(g.waiting, j, (*Job).compare)
		g.waiting = slices.Insert(g.waiting, at, j)
	}
	s.jobs.Add(len(jobs))
	s.dispatch(nil)
	return nil
}

// group returns the group of a board. mu must be held.
func (s *Scheduler) group(b *game.Board) *group {
	g := s.groups[b.Rules()]
	if g == nil {
		g = &group{Scheduler: s, board: b}
		if s.forest != nil {
			g.resting = s.forest.take(b)
			for _, t := range g.resting {
				s.nodes += t.config.MaxNodes
			}
		}
		s.groups[b.Rules()] = g
	}
	return g
}

// Withdraw removes and returns the jobs that have not begun and for which match returns true. They count as ended; the Scheduler does not
// call their Done.
func (s *Scheduler) Withdraw(match func(*Job) bool) []*Job {
	withdrawn := s.withdraw(match)
	s.jobs.Add(-len(withdrawn))
	return withdrawn
}

// withdraw removes jobs that have not begun. Wait still waits for them until the caller subtracts them from s.jobs.
func (s *Scheduler) withdraw(match func(*Job) bool) (withdrawn []*Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.groups {
		g.waiting = slices.DeleteFunc(g.waiting, func(j *Job) bool {
			if match(j) {
				withdrawn = append(withdrawn, j)
				return true
			}
			return false
		})
	}
	return withdrawn
}

// Wait waits until all jobs have ended and their Done has returned. No job may be added afterwards.
// A panic of a Done does not keep other jobs from ending; Wait repeats it.
func (s *Scheduler) Wait() {
	s.jobs.Wait()
	s.release()
}

// dispatch begins all jobs that may begin. own is a tree without a job, whose worker can continue with a new job, or nil. mu must be held.
func (s *Scheduler) dispatch(own *Tree) {
	for s.begin.Err() == nil && s.broken == nil {
		g := s.first()
		if g == nil {
			return
		}
		t := g.treeFor(g.waiting[0], own)
		if t == nil {
			return
		}
		breathe(s.busy)
		t.job, g.waiting[0] = g.waiting[0], nil
		g.waiting = g.waiting[1:]
		s.busy++
		switch {
		case t == own:
			g.seat(t)
			own = nil
		case g.search != nil && g.search.add(t):
			g.seat(t)
		default:
			if g.fresh = append(g.fresh, t); !g.running {
				g.running = true
				s.jobs.Go(g.run)
			}
		}
	}
}

// first is the group with the job that begins next, or nil if no waiting job may get a tree. mu must be held.
func (s *Scheduler) first() (first *group) {
	if s.trees > 0 && s.busy >= s.trees {
		return nil
	}
	for _, g := range s.groups {
		if len(g.waiting) == 0 || s.trees == 0 && len(g.trees)+len(g.fresh) >= AtOnce(s.limits.Batch) {
			continue
		}
		if first == nil || g.waiting[0].compare(first.waiting[0]) < 0 {
			first = g
		}
	}
	return first
}

// treeFor returns a tree for a job, reset to its position: own if it fits, a resting one, or a new one. It returns nil if there is no
// memory for one. mu must be held.
func (g *group) treeFor(j *Job, own *Tree) (t *Tree) {
	nodes, last := j.Config.MaxNodes, len(g.resting)-1
	fits := func(t *Tree) bool { return t.board.Rules() == g.board.Rules() && t.Nodes() <= nodes }
	switch {
	case own != nil && fits(own):
		t = own
	case last >= 0 && fits(g.resting[last]):
		t = g.resting[last]
	}
	all := g.nodes + nodes
	if t != nil {
		all -= t.config.MaxNodes
	}
	for _, other := range g.groups { // discard resting trees to make room
		for last := len(other.resting) - 1; last >= 0 && all > NodesAtOnce && other.resting[last] != t; last-- {
			all -= other.resting[last].config.MaxNodes
			g.nodes -= other.resting[last].config.MaxNodes
			other.resting = slices.Delete(other.resting, last, last+1)
		}
	}
	if g.busy > 0 && all > NodesAtOnce {
		return nil
	}
	g.nodes = all
	if t != nil && t != own {
		g.resting = g.resting[:len(g.resting)-1]
	}
	var err error
	switch {
	case t == nil:
		if t, err = New(g.board, j.Config); err == nil {
			t.Reset(j.Position)
		}
	case t.config == j.Config:
		t.Reset(j.Position)
	default:
		err = t.Reconfigure(j.Config, j.Position)
	}
	if err != nil {
		panic(err) // impossible: Add has checked the configuration
	}
	return t
}

// seat and unseat add and remove a searched tree. mu must be held.
func (g *group) seat(t *Tree) {
	t.seat = len(g.trees)
	g.trees = append(g.trees, t)
}

func (g *group) unseat(t *Tree) {
	last := len(g.trees) - 1
	g.trees[t.seat] = g.trees[last]
	g.trees[t.seat].seat = t.seat
	g.trees[last] = nil
	g.trees = g.trees[:last]
}

// run searches the trees of a group until none has a job. After a panic in this goroutine all jobs
// of the group and all waiting ones end with its error.
func (g *group) run() {
	defer func() {
		if value := recover(); value != nil {
			g.abort(fault.New(value))
		}
	}()
	forest := g.forest
	if forest == nil {
		forest = new(Forest)
	}
	for s := g.start(forest); s != nil; s = g.start(forest) {
		if err := s.finish(g.ctx); err != nil {
			g.fail(err)
		}
	}
}

// start starts a search of the fresh trees, and returns nil if there are none.
func (g *group) start(forest *Forest) *search {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.fresh) == 0 {
		g.running, g.search = false, nil
		return nil
	}
	g.search = newSearch(g.evaluator, g.limits, forest)
	g.search.next, g.search.ended, g.search.halves = g.next, g.rest, g.halves
	g.search.prepare(g.ctx, g.board)
	g.search.add(g.fresh...)
	for _, t := range g.fresh {
		g.seat(t)
	}
	clear(g.fresh)
	g.fresh = g.fresh[:0]
	return g.search
}

// next returns a tree's next goal, if necessary that of its next job; see Drive.
func (g *group) next(t *Tree) Goal {
	for t.job != nil {
		if goal := t.job.Next(t.job, t); goal.Visits > t.Visits() && t.Result() == game.Ongoing {
			return goal
		}
		g.end(t, nil)
	}
	return Goal{}
}

// end ends the job of a tree. If err is nil, dispatch may give the tree another job.
func (g *group) end(t *Tree, err error) {
	g.jobs.Run(func() { t.job.Done(t.job, t, err) })
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.jobs.Done()
	t.job = nil
	g.busy--
	g.unseat(t)
	if err == nil {
		g.dispatch(t)
	} else {
		g.nodes -= t.config.MaxNodes
	}
}

// rest stores a tree whose search has ended, for reuse.
func (g *group) rest(t *Tree) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.resting = append(g.resting, t)
	g.dispatch(nil)
}

// fail ends the jobs of a failed search, and discards their trees.
func (g *group) fail(err error) {
	g.mu.Lock()
	failed := slices.Clone(g.trees)
	g.mu.Unlock()
	for _, t := range failed {
		g.end(t, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dispatch(nil)
}

// abort ends all jobs of the group and the waiting ones of all groups, and lets none begin any
// more.
func (g *group) abort(err error) {
	g.mu.Lock()
	ended := append(slices.Clone(g.trees), g.fresh...)
	g.trees, g.fresh, g.broken = nil, nil, err
	g.running, g.search = false, nil
	g.busy -= len(ended)
	g.mu.Unlock()
	for _, t := range ended {
		g.jobs.Run(func() { t.job.Done(t.job, t, err) })
		g.jobs.Done()
	}
	g.drop(err)
}

// compare orders waiting jobs.
func (j *Job) compare(k *Job) int {
	return cmp.Or(cmp.Compare(k.Priority, j.Priority), cmp.Compare(j.number, k.number))
}
