package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/cmd/evald/internal/places"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/solver"
)

// line is one line of an analysis.
type line struct {
	Type, Model, Source, Error, Result string
	WDL, Policy                        []float32
	Visits, Best, Solved, Legal        int
	Line                               []string
	Moves                              []moveSeen
	Scores                             []*int
	Done                               bool
}

// analyse returns the lines of an answer to a request.
func analyse(t testing.TB, h *Handler, body string) (all []line) {
	t.Helper()
	for s := bufio.NewScanner(asked(t, h, "/ui/analyze", body).Body); s.Scan(); {
		var l line
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			t.Fatalf("%v: %s", err, s.Bytes())
		}
		all = append(all, l)
	}
	return all
}

// evaluated is the page's evaluator's opinion of a position.
func evaluated(t testing.TB, h *Handler, b *game.Board, p game.Position) *eval.Batch {
	t.Helper()
	batch := eval.NewBatch(b, 1)
	batch.Pos[0] = p
	gametest.OK(t, h.config.Evaluator.Evaluate(t.Context(), batch))
	return batch
}

// The opinion names the network that answers the game.
func TestOpinionOf(t *testing.T) {
	h := handler(t, Config{ModelOn: func(r game.Rules) string { return "of " + r.String() }})
	for _, position := range []string{"44", "9x5x4:44"} {
		rules, _, other := strings.Cut(position, ":")
		if !other {
			rules = game.Connect4.String()
		}
		if first := analyse(t, h, `{"position":"`+position+`","visits":1}`)[0]; first.Model != "of "+rules {
			t.Errorf("%s: the opinion is of %q", position, first.Model)
		}
	}
}

// An analysis has the evaluator's opinion, then the results of a search and of the solver.
func TestAnalysis(t *testing.T) {
	h := handler(t, Config{})
	all := analyse(t, h, `{"position":"44444422662666","visits":500,"solve":true}`)
	b, p, err := parseOngoing("44444422662666")
	gametest.OK(t, err)
	batch := evaluated(t, h, b, p)
	first, last := all[0], all[len(all)-1]
	if first.Type != "opinion" || first.Model != "bitsquares" || first.Source != "bitsquares" || !cmp.Equal(first.WDL, batch.WDL) || !cmp.Equal(first.Policy, batch.Policy) {
		t.Errorf("the first line is %+v, want %v, %v", first, batch.WDL, batch.Policy)
	}
	if last.Type != "end" || last.Error != "" {
		t.Errorf("the last line is %+v", last)
	}
	var search, exact line
	for _, l := range all[1 : len(all)-1] {
		switch l.Type {
		case "search":
			if l.Visits < search.Visits {
				t.Errorf("%d visits after %d", l.Visits, search.Visits)
			}
			search = l
		case "exact":
			exact = l
		default:
			t.Errorf("a line of type %q", l.Type)
		}
	}
	visits := 0
	for _, m := range search.Moves {
		visits += m.Visits
	}
	if !search.Done || search.Visits != 500 && search.Result == "" || visits > search.Visits || visits < search.Visits-2 || len(search.Line) == 0 {
		t.Errorf("the search ends with %+v", search)
	}
	s := gametest.Must(solver.New(b, solver.Options{}))(t)
	want, _, err := s.Scores(t.Context(), p)
	gametest.OK(t, err)
	if !exact.Done || exact.Solved != exact.Legal {
		t.Errorf("the solver ends with %+v", exact)
	}
	for a, score := range want {
		if got := exact.Scores[a]; (got == nil) != (score == solver.NoMove) || got != nil && *got != score {
			t.Errorf("move %d: score %v, want %d", a+1, got, score)
		}
	}
}

// The solver continues from the scores of an earlier answer: they are not computed again.
func TestAnalysisKnown(t *testing.T) {
	h := handler(t, Config{})
	exact := func(known string) line {
		t.Helper()
		all := analyse(t, h, `{"position":"44444422662666","visits":0,"solve":true`+known+`}`)
		return all[len(all)-2]
	}
	first := exact("")
	for a, score := range first.Scores {
		if score == nil {
			continue
		}
		known := make([]*int, len(first.Scores))
		other := *score + 1 // a wrong score, to be recognized
		known[a] = &other
		text := gametest.Must(json.Marshal(known))(t)
		second := exact(`,"known":` + string(text))
		want := slices.Clone(first.Scores)
		want[a] = &other
		if diff := cmp.Diff(want, second.Scores); diff != "" || second.Solved != first.Legal || !second.Done {
			t.Errorf("with move %d known: %+v (-want +got):\n%s", a+1, second, diff)
		}
	}
}

// bookOf is a book that knows one score for all positions.
type bookOf int

func (b bookOf) Score(game.Position) (int, bool) { return int(b), true }

// What a book knows takes no time, even on the empty board, which would take the solver minutes.
func TestAnalysisBook(t *testing.T) {
	ships := func(r game.Rules) solver.Book {
		if r != game.Connect4 {
			return nil
		}
		return bookOf(-3)
	}
	h := handler(t, Config{Agents: agent.Shared{Ships: ships}})
	all := analyse(t, h, `{"position":"-","visits":0,"solve":true}`)
	exact := all[len(all)-2]
	if other := func(score *int) bool { return score == nil || *score != 3 }; len(exact.Scores) != 7 || !exact.Done || slices.ContainsFunc(exact.Scores, other) {
		t.Errorf("%+v", exact)
	}
	all = analyse(t, h, `{"position":"4x4x4:12211221","visits":0,"solve":true}`)
	if exact := all[len(all)-2]; !exact.Done {
		t.Errorf("a game without a book: %+v", exact)
	}
}

// When the time is over, an analysis ends with what it has. Zero visits mean no search.
func TestAnalysisBounds(t *testing.T) {
	h := handler(t, Config{})
	all := analyse(t, h, `{"position":"-","seconds":0.5,"solve":true}`)
	if last := all[len(all)-1]; last.Type != "end" || last.Error != "" || len(all) < 3 {
		t.Errorf("%+v", all)
	}
	if slices.ContainsFunc(all, func(l line) bool { return l.Type == "exact" && l.Done }) {
		t.Error("the empty board is solved in half a second")
	}
	all = analyse(t, h, `{"position":"-","visits":0}`)
	if len(all) != 2 || all[0].Type != "opinion" || all[1].Type != "end" {
		t.Errorf("without visits: %+v", all)
	}
}

// A server's timeouts for other requests do not end an analysis or a move.
func TestServerTimeouts(t *testing.T) {
	server := httptest.NewUnstartedServer(handler(t, Config{}))
	server.Config.ReadTimeout, server.Config.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond
	server.Start()
	defer server.Close()
	for path, body := range map[string]string{
		"/ui/analyze": `{"position":"-","seconds":0.3}`, "/ui/move": `{"position":"-","agent":"uct-bitsquares:time=300ms"}`,
	} {
		r, text, err := post(t.Context(), t, server.URL+path, body)
		if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(text, `"end"`) && !strings.Contains(text, `"move":"`) {
			t.Errorf("%s: %v, %.300s", path, err, text)
		}
	}
}

// deaf is a client that has gone without closing the connection.
type brokenWriter struct{ http.ResponseWriter }

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// An analysis ends if its answers cannot be written.
func TestAnalysisBrokenWriter(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	h := handler(t, Config{Limits: Limits{Time: time.Hour}})
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/ui/analyze", strings.NewReader(`{"position":"-","visits":0,"solve":true}`))
	r.Header.Set("Content-Type", "application/json")
	if h.ServeHTTP(brokenWriter{httptest.NewRecorder()}, r); ctx.Err() != nil {
		t.Error("the solver continued without a client")
	}
}

// stuck returns a page whose evaluator waits until its context ends.
func stuck(t *testing.T, p *places.Places) (h *Handler, entered chan struct{}, server *httptest.Server) {
	entered = make(chan struct{}, 100)
	h = handler(t, Config{Places: p, Limits: Limits{Time: time.Minute}, Evaluator: evaltest.Raw(&evaltest.Stub{Source: eval.CPU, Before: func(ctx context.Context, _ *eval.Batch) error {
		entered <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}})})
	server = httptest.NewServer(h)
	t.Cleanup(server.Close)
	return h, entered, server
}

// post asks a server.
func post(ctx context.Context, t *testing.T, url, body string) (reply *http.Response, text string, err error) {
	r := gametest.Must(http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body)))(t)
	r.Header.Set("Content-Type", "application/json")
	if reply, err = http.DefaultClient.Do(r); err != nil {
		return nil, "", err
	}
	defer reply.Body.Close()
	all, err := io.ReadAll(reply.Body)
	return reply, string(all), err
}

// If a client leaves, its analysis ends, and the next waiting request starts. If too many wait, others are told to come again.
func TestClientLeaves(t *testing.T) {
	h, entered, server := stuck(t, places.Limited(1, 1))
	ask := func() (leave func(), done chan error) {
		ctx, cancel := context.WithCancel(t.Context())
		done = make(chan error, 1)
		go func() {
			_, _, err := post(ctx, t, server.URL+"/ui/analyze", `{"position":"4"}`)
			done <- err
		}()
		return cancel, done
	}
	leave, done := ask()
	<-entered
	leaveSecond, doneSecond := ask() // this one waits
	for h.config.Places.Waiting() < 1 {
		time.Sleep(time.Millisecond) // nothing signals that it waits
	}
	move := func() *http.Response { // of an agent that asks no evaluator
		r, _, err := post(t.Context(), t, server.URL+"/ui/move", `{"position":"4","agent":"random"}`)
		gametest.OK(t, err)
		return r
	}
	if r := move(); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") != "1" {
		t.Errorf("a third request: status %d, Retry-After %q", r.StatusCode, r.Header.Get("Retry-After"))
	}
	leave()
	<-entered // the second request thinks
	leaveSecond()
	if err := <-done; err == nil {
		t.Error("a request that was cancelled was answered")
	}
	<-doneSecond
	for move().StatusCode != http.StatusOK { // now there is room for it
	}
	server.Close() // waits until each handler has returned, also those of clients that left
	if h.config.Places.Taken() != 0 || h.config.Places.Waiting() != 0 {
		t.Errorf("%d think and %d wait in the end", h.config.Places.Taken(), h.config.Places.Waiting())
	}
}

// A server that shuts down does not wait for analyses.
func TestClose(t *testing.T) {
	h, entered, server := stuck(t, nil)
	done := make(chan string, 1)
	go func() {
		_, text, err := post(t.Context(), t, server.URL+"/ui/analyze", `{"position":"4"}`)
		done <- fmt.Sprint(text, err)
	}()
	<-entered
	h.Close()
	if got, want := <-done, "{\"error\":\"the server is shutting down\"}\n<nil>"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if r, _, err := post(t.Context(), t, server.URL+"/ui/analyze", `{"position":"4"}`); err != nil || r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("after the end: %+v, %v", r, err)
	}
}

// An evaluator's failure is a server error, and its time is limited.
func TestEvaluatorFails(t *testing.T) {
	h := handler(t, Config{Evaluator: evaltest.Raw(&evaltest.Stub{Before: func(context.Context, *eval.Batch) error { return io.ErrUnexpectedEOF }})})
	if r := asked(t, h, "/ui/analyze", `{"position":"4"}`); r.StatusCode != http.StatusInternalServerError {
		t.Errorf("status %d", r.StatusCode)
	}
	_, _, server := stuck(t, nil)
	r, text, err := post(t.Context(), t, server.URL+"/ui/analyze", `{"position":"4","seconds":0.01}`)
	if err != nil || r.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "no answer in time") {
		t.Errorf("%v: %s", err, text)
	}
}

// An analysis with a number of visits has exactly the result of any search with that number; neither other analyses nor the
// frequency of its reports matter. (An analysis that its time ends has the same number of leaves in flight as a timed agent.)
func TestAnalysisCompany(t *testing.T) {
	h := handler(t, Config{Places: places.Limited(8, 100)})
	const visits = 300
	var wait sync.WaitGroup
	for i, moves := range []string{"-", "334", "44444", "334", "4444435", "4444435"} {
		c := mcts.DefaultConfig(mcts.PUCT)
		c.Exact, c.RootNodes = []solver.Nodes{solver.NoProbes, 1000}[i%2], mcts.RootNodesFor(visits)
		b, p, err := parseOngoing(moves)
		gametest.OK(t, err)
		tree := gametest.Must(mcts.New(b, c))(t)
		tree.Reset(p)
		gametest.OK(t, mcts.Search(t.Context(), h.config.Evaluator, []*mcts.Tree{tree}, mcts.Limits{Visits: visits, Batch: 1}))
		want := make([]moveSeen, b.Actions())
		for _, m := range tree.Moves(nil) {
			want[m.Action] = moveSeen{Visits: m.Visits, Q: m.Q, Result: proof(m.Result)}
		}
		wait.Go(func() {
			all := analyse(t, h, fmt.Sprintf(`{"position":%q,"visits":%d,"exact":%v}`, moves, visits, c.Exact))
			last := all[len(all)-2]
			if diff := cmp.Diff(want, last.Moves); diff != "" || last.Best != tree.Best() || last.Visits != tree.Visits() {
				t.Errorf("%s: %d visits, best %d, want %d, %d (-search +analysis):\n%s", moves, last.Visits, last.Best, tree.Visits(), tree.Best(), diff)
			}
		})
	}
	wait.Wait()
}
