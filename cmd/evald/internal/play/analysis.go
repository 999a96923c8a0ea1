package play

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/solver"
)

// Report has the results of a search of a position so far. Values are for the side to move.
type Report struct {
	Moves    []mcts.Move // [A] by action; no visits and no proof if illegal or not yet tried
	Visits   int
	Value    float64     // -1..1
	Result   game.Result // the proved result, else Ongoing
	Best     int         // -1 while nothing is known
	Line     []int       // principal variation
	Finished bool        // the position is proved, the search has all its visits, or it ended with Err
	Err      error
}

// Limits and report intervals of a background search.
const (
	searchVisits = 1 << 22
	searchNodes  = 1 << 21 // 64 MiB
	searchEvery  = time.Second / 5
	firstVisits  = 32
)

// Analyst searches positions of one board.
type Analyst struct {
	Board     *game.Board
	Evaluator *eval.Evaluator
	Leaves    int          // mcts.Limits.Leaves: more are faster, but change the search
	Exact     solver.Nodes // mcts.Config.Exact, for proving leaves; 0 is solver.ByBoard
}

// Search searches p, whose game must not be over, until it is proved, has the given number of visits, or ctx ends. It calls report about once
// per searchEvery, more often in the beginning. The last report is Finished unless ctx ended the search.
func (s *Analyst) Search(ctx context.Context, p game.Position, visits int, report func(Report)) {
	c := ask.Search{Visits: visits, How: ask.How{Exact: s.Exact}}.Config(s.Evaluator.Backend())
	c.MaxNodes = searchNodes
	step, start := firstVisits, time.Now()
	job := mcts.Job{Board: s.Board, Position: p, Visits: visits, Config: c}
	job.Next = func(_ *mcts.Job, t *mcts.Tree) (goal mcts.Goal) {
		if ctx.Err() != nil {
			return goal
		}
		if t.Visits() > 0 || t.Result() != game.Ongoing {
			r := describe(t)
			r.Finished = r.Result != game.Ongoing || r.Visits >= visits || t.Nodes() > searchNodes-s.Board.Actions()
			report(r)
			if r.Finished {
				return goal
			}
			// Choose the visits of the next step so that it takes about searchEvery: the speeds of evaluators differ by factors of thousands.
			ratio := float64(searchEvery) / float64(time.Since(start)+1)
			step, start = max(firstVisits, int(float64(step)*min(ratio, 4))), time.Now()
		}
		return mcts.Goal{Visits: visits, CheckAt: t.Visits() + step}
	}
	last := Report{Best: -1, Moves: make([]mcts.Move, s.Board.Actions())}
	var failed error
	job.Done = func(_ *mcts.Job, t *mcts.Tree, err error) {
		if failed = err; t != nil {
			last = describe(t)
		}
	}
	scheduler, err := mcts.NewScheduler(ctx, ctx, s.Evaluator, 1, s.Leaves, 1)
	if err == nil {
		err = scheduler.Add(&job)
		scheduler.Wait()
	}
	if err = cmp.Or(err, failed); err != nil && !over(ctx) {
		last.Finished, last.Err = true, err
		report(last)
	}
}

// over reports whether ctx has ended or its deadline has passed. It checks the clock as mcts does, because ctx's timer is late on a busy
// machine.
func over(ctx context.Context) bool {
	deadline, has := ctx.Deadline()
	return ctx.Err() != nil || has && !time.Now().Before(deadline)
}

func describe(t *mcts.Tree) Report {
	b, p := t.Board(), t.Root()
	r := Report{
		Moves: make([]mcts.Move, b.Actions()), Visits: t.Visits(), Value: t.Value(), Result: t.Result(),
		Best: t.Best(), Line: t.Line(nil),
	}
	for _, m := range t.Moves(nil) {
		r.Moves[m.Action] = m
	}
	for a := range r.Moves {
		r.Moves[a].Action = a
		if b.CanPlay(p, a) && b.Won(b.Play(p, a).Other()) { // the tree has no moves of a position in which one of them wins
			r.Moves[a].Result, r.Moves[a].Q = game.Win, 1
		}
	}
	return r
}

// Exact has the solver's results so far for the moves of a position. Scores are for the side to move.
type Exact struct {
	Scores   []int // [A] by action; solver.NoMove if illegal or not solved yet
	Solved   int   // number of solved moves
	Legal    int   // number of legal moves
	Action   int   // the move that is being solved
	Progress solver.Progress
	Finished bool
	Err      error
}

// Oracle solves positions of one board exactly. It keeps the solver's table from one position to the next.
type Oracle struct {
	Board    *game.Board
	Threads  int
	TableMiB int         // 0 means the solver's default
	Book     solver.Book // nil for none

	mu     sync.Mutex // one position at a time
	solver *solver.Solver
	report func(solver.Progress)
}

// Solve finds the exact score of every legal move of p, whose game must not be over, one after the other from the middle outwards. It calls
// report after each move and a few times per second. The last report is Finished unless ctx ended the work. known has scores found
// earlier, by action, and solver.NoMove for the others; Solve does not compute these scores again. It may be nil.
func (o *Oracle) Solve(ctx context.Context, p game.Position, known []int, report func(Exact)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := Exact{Scores: slices.Repeat([]int{solver.NoMove}, o.Board.Actions()), Legal: o.Board.Legal(p).OnesCount()}
	for a, score := range known {
		if score != solver.NoMove && o.Board.CanPlay(p, a) {
			e.Scores[a] = score
			e.Solved++
		}
	}
	send := func() { // reports a copy, because later work changes e
		c := e
		c.Scores = slices.Clone(e.Scores)
		report(c)
	}
	if o.solver == nil {
		options := solver.Options{Threads: o.Threads, TableMiB: o.TableMiB, Book: o.Book, Progress: func(p solver.Progress) { o.report(p) }}
		if o.solver, e.Err = solver.New(o.Board, options); e.Err != nil {
			e.Finished = true
			send()
			return
		}
	}
	o.report = func(progress solver.Progress) {
		e.Progress = progress
		send()
	}
	for _, a := range o.Board.FromCentre() {
		if !o.Board.CanPlay(p, a) || e.Scores[a] != solver.NoMove {
			continue
		}
		e.Action, e.Progress = a, solver.Progress{}
		send()
		r, err := o.solver.Score(ctx, o.Board.Play(p, a))
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			e.Err = fmt.Errorf("solve move %s: %w", Name(o.Board, a), err)
			break
		}
		e.Scores[a] = -r.Score
		e.Solved++
	}
	e.Finished = true
	report(e)
}

// best returns the move with the highest known score, the leftmost of several, or -1 if no score is known.
func (e *Exact) best() int {
	best := -1
	for a, s := range e.Scores {
		if s != solver.NoMove && (best < 0 || s > e.Scores[best]) {
			best = a
		}
	}
	return best
}
