package analyze

import (
	"sync/atomic"
	"time"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
)

// group is the searches of one game that are under way, and the goroutine that drives them.
type group struct {
	engine   *engine
	board    *game.Board
	incoming []*search   // to begin with; engine.mu
	fresh    atomic.Bool // there are some

	// Of the goroutine; while it drives the trees, each slot belongs to its tree's turn.
	slots map[*mcts.Tree]*slot
}

// slot is a tree and what it searches, nil where it rests.
type slot struct {
	tree   *mcts.Tree
	search *search
}

// keptNodes is how large a tree may have grown that is used again.
const keptNodes = 1 << 16

// run drives the group's searches until there are none. When others come while some rest it begins anew with all.
func (g *group) run() {
	g.slots = map[*mcts.Tree]*slot{}
	for {
		trees := g.gather()
		if len(trees) == 0 {
			return
		}
		batch := min(g.engine.config.Batch, g.engine.config.Parallel)
		if err := mcts.Drive(g.engine.ctx, g.engine.config.Evaluator, trees, batch, g.next); err != nil {
			g.failed(err)
		}
	}
}

// gather gives trees to the searches that came and returns all that search. Where none do the group has ended.
func (g *group) gather() (trees []*mcts.Tree) {
	e := g.engine
	e.mu.Lock()
	incoming := g.incoming
	g.incoming = nil
	g.fresh.Store(false)
	var resting []*slot
	for t, s := range g.slots {
		switch {
		case s.search != nil:
			trees = append(trees, t)
		case t.Nodes() > keptNodes:
			delete(g.slots, t)
		default:
			resting = append(resting, s)
		}
	}
	if len(trees)+len(incoming) == 0 {
		delete(e.groups, g.board.Rules())
	}
	e.mu.Unlock()
	for _, s := range incoming {
		var to *slot
		if n := len(resting); n > 0 {
			to, resting = resting[n-1], resting[:n-1]
		} else {
			tree, err := mcts.New(g.board, e.config.Search)
			if err != nil {
				g.release()
				e.answer(s, reply{ID: s.ID, Error: err.Error()})
				continue
			}
			to = &slot{tree: tree}
			g.slots[tree] = to
		}
		if g.begin(to, s) {
			trees = append(trees, to.tree)
		}
	}
	if len(trees) == 0 && len(incoming) > 0 {
		return g.gather() // all were refused
	}
	return trees
}

// begin lets a slot search. It reports whether it does.
func (g *group) begin(to *slot, s *search) bool {
	c := g.engine.config.Search
	c.Visits = s.Visits
	if err := to.tree.Reconfigure(c, s.State.Position); err != nil {
		g.release()
		g.engine.answer(s, reply{ID: s.ID, Error: err.Error()})
		return false
	}
	to.search = s
	s.began = time.Now()
	if s.Every > 0 {
		s.report = s.began.Add(s.Every)
	}
	return true
}

// release lets another search begin in the place of one that has ended.
func (g *group) release() {
	g.engine.mu.Lock()
	defer g.engine.mu.Unlock()
	g.engine.free++
	g.engine.dispatch()
}

// next is how many visits a tree is to have in all; see mcts.Drive.
func (g *group) next(t *mcts.Tree) int {
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
				return 0 // others come along
			}
			return t.Visits() + 1
		}
		at.search = nil
		g.engine.answer(s, g.describe(s, t, why))
		g.another(at)
	}
	return 0
}

// another lets a slot whose search has ended search the next position, if that is of this game.
func (g *group) another(at *slot) {
	e := g.engine
	e.mu.Lock()
	if len(e.queue) == 0 || e.begin.Err() != nil || e.queue[0].State.Board.Rules() != g.board.Rules() || at.tree.Nodes() > keptNodes {
		e.free++
		e.dispatch()
		e.mu.Unlock()
		return
	}
	s := e.pop()
	e.mu.Unlock()
	g.begin(at, s)
}

// describe is what is known of a search; why it ended, or "" where it goes on.
func (g *group) describe(s *search, t *mcts.Tree, why string) reply {
	r := reply{ID: s.ID, Ended: why, Seconds: time.Since(s.began).Seconds()}
	if t.Visits() > 0 || t.Result() != game.Ongoing {
		a := Describe(s.Text, g.engine.config.Model(s.State.Board.Rules()), s.State, t)
		r.Answer = &a
	}
	return r
}

// failed answers all that search with an error, unless they are abandoned. Their trees have lost their way.
func (g *group) failed(err error) {
	slots := g.slots
	g.slots = map[*mcts.Tree]*slot{}
	for _, at := range slots {
		if s := at.search; s != nil {
			if g.engine.ctx.Err() != nil {
				g.engine.lose(s)
			} else {
				g.engine.answer(s, reply{ID: s.ID, Error: err.Error()})
			}
			g.release()
		}
	}
}
