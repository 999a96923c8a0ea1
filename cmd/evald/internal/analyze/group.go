package analyze

import (
	"sync/atomic"
	"time"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
)

// group is the running searches of one game, and the goroutine that drives them.
type group struct {
	engine   *engine
	board    *game.Board
	incoming []*search   // searches to begin; guarded by engine.mu
	fresh    atomic.Bool // there are incoming searches, or another search needs room

	// Used only by the goroutine; while it drives the trees, each slot belongs to its tree's turn.
	slots map[*mcts.Tree]*slot
}

// slot is a tree and its search, which is nil while the tree rests.
type slot struct {
	tree   *mcts.Tree
	search *search
	nodes  int // the tree's room, included in engine.nodes
}

// run drives the group's searches until there are none. When others arrive, it gathers all and starts again.
func (g *group) run() {
	g.slots = map[*mcts.Tree]*slot{}
	for {
		trees := g.gather()
		if len(trees) == 0 {
			return
		}
		c := &g.engine.config
		batch := min(c.Batch, max(1, c.Leaves)*c.Parallel)
		if err := mcts.Drive(g.engine.ctx, c.Evaluator, trees, batch, c.Leaves, g.next); err != nil {
			g.failed(err)
		}
	}
}

// gather drops resting trees, gives trees to incoming searches, and returns all trees that search. If there are none, the
// group has ended.
func (g *group) gather() (trees []*mcts.Tree) {
	e := g.engine
	e.mu.Lock()
	for t, s := range g.slots {
		if s.search != nil {
			trees = append(trees, t)
			continue
		}
		e.forget(s)
		delete(g.slots, t)
	}
	e.dispatch()
	incoming := g.incoming
	g.incoming = nil
	g.fresh.Store(false)
	if len(trees)+len(incoming) == 0 {
		delete(e.groups, g.board.Rules())
	}
	e.mu.Unlock()
	for _, s := range incoming {
		to := &slot{nodes: e.config.room(s)}
		var err error
		if to.tree, err = mcts.New(g.board, e.config.Search); err != nil {
			g.refuse(to, s, err)
			continue
		}
		if g.begin(to, s) {
			g.slots[to.tree] = to
			trees = append(trees, to.tree)
		}
	}
	if len(trees) == 0 && len(incoming) > 0 {
		return g.gather() // all were refused
	}
	return trees
}

// begin starts a search in a slot. It reports whether that succeeded.
func (g *group) begin(to *slot, s *search) bool {
	c := g.engine.config.Search
	c.Visits, c.MaxNodes = s.Visits, to.nodes
	if err := to.tree.Reconfigure(c, s.State.Position); err != nil {
		g.refuse(to, s, err)
		return false
	}
	to.search = s
	s.began = time.Now()
	if s.Every > 0 {
		s.report = s.began.Add(s.Every)
	}
	return true
}

// refuse answers a search that cannot begin with an error.
func (g *group) refuse(at *slot, s *search, err error) {
	g.release(at)
	g.engine.answer(s, reply{ID: s.ID, Error: err.Error()})
}

// release frees the place and the room of a search that has ended, so that another can begin. Its tree is not used any more.
func (g *group) release(at *slot) {
	g.engine.mu.Lock()
	defer g.engine.mu.Unlock()
	g.engine.free++
	g.engine.nodes -= at.nodes
	at.nodes = 0
	g.engine.dispatch()
}

// next returns a tree's next goal; see mcts.Drive.
func (g *group) next(t *mcts.Tree) (goal mcts.Goal) {
	at := g.slots[t]
	for at.search != nil {
		s := at.search
		why := s.over(t, time.Now)
		if why == "" {
			if !s.report.IsZero() && !time.Now().Before(s.report) {
				g.engine.send(g.describe(s, t, ""))
				s.report = time.Now().Add(s.Every)
			}
			if g.fresh.Load() {
				return goal // return, so that others can join
			}
			return mcts.Goal{Visits: s.Visits, Look: t.Visits() + 1}
		}
		at.search = nil
		g.engine.answer(s, g.describe(s, t, why))
		g.another(at)
	}
	return goal
}

// another gives the next search to a slot whose search has ended, if it is of the same game and has room for the nodes that
// this tree already has. If not, the slot rests.
func (g *group) another(at *slot) {
	e := g.engine
	e.mu.Lock()
	e.free++
	e.nodes -= at.nodes
	if s := e.next(); s != nil && s.State.Board.Rules() == g.board.Rules() && at.tree.Nodes() <= e.config.room(s) {
		e.pop()
		e.mu.Unlock()
		at.nodes = e.config.room(s)
		g.begin(at, s)
		return
	}
	e.nodes += at.nodes
	e.idle += at.nodes
	e.dispatch()
	e.mu.Unlock()
}

// describe returns what is known about a search. why is the reason for its end, or "" while it runs.
func (g *group) describe(s *search, t *mcts.Tree, why string) reply {
	r := reply{ID: s.ID, Ended: why, Seconds: time.Since(s.began).Seconds()}
	if t.Visits() > 0 || t.Result() != game.Ongoing {
		a := Describe(s.Text, g.engine.config.Model(s.State.Board.Rules()), s.State, t)
		r.Answer = &a
	}
	return r
}

// failed answers all running searches with an error, unless they are abandoned. Their trees are in an undefined state and
// are dropped.
func (g *group) failed(err error) {
	slots := g.slots
	g.slots = map[*mcts.Tree]*slot{}
	for _, at := range slots {
		s := at.search
		switch {
		case s == nil:
			g.engine.mu.Lock()
			g.engine.forget(at)
			g.engine.mu.Unlock()
			continue
		case g.engine.ctx.Err() != nil:
			g.engine.lose(s)
		default:
			g.engine.answer(s, reply{ID: s.ID, Error: err.Error()})
		}
		g.release(at)
	}
}
