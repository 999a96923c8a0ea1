package analyze

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
)

// MaxNodes is the number of nodes, of 32 bytes each, that all trees searched at once may have room for. They use about half
// of it. One tree is always searched, even if it is larger.
const MaxNodes = 1 << 24

// Config of a run.
type Config struct {
	Evaluator *eval.Evaluator
	Model     func(game.Rules) string // the evaluator's name on a game's boards, for the answers
	Search    mcts.Config             // Visits is for queries that give none, MaxNodes the limit of any tree
	Parallel  int                     // positions searched at once, 1 or more; fewer if their trees would have more than MaxNodes
	Batch     int                     // leaves evaluated together, 1 or more
	Leaves    int                     // leaves of each position under way at once, as mcts.Limits.Leaves
	Queue     int                     // queries that wait, 1 or more; with that many, reading pauses
}

// search is an accepted query.
type search struct {
	Query
	number  int // in order of acceptance
	stopped atomic.Bool

	// Used only by the goroutine that searches.
	began  time.Time
	report time.Time // when the next report is due; zero: never
}

// over returns why the search has ended, or "".
func (s *search) over(t *mcts.Tree, now func() time.Time) string {
	switch {
	case t.Result() != game.Ongoing:
		return byProof
	case t.Visits() >= s.Visits:
		return byVisits
	case s.stopped.Load():
		return byTerminate
	case s.Limit > 0 && t.Visits() > 0 && now().Sub(s.began) >= s.Limit:
		return bySeconds
	}
	return ""
}

// waiting are the searches that have not begun: a heap by priority, then by order of arrival.
type waiting []*search

func (w waiting) Len() int { return len(w) }
func (w waiting) Less(i, j int) bool {
	return w[i].Priority > w[j].Priority || w[i].Priority == w[j].Priority && w[i].number < w[j].number
}
func (w waiting) Swap(i, j int) { w[i], w[j] = w[j], w[i] }
func (w *waiting) Push(x any)   { *w = append(*w, x.(*search)) }
func (w *waiting) Pop() any {
	last := len(*w) - 1
	s := (*w)[last]
	(*w)[last] = nil
	*w = (*w)[:last]
	return s
}

// engine searches many positions at once. Positions of one game are searched together, so that their leaves fill the
// evaluator's batches.
type engine struct {
	config Config
	begin  context.Context // after it ends, no more searches begin; see close
	ctx    context.Context // its end abandons all searches; they get no reply
	send   func(reply)     // may block; called without mu
	done   sync.WaitGroup  // counts each accepted search and each group

	mu     sync.Mutex
	room   sync.Cond // signalled when fewer than config.Queue wait
	queue  waiting
	live   map[string]*search // accepted but not yet answered
	count  int                // accepted so far
	closed bool               // no more searches begin
	never  int                // number accepted, but dropped before they began
	lost   int                // number begun, but abandoned
	free   int                // free places, of config.Parallel
	nodes  int                // nodes that all trees have room for, at most MaxNodes
	idle   int                // of these, the nodes of trees that rest
	groups map[game.Rules]*group
}

func newEngine(begin, ctx context.Context, c Config, send func(reply)) *engine {
	e := &engine{config: c, begin: begin, ctx: ctx, send: send, live: map[string]*search{}, free: c.Parallel, groups: map[game.Rules]*group{}}
	e.room.L = &e.mu
	return e
}

// accept queues a search as soon as there is room. It reports whether its id is free. After the engine is closed, searches
// are dropped.
func (e *engine) accept(q Query) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.queue) >= e.config.Queue && !e.closed {
		e.room.Wait()
	}
	if e.closed {
		e.never++
		return true
	}
	if e.live[q.ID] != nil {
		return false
	}
	e.count++
	s := &search{Query: q, number: e.count}
	e.live[q.ID] = s
	heap.Push(&e.queue, s)
	e.done.Add(1)
	e.dispatch()
	return true
}

// timedNodes is the limit of a tree whose search has a time limit: the number of visits then says little about its size.
const timedNodes = 1 << 20

// room is the number of nodes that a search's tree may have.
func (c *Config) room(s *search) int {
	most := c.Search.MaxNodes
	if s.Limit > 0 {
		most = min(most, timedNodes)
	}
	return min(most, mcts.NodesFor(s.State.Board, s.Visits))
}

// next returns the search that may begin now, or nil. mu must be held.
func (e *engine) next() *search {
	if e.free == 0 || len(e.queue) == 0 || e.begin.Err() != nil {
		return nil
	}
	if s := e.queue[0]; e.nodes == 0 || e.nodes+e.config.room(s) <= MaxNodes {
		return s
	}
	return nil
}

// dispatch begins searches as long as there are some that may begin. If one has no room, trees that rest give up theirs. mu
// must be held.
func (e *engine) dispatch() {
	for e.next() != nil {
		s := e.pop()
		g := e.groups[s.State.Board.Rules()]
		if g == nil {
			g = &group{engine: e, board: s.State.Board}
			e.groups[g.board.Rules()] = g
			e.done.Go(g.run)
		}
		g.incoming = append(g.incoming, s)
		g.fresh.Store(true)
	}
	if e.free > 0 && len(e.queue) > 0 && e.idle > 0 {
		for _, g := range e.groups {
			g.fresh.Store(true)
		}
	}
}

// pop removes the first search from the queue to begin it. mu must be held.
func (e *engine) pop() *search {
	e.room.Signal()
	s := heap.Pop(&e.queue).(*search)
	e.free--
	e.nodes += e.config.room(s)
	return s
}

// forget gives back the room of a resting tree that is not used any more. mu must be held.
func (e *engine) forget(s *slot) {
	e.nodes -= s.nodes
	e.idle -= s.nodes
}

// terminate ends the search with the id, or all searches if all is true, and returns their number.
func (e *engine) terminate(id string, all bool) int {
	e.mu.Lock()
	var ended []*search
	for _, s := range e.live {
		if all || s.ID == id {
			s.stopped.Store(true)
			ended = append(ended, s)
		}
	}
	var never []*search
	kept := e.queue[:0]
	for _, s := range e.queue {
		if s.stopped.Load() {
			never = append(never, s)
			delete(e.live, s.ID)
		} else {
			kept = append(kept, s)
		}
	}
	clear(e.queue[len(kept):])
	e.queue = kept
	heap.Init(&e.queue)
	e.room.Signal()
	e.mu.Unlock()
	for _, s := range never {
		e.send(reply{ID: s.ID, Ended: byTerminate})
		e.done.Done()
	}
	return len(ended)
}

// close drops the waiting searches without a reply. Those under way continue.
func (e *engine) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, s := range e.queue {
		e.never++
		delete(e.live, s.ID)
		e.done.Done()
	}
	e.queue = nil
	e.room.Broadcast()
}

// lose ends an abandoned search without a reply.
func (e *engine) lose(s *search) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.live, s.ID)
	e.lost++
	e.done.Done()
}

// answer sends the last reply of a search.
func (e *engine) answer(s *search, r reply) {
	// The id must be free before anybody can read the answer.
	e.mu.Lock()
	delete(e.live, s.ID)
	e.mu.Unlock()
	e.send(r)
	e.done.Done()
}
