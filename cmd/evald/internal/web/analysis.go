package web

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
)

// analysisRequest asks for the opinions of the evaluator, a search and the solver on a position.
type analysisRequest struct {
	Position string       `json:"position"`
	Visits   *int         `json:"visits"`  // 0: no search; missing: as many as the time and Limits.Visits allow
	Seconds  float64      `json:"seconds"` // 0: the maximum
	Exact    solver.Nodes `json:"exact"`   // how the search proves leaves: with a number of nodes, true or false
	Solve    bool         `json:"solve"`
	Known    []*int       `json:"known"` // scores from an earlier answer, which the solver does not compute again
}

// The lines of an answer; each is a JSON object of one of these types. The first line is an opinion. Then follow the results of the search
// and the solver as they improve, and finally an end. Arrays are by action; values are for the side to move.
type (
	opinion struct {
		Type   string    `json:"type"` // "opinion"
		Model  string    `json:"model"`
		Source string    `json:"source"`
		WDL    []float32 `json:"wdl"`
		Policy []float32 `json:"policy"`
	}
	searched struct {
		Type   string     `json:"type"` // "search"
		Visits int        `json:"visits"`
		Value  float64    `json:"value"`
		Result string     `json:"result"` // win, draw or loss if it is proved
		Best   int        `json:"best"`   // action; -1 while nothing is known
		Line   []string   `json:"line"`   // principal variation, names of moves
		Moves  []moveSeen `json:"moves"`
		Done   bool       `json:"done"`
		Error  string     `json:"error,omitempty"`
	}
	moveSeen struct {
		Visits int     `json:"visits"`
		Q      float64 `json:"q"`
		Result string  `json:"result"`
	}
	solved struct {
		Type   string `json:"type"`   // "exact"
		Scores []*int `json:"scores"` // null if illegal or not solved yet
		Solved int    `json:"solved"`
		Legal  int    `json:"legal"`
		Done   bool   `json:"done"`
		Error  string `json:"error,omitempty"`
	}
	ended struct {
		Type  string `json:"type"`            // "end"
		Error string `json:"error,omitempty"` // why the work was cut short; empty if it is complete or the time is over
	}
)

// solverTable is small because many solvers may run at once.
const solverTable = 16 // MiB

func (h *Handler) serveAnalysis(w http.ResponseWriter, r *http.Request) error {
	var q analysisRequest
	if err := read(w, r, &q); err != nil {
		return err
	}
	b, p, err := parseOngoing(q.Position)
	if err != nil {
		return err
	}
	visits, limit, err := q.bounds(h.config.Limits)
	if err != nil {
		return err
	}
	known, err := q.known(b)
	if err != nil {
		return err
	}
	ctx, end, err := h.begin(w, r, limit)
	if err != nil {
		return err
	}
	defer end()
	batch := eval.NewBatch(b, 1)
	batch.Pos[0] = p
	if err := h.config.Evaluator.Evaluate(ctx, batch); err != nil {
		return h.why(err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := newStream(w, stop)
	s.send(opinion{"opinion", h.config.modelOn(b.Rules()), batch.Source[0].String(), batch.WDL, batch.Policy})

	var work sync.WaitGroup
	if visits > 0 {
		a := play.Analyst{Board: b, Evaluator: h.config.Evaluator, Leaves: 1, Exact: q.Exact}
		if q.Visits == nil { // the time limit ends the search
			a.Leaves = agent.TimedLeaves
		}
		work.Go(func() { a.Search(ctx, p, visits, func(r play.Report) { s.send(seen(b, &r)) }) })
	}
	if q.Solve {
		o := play.Oracle{Board: b, Threads: 1, TableMiB: solverTable}
		if ships := h.config.Agents.Ships; ships != nil {
			o.Book = ships(b.Rules())
		}
		work.Go(func() { o.Solve(ctx, p, known, func(e play.Exact) { s.send(scored(&e)) }) })
	}
	work.Wait()
	last := ended{Type: "end"}
	if h.closing.Err() != nil {
		last.Error = "the server is shutting down"
	}
	s.send(last)
	return nil
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

func seen(b *game.Board, r *play.Report) searched {
	m := searched{
		Type: "search", Visits: r.Visits, Value: r.Value, Result: proof(r.Result), Best: r.Best,
		Line: []string{}, Moves: []moveSeen{}, Done: r.Finished,
	}
	for _, a := range r.Line {
		m.Line = append(m.Line, play.Name(b, a))
	}
	for _, x := range r.Moves {
		m.Moves = append(m.Moves, moveSeen{x.Visits, x.Q, proof(x.Result)})
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

func scored(e *play.Exact) solved {
	m := solved{Type: "exact", Scores: make([]*int, len(e.Scores)), Solved: e.Solved, Legal: e.Legal, Done: e.Finished}
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

// stream sends an answer line by line. If the client reads slowly, the search and the solver wait.
type stream struct {
	mu      sync.Mutex // held while a line is written
	control *http.ResponseController
	encode  *json.Encoder
	failed  func() // called if the client is gone or does not read in time
}

// lineTime is the time in which a client must read a line.
const lineTime = 10 * time.Second

func newStream(w http.ResponseWriter, failed func()) *stream {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("X-Accel-Buffering", "no") // tells proxies not to buffer the lines
	return &stream{control: http.NewResponseController(w), encode: json.NewEncoder(w), failed: failed}
}

func (s *stream) send(line any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// If the connection supports no deadlines, a client that does not read is noticed only when it disconnects.
	_ = s.control.SetWriteDeadline(time.Now().Add(lineTime))
	if s.encode.Encode(line) != nil || s.control.Flush() != nil {
		s.failed()
	}
}
