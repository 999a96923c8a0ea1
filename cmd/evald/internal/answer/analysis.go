package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/cmd/evald/internal/review"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
)

// analysisRequest asks for the opinions of the evaluator, a search and the solver on a position.
type analysisRequest struct {
	Position string       `json:"position"`
	Model    string       `json:"model"`   // of the opinion and the search; as of opinionRequest
	Visits   *int         `json:"visits"`  // 0: no search; missing: as many as the time and Limits.Visits allow
	Seconds  float64      `json:"seconds"` // 0: the maximum
	Exact    solver.Nodes `json:"exact"`   // how the search proves leaves: with a number of nodes, true or false
	Solve    bool         `json:"solve"`
	Known    []*int       `json:"known"` // scores from an earlier answer, which the solver does not compute again
}

// The objects of an answer, of one of these types. The first is an opinion. Then follow the results of the search
// and the solver as they improve, and finally an end. Arrays are by action; values are for the side to move.
type (
	Opinion struct {
		Type   string    `json:"type"` // "opinion"
		Model  string    `json:"model"`
		Source string    `json:"source"`
		WDL    []float32 `json:"wdl"`
		Policy []float32 `json:"policy"`
		Names  []string  `json:"names"` // of the moves
	}
	Searched struct {
		Type   string     `json:"type"` // "search"
		Visits int        `json:"visits"`
		Value  float64    `json:"value"`
		Result string     `json:"result"` // win, draw or loss if it is proved
		Best   int        `json:"best"`   // action; -1 while nothing is known
		Line   []string   `json:"line"`   // principal variation, names of moves
		Moves  []MoveSeen `json:"moves"`
		Names  []string   `json:"names"` // of the moves
		Done   bool       `json:"done"`
		Error  string     `json:"error,omitempty"`
	}
	MoveSeen struct {
		Visits int     `json:"visits"`
		Q      float64 `json:"q"`
		Result string  `json:"result"`
	}
	Solved struct {
		Type   string   `json:"type"`   // "exact"
		Scores []*int   `json:"scores"` // null if illegal or not solved yet
		Names  []string `json:"names"`  // of the moves
		Solved int      `json:"solved"`
		Legal  int      `json:"legal"`
		Done   bool     `json:"done"`
		Line   []string `json:"line"` // once all is solved, best play as far as lineNodes prove it, names of moves; else null
		Error  string   `json:"error,omitempty"`
	}
	Ended struct {
		Type  string `json:"type"`            // "end"
		Error string `json:"error,omitempty"` // why the work was cut short; empty if it is complete or the time is over
	}
)

// String is the opinion in a few words.
func (o Opinion) String() string {
	return fmt.Sprintf("win %.1f%%, draw %.1f%%, loss %.1f%%\n", 100*o.WDL[0], 100*o.WDL[1], 100*o.WDL[2])
}

// solverTable is small because many solvers may run at once.
const solverTable = 16 // MiB

func (a *Answerer) analyze(ctx context.Context, q *analysisRequest, send func(any) error) (any, error) {
	b, p, err := parseOngoing(q.Position)
	if err != nil {
		return nil, err
	}
	visits, limit, err := q.bounds(a.config.Limits)
	if err != nil {
		return nil, err
	}
	known, err := q.known(b)
	if err != nil {
		return nil, err
	}
	e, err := a.evaluator(q.Model)
	if err != nil {
		return nil, err
	}
	asked := ctx
	ctx, end, err := a.begin(ctx, limit)
	if err != nil {
		return nil, err
	}
	defer end()
	batch := eval.NewBatch(b, 1)
	batch.Pos[0] = p
	if err := e.Evaluate(ctx, batch); err != nil {
		return nil, why(ctx, err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex // held while an object is sent
	say := func(x any) {
		mu.Lock()
		defer mu.Unlock()
		if send(x) != nil {
			stop()
		}
	}
	say(Opinion{"opinion", cmp.Or(q.Model, a.modelOn(b.Rules())), batch.Source[0].String(), batch.WDL, batch.Policy, names(b)})

	var work sync.WaitGroup
	var exact *play.Exact // the solver's last result
	if visits > 0 {
		s := play.Analyst{Board: b, Evaluator: e, Leaves: 1, Exact: q.Exact}
		if q.Visits == nil { // the time limit ends the search
			s.Leaves = agent.TimedLeaves
		}
		work.Go(func() { s.Search(ctx, p, visits, func(r play.Report) { say(seen(b, &r)) }) })
	}
	if q.Solve {
		o := play.Oracle{Board: b, Threads: 1, TableMiB: solverTable}
		if ships := a.config.Agents.Ships; ships != nil {
			o.Book = ships(b.Rules())
		}
		work.Go(func() {
			o.Solve(ctx, p, known, func(e play.Exact) {
				exact = &e
				say(scored(b, &e))
			})
		})
	}
	work.Wait()
	if exact != nil && exact.Finished && exact.Err == nil {
		line, err := a.bestPlay(ctx, b, p, slices.Max(exact.Scores))
		if err != nil {
			return nil, err
		}
		s := scored(b, exact)
		s.Line = line
		say(s)
	}
	last := Ended{Type: "end"}
	if r, refused := errors.AsType[*Refusal](context.Cause(asked)); refused {
		last.Error = r.Text
	}
	return last, nil
}

// lineNodes limits the nodes of a line of best play.
const lineNodes = 300_000

// bestPlay returns the names of the moves of best play from a position with the given exact score. All best play has that score, while the
// line that a search expects may give it away.
func (a *Answerer) bestPlay(ctx context.Context, b *game.Board, p game.Position, score int) ([]string, error) {
	reviewer, err := a.reviewer(b, review.Options{Threads: 1, Nodes: lineNodes})
	if err != nil {
		return nil, err
	}
	line := []string{}
	for _, action := range reviewer.Best(ctx, p, score) {
		line = append(line, play.Name(b, action))
	}
	return line, nil
}

func (a *Answerer) modelOn(r game.Rules) string {
	if a.config.ModelOn == nil {
		return a.config.Model
	}
	return a.config.ModelOn(r)
}

// bounds returns the limits of visits and time.
func (q *analysisRequest) bounds(l Limits) (visits int, limit time.Duration, err error) {
	visits, limit = l.Visits, l.Time
	if q.Visits != nil {
		visits = *q.Visits
	}
	if visits < 0 || visits > l.Visits {
		return 0, 0, bad("visits", "visits is %d, must be 0 to %d", visits, l.Visits)
	}
	if !(q.Seconds >= 0 && q.Seconds <= l.Time.Seconds()) {
		return 0, 0, bad("seconds", "seconds is %v, must be 0 to %v", q.Seconds, l.Time.Seconds())
	}
	if q.Seconds > 0 {
		limit = time.Duration(q.Seconds * float64(time.Second))
	}
	return visits, limit, nil
}

// known returns the known scores of the request in the solver's form.
func (q *analysisRequest) known(b *game.Board) ([]int, error) {
	if q.Known == nil {
		return nil, nil
	}
	if len(q.Known) != b.Actions() {
		return nil, bad("known", "known has %d scores, want one for each of %d moves", len(q.Known), b.Actions())
	}
	scores := make([]int, b.Actions())
	for a, score := range q.Known {
		switch {
		case score == nil:
			scores[a] = solver.NoMove
		case *score < -b.Cells() || *score > b.Cells():
			return nil, bad("known", "known has a score of %d, must be -%d to %d", *score, b.Cells(), b.Cells())
		default:
			scores[a] = *score
		}
	}
	return scores, nil
}

func seen(b *game.Board, r *play.Report) Searched {
	m := Searched{
		Type: "search", Visits: r.Visits, Value: r.Value, Result: proof(r.Result), Best: r.Best,
		Line: []string{}, Moves: []MoveSeen{}, Names: names(b), Done: r.Finished,
	}
	for _, a := range r.Line {
		m.Line = append(m.Line, play.Name(b, a))
	}
	for _, x := range r.Moves {
		m.Moves = append(m.Moves, MoveSeen{x.Visits, x.Q, proof(x.Result)})
	}
	if r.Err != nil {
		m.Error = r.Err.Error()
	}
	return m
}

func proof(r game.Result) string {
	if r == game.Ongoing {
		return ""
	}
	return r.String()
}

func scored(b *game.Board, e *play.Exact) Solved {
	m := Solved{Type: "exact", Scores: make([]*int, len(e.Scores)), Names: names(b), Solved: e.Solved, Legal: e.Legal, Done: e.Finished}
	for a, score := range e.Scores {
		if score != solver.NoMove {
			m.Scores[a] = &score
		}
	}
	if e.Err != nil {
		m.Error = e.Err.Error()
	}
	return m
}
