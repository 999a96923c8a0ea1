package analyze

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
)

// Config of a run.
type Config struct {
	Evaluator   *eval.Evaluator
	Model       func(game.Rules) string // returns the evaluator's name for a game, for the answers
	Search      ask.Search              // of queries that do not say otherwise; Batch and Leaves are of all
	Parallel    int                     // maximum number of concurrent searches, 1 or more; fewer if their trees would have more than mcts.NodesAtOnce nodes
	AnyPosition bool                    // accept positions that no game reaches
	Queue       int                     // maximum number of queries that wait, 1 or more; reading pauses at this number
	Table       bool                    // write a table instead of JSON
}

// search is an accepted query.
type search struct {
	query
	job     mcts.Job
	stopped atomic.Bool

	// Used only by the goroutine that searches.
	began  time.Time // zero before the search has begun
	report time.Time // time of the next report; zero: never
	ended  string    // result of over
}

// over returns why the search has ended, or "".
func (s *search) over(t *mcts.Tree) string {
	switch {
	case t.Result() != game.Ongoing:
		return byProof
	case t.Visits() >= s.Visits:
		return byVisits
	case s.stopped.Load():
		return byTerminate
	case s.Limit > 0 && t.Visits() > 0 && time.Since(s.began) >= s.Limit:
		return bySeconds
	}
	return ""
}

// engine searches many positions at once.
type engine struct {
	config    Config
	ctx       context.Context // its end abandons all searches; they get no reply
	scheduler *mcts.Scheduler
	send      func(reply) // may block, so it is called without mu

	mu      sync.Mutex
	room    sync.Cond          // signalled when fewer than config.Queue wait
	waiting int                // accepted but not yet begun
	live    map[string]*search // accepted but not yet answered
	closed  bool               // no more searches begin
	never   int                // number of searches dropped before they began
	lost    int                // number of searches abandoned after they began
}

// newEngine returns an engine. No searches begin after begin has ended, and ctx ends all searches.
func newEngine(begin, ctx context.Context, c Config, send func(reply)) (*engine, error) {
	e := &engine{config: c, ctx: ctx, send: send, live: map[string]*search{}}
	e.room.L = &e.mu
	var err error
	e.scheduler, err = mcts.NewScheduler(begin, ctx, c.Evaluator, c.Search.Batch, c.Search.Leaves, c.Parallel)
	return e, err
}

// timedNodes is the maximum number of a tree's nodes if the search has a time limit, because its number of visits is then not known in
// advance.
const timedNodes = 1 << 20

// accept queues a search as soon as there is room, and drops it if the engine is closed. It returns false if another search has the same id.
func (e *engine) accept(q query) bool {
	e.mu.Lock()
	for e.waiting >= e.config.Queue && !e.closed {
		e.room.Wait()
	}
	if e.closed {
		e.never++
		e.mu.Unlock()
		return true
	}
	if e.live[q.ID] != nil {
		e.mu.Unlock()
		return false
	}
	s := &search{query: q}
	s.job = mcts.Job{
		Board: q.State.Board, Position: q.State.Position, Visits: q.Visits, Config: q.Search.Config(e.config.Evaluator.Backend()), Priority: q.Priority,
		Next: func(_ *mcts.Job, t *mcts.Tree) mcts.Goal { return e.next(s, t) },
		Done: func(_ *mcts.Job, t *mcts.Tree, err error) { e.done(s, t, err) },
	}
	if q.Limit > 0 {
		s.job.Config.MaxNodes = timedNodes
	}
	e.live[q.ID] = s
	e.waiting++
	e.mu.Unlock()
	if err := e.scheduler.Add(&s.job); err != nil {
		e.done(s, nil, err)
	}
	return true
}

// next returns the next goal of a search, see mcts.Job.
func (e *engine) next(s *search, t *mcts.Tree) (goal mcts.Goal) {
	if s.began.IsZero() {
		s.began = time.Now()
		if s.Every > 0 {
			s.report = s.began.Add(s.Every)
		}
		e.mu.Lock()
		e.waiting--
		e.room.Signal()
		e.mu.Unlock()
	}
	if s.ended = s.over(t); s.ended != "" {
		return goal
	}
	if !s.report.IsZero() && !time.Now().Before(s.report) {
		e.send(e.describe(s, t))
		s.report = time.Now().Add(s.Every)
	}
	return mcts.Goal{Visits: s.Visits, CheckAt: t.Visits() + 1}
}

// done answers a search that has ended, unless an interrupt has ended it.
func (e *engine) done(s *search, t *mcts.Tree, err error) {
	r := reply{ID: s.ID}
	if err == nil {
		r = e.describe(s, t)
	} else {
		r.Error = err.Error()
	}
	// Free the id first: as soon as a client has the answer, it may use the id again.
	e.mu.Lock()
	delete(e.live, s.ID)
	if s.began.IsZero() {
		e.waiting--
		e.room.Signal()
	}
	dropped := t == nil && errors.Is(err, context.Canceled)
	abandoned := t != nil && err != nil && e.ctx.Err() != nil
	switch {
	case dropped:
		e.never++
	case abandoned:
		e.lost++
	}
	e.mu.Unlock()
	if !dropped && !abandoned {
		e.send(r)
	}
}

// describe returns the results of a search so far.
func (e *engine) describe(s *search, t *mcts.Tree) reply {
	r := reply{ID: s.ID, Ended: s.ended, Seconds: time.Since(s.began).Seconds()}
	if t.Visits() > 0 || t.Result() != game.Ongoing {
		a := Describe(s.Text, e.config.Model(s.State.Board.Rules()), s.State, t)
		r.Answer = &a
	}
	return r
}

// terminate ends the search with the id, or all searches if all is true, and returns their number.
func (e *engine) terminate(id string, all bool) int {
	ended := map[*mcts.Job]*search{}
	e.mu.Lock()
	for _, s := range e.live {
		if all || s.ID == id {
			s.stopped.Store(true)
			ended[&s.job] = s
		}
	}
	e.mu.Unlock()
	for _, j := range e.scheduler.Withdraw(func(j *mcts.Job) bool { return ended[j] != nil }) {
		s := ended[j]
		e.mu.Lock()
		delete(e.live, s.ID)
		e.waiting--
		e.room.Signal()
		e.mu.Unlock()
		e.send(reply{ID: s.ID, Ended: byTerminate})
	}
	return len(ended)
}

// close drops the waiting searches without a reply. Searches in progress continue.
func (e *engine) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	e.room.Broadcast()
}
