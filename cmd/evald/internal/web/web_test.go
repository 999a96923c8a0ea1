package web

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/evald/evald/cmd/evald/internal/answer"
	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/solver"
)

func TestMain(m *testing.M) {
	code := m.Run()
	stopBrowser()
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// handler returns a page with bitsquares as its evaluator, unless the config has another.
func handler(t testing.TB, c Config) *Handler {
	t.Helper()
	if c.Evaluator == nil {
		e := gametest.Must(heuristic.New(eval.Bitsquares))(t)
		c.Evaluator, c.Model = e, "bitsquares"
	}
	h := gametest.Must(New(c))(t)
	t.Cleanup(h.Close)
	return h
}

// asked sends a request to the handler; a body makes it a POST of JSON.
func asked(t testing.TB, h http.Handler, path, body string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if body != "" {
		r = httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// answered reads a JSON answer with status 200.
func answered[T any](t testing.TB, r *http.Response) (x T) {
	t.Helper()
	text := gametest.Must(io.ReadAll(r.Body))(t)
	if err := json.Unmarshal(text, &x); err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v: %s", r.StatusCode, err, text)
	}
	return x
}

func TestFiles(t *testing.T) {
	h := handler(t, Config{})
	for path, kind := range map[string]string{
		"/": "text/html", "/ui/style.css": "text/css", "/ui/main.js": "text/javascript", "/ui/icon.svg": "image/svg+xml",
	} {
		r := asked(t, h, path, "")
		if got := r.Header.Get("Content-Type"); r.StatusCode != http.StatusOK || got != kind+"; charset=utf-8" {
			t.Errorf("%s: status %d, type %q", path, r.StatusCode, got)
		}
		if csp := r.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; ") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") {
			t.Errorf("%s: policy %q", path, csp)
		}
		again := httptest.NewRequest(http.MethodGet, path, nil)
		again.Header.Set("If-None-Match", r.Header.Get("ETag"))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, again)
		if w.Code != http.StatusNotModified || w.Body.Len() > 0 {
			t.Errorf("%s again: status %d", path, w.Code)
		}
	}
	page, err := io.ReadAll(asked(t, h, "/", "").Body)
	if err != nil || strings.Contains(string(page), "http:") || strings.Contains(string(page), "https:") || strings.Contains(string(page), " style=") || strings.Contains(string(page), " on") && strings.Contains(string(page), "onclick=") {
		t.Errorf("the page has what its policy forbids: %v", err)
	}
}

// Wrong requests are refused as JSON with a status and the wrong field.
func TestRefusals(t *testing.T) {
	h := handler(t, Config{Networks: []string{"mine"}, Limits: Limits{Visits: 1000, Time: time.Second}})
	long := strings.Repeat("1", maxBody)
	for _, c := range []struct {
		path, body  string
		status      int
		field, says string
	}{
		{"/nowhere", "", 404, "", "there is no /nowhere"},
		{"/ui/game", "", 405, "", "want POST"},
		{"/ui/config", "{}", 405, "", "want GET"},
		{"/ui/status", "", 404, "", "no status"},
		{"/ui/run?name=x", "", 404, "", "no training runs"},
		{"/ui/game", "nonsense", 400, "", "no JSON object"},
		{"/ui/game", `{"position":"4"}{}`, 400, "", "after top-level value"},
		{"/ui/game", `{"position":4}`, 400, "position", `position "number": must be a text`},
		{"/ui/game", `{"position":"4","who":1}`, 400, "", `unknown field "who"`},
		{"/ui/game", `{"position":"` + long + `"}`, 413, "", "longer than 16384 bytes"},
		{"/ui/game", `{}`, 400, "position", "is empty"},
		{"/ui/game", `{"position":"4","do":"","position":"5"}`, 400, "", `key "position" is there twice`},
		{"/ui/move", "{\"position\":\"4\xff\"}", 400, "", "byte 14 is no UTF-8"},
		{"/ui/game", `{"position":"448"}`, 400, "position", `move 3 is "8"`},
		{"/ui/game", `{"position":"99x99x4:1"}`, 400, "position", "at most 128"},
		{"/ui/game", `{"position":"7x6:1"}`, 400, "position", "want columns x rows"},
		{"/ui/game", `{"position":"44","made":3}`, 400, "made", "0 to 2"},
		{"/ui/game", `{"position":"44","made":-1}`, 400, "made", "0 to 2"},
		{"/ui/game", `{"position":"44","do":"dance"}`, 400, "do", `do is "dance"`},
		{"/ui/game", `{"position":"44","do":"play","move":"8"}`, 400, "move", `"8" is no move of 7x6x4`},
		{"/ui/game", `{"position":"444444","do":"play","move":"4"}`, 400, "move", "legal moves are 1 2 3 5 6 7"},
		{"/ui/move", `{"position":"1212121","agent":"random"}`, 400, "position", "the game is over"},
		{"/ui/move", `{"position":"4","agent":"robot"}`, 400, "agent", "there are alphabeta-bitsquares"},
		{"/ui/move", `{"position":"4","agent":"uct:sims=1001"}`, 400, "agent", "1000 visits"},
		{"/ui/move", `{"position":"4","agent":"flat:sims=1001"}`, 400, "agent", "1000 visits"},
		{"/ui/move", `{"position":"4","agent":"uct:time=2s"}`, 400, "agent", "may think for 1s"},
		{"/ui/move", `{"position":"4","agent":"mcts:model=/etc/passwd"}`, 400, "agent", `must be a heuristic or one of ["mine"]`},
		{"/ui/move", `{"position":"4","agent":"mcts:model=mine"}`, 400, "agent", "no networks here"},
		{"/ui/move", `{"position":"4","agent":"uct:book=/etc/passwd"}`, 400, "agent", "books are not read"},
		{"/ui/move", `{"position":"4","agent":"` + strings.Repeat("x", 201) + `"}`, 400, "agent", "longer than 200 bytes"},
		{"/ui/analyze", `{"position":"1212121"}`, 400, "position", "the game is over"},
		{"/ui/values", `{"position":"448"}`, 400, "position", `move 3 is "8"`},
		{"/ui/values", `{"position":"44","solve":[3]}`, 400, "solve", "solve has 3, must be 0 to 2"},
		{"/ui/analyze", `{"position":"4","known":[1,2]}`, 400, "known", "known has 2 scores, want one for each of 7 moves"},
		{"/ui/analyze", `{"position":"4","known":[1,2,3,4,5,6,43]}`, 400, "known", "known has a score of 43, must be -42 to 42"},
		{"/ui/analyze", `{"position":"4","visits":-1}`, 400, "visits", "0 to 1000"},
		{"/ui/analyze", `{"position":"4","visits":1001}`, 400, "visits", "0 to 1000"},
		{"/ui/analyze", `{"position":"4","seconds":-1}`, 400, "seconds", "0 to 1"},
		{"/ui/analyze", `{"position":"4","seconds":2}`, 400, "seconds", "0 to 1"},
	} {
		r := asked(t, h, c.path, c.body)
		var e struct{ Error, Field string }
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil || r.StatusCode != c.status || e.Field != c.field || !strings.Contains(e.Error, c.says) {
			t.Errorf("%s %.100s: status %d, %+v, %v; want %d, field %q, %q", c.path, c.body, r.StatusCode, e, err, c.status, c.field, c.says)
		}
	}
	w := httptest.NewRecorder() // without a Content-Type
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/ui/game", strings.NewReader(`{"position":"4"}`)))
	if w.Code != http.StatusUnsupportedMediaType || !json.Valid(w.Body.Bytes()) {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

func TestGame(t *testing.T) {
	h := handler(t, Config{})
	for _, c := range []struct{ body, want string }{
		{`{"position":"44","human":[true,false],"do":"play","move":"5"}`, "7x6x4:445 of 7x6x4:445"},
		{`{"position":"4455","made":2,"human":[true,true],"do":"play","move":"1"}`, "7x6x4:441 of 7x6x4:441"},
		{`{"position":"4455","human":[true,true],"do":"undo"}`, "7x6x4:445 of 7x6x4:4455, redo"},
		{`{"position":"4455","human":[true,false],"do":"undo"}`, "7x6x4:44 of 7x6x4:4455, redo"},
		{`{"position":"4455","made":2,"human":[true,false],"do":"redo"}`, "7x6x4:4455 of 7x6x4:4455"},
		{`{"position":"4","human":[false,true],"do":"undo"}`, "7x6x4:4 of 7x6x4:4, stuck"},
		{`{"position":"9x5x4:44","human":[true,true],"do":"new"}`, "9x5x4:- of 9x5x4:-, stuck"},
		{`{"position":"3x3x3free:51","made":0}`, "3x3x3free:- of 3x3x3free:51, stuck, redo"},
	} {
		s := answered[gameState](t, asked(t, h, "/ui/game", c.body))
		got := s.Position + " of " + s.Line
		if !s.Undo {
			got += ", stuck"
		}
		if s.Redo {
			got += ", redo"
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.body, got, c.want)
		}
	}
	s := answered[gameState](t, asked(t, h, "/ui/game", `{"position":"1212121"}`))
	if s.Result != "won" || s.Side != 1 || s.Last != 14 || s.Played != "1" || !cmp.Equal(s.Winning, []int{14, 21, 28, 35}) || slices.Contains(s.Legal, true) {
		t.Errorf("a won game is %+v", s)
	}
	if s = answered[gameState](t, asked(t, h, "/ui/game", `{"position":"2x1x2:12"}`)); s.Result != "draw" || len(s.Winning) > 0 {
		t.Errorf("a drawn game is %+v", s)
	}
}

// Opening a broken link keeps its legal part and says what was dropped. Other commands refuse such a position.
func TestGameOpen(t *testing.T) {
	h := handler(t, Config{})
	for position, want := range map[string][2]string{
		"445":           {"7x6x4:445", ""},
		"448":           {"7x6x4:44", `moves "448": move 3 is "8", not one of 1 to 7; the 2 moves before it are kept`},
		"9x5x4:1é":      {"9x5x4:1", "the move before it is kept"},
		"3x3x3free:0":   {"3x3x3free:-", "no move is kept"},
		"7x6x4:":        {"7x6x4:-", "is empty"},
		"7x6x4:-;red=x": {"7x6x4:-", "no move is kept"},
		"7x6x4:-&red=x": {"7x6x4:-", ""}, // the page's own link
	} {
		s := answered[gameState](t, asked(t, h, "/ui/game", fmt.Sprintf(`{"position":%q,"do":"open"}`, position)))
		if s.Position != want[0] || (s.Dropped == "") != (want[1] == "") || !strings.Contains(s.Dropped, want[1]) {
			t.Errorf("%s opens %s, %q; want %s, %q", position, s.Position, s.Dropped, want[0], want[1])
		}
		if want[1] != "" && asked(t, h, "/ui/game", fmt.Sprintf(`{"position":%q,"do":"undo"}`, position)).StatusCode != http.StatusBadRequest {
			t.Errorf("a move is taken back in %s", position)
		}
	}
}

// Levels are names for agents, which may use networks that are not served. Where there are no networks there are no levels.
func TestLevels(t *testing.T) {
	type config struct{ Levels []play.Level }
	shared := agent.Shared{Models: func(string) (*eval.Evaluator, error) { return heuristic.New(eval.OddEven) }}
	c := answered[config](t, asked(t, handler(t, Config{Agents: shared}), "/ui/config", ""))
	for i := range c.Levels {
		c.Levels[i].Agent.Chosen = true // which a spec's text does not say
	}
	if diff := cmp.Diff(play.Levels, c.Levels, cmpopts.EquateComparable(heuristic.Name{})); diff != "" {
		t.Errorf("levels (-want +got):\n%s", diff)
	}
	h := handler(t, Config{Agents: shared})
	for _, level := range []string{"beginner", "proven"} {
		if got := move(t, h, "121212", level); got != "1" {
			t.Errorf("%s plays %q, want 1, which wins", level, got)
		}
	}
	if got := asked(t, h, "/ui/move", `{"position":"4","agent":"policy:model=default-fast"}`); got.StatusCode != http.StatusBadRequest {
		t.Errorf("a network that is not served, for an agent that is no level: status %d", got.StatusCode)
	}
	if c = answered[config](t, asked(t, handler(t, Config{}), "/ui/config", "")); len(c.Levels) > 0 {
		t.Errorf("these levels have no network, and are offered: %v", c.Levels)
	}
}

// The positions of a game are valued for the side that moved first; a finished game has the value of its result.
func TestValues(t *testing.T) {
	type values struct{ Values []valued }
	h := handler(t, Config{})
	b := game.MustBoard(game.Connect4)
	for moves, result := range map[string]float32{"1212121": 1, "44": 0, "71212121": -1} {
		got := answered[values](t, asked(t, h, "/ui/values", fmt.Sprintf(`{"position":%q}`, moves))).Values
		_, actions, err := b.ParseMoves(moves)
		if err != nil || len(got) != len(actions)+1 {
			t.Fatalf("%s: %v, %d values", moves, err, len(got))
		}
		var p game.Position
		for i, x := range got {
			batch := evaluated(t, h, b, p)
			want := batch.Value(0) * []float32{1, -1}[i%2]
			if exact := batch.Source[0] == eval.Rules || batch.Source[0] == eval.Terminal; x.Value != want || x.Exact != exact {
				t.Errorf("%s: after %d moves %+v, want %v, %v", moves, i, x, want, exact)
			}
			if i < len(actions) {
				p = b.Play(p, actions[i])
			}
		}
		if last := got[len(got)-1]; result != 0 && (last.Value != result || !last.Exact) {
			t.Errorf("%s ends with %+v, want %v", moves, last, result)
		}
	}
}

// Of the positions that are asked for, the results are the solver's, also where a quick look says the opposite.
func TestValuesExact(t *testing.T) {
	type values struct{ Values []valued }
	h := handler(t, Config{Agents: agent.Shared{Ships: solver.ShippedBook}})
	for _, c := range []struct {
		position string
		solve    string
	}{{"7x6x4:1234567712", "0,1,2,3,4,5,6,7,8,9,10"}, {"7x6x4:44444422662666112255", "20,19,18,17"}, {"4x4x3:12", "0,2"}} {
		if gametest.Race && c.position != "4x4x3:12" {
			continue // a solver of one goroutine takes most of the time
		}
		b, moves, err := parsePosition(c.position)
		gametest.OK(t, err)
		got := answered[values](t, asked(t, h, "/ui/values", fmt.Sprintf(`{"position":%q,"solve":[%s]}`, c.position, c.solve))).Values
		s := gametest.Must(solver.New(b, solver.Options{Book: solver.ShippedBook(b.Rules())}))(t)
		var p game.Position
		for i := range got {
			if slices.Contains(strings.Split(c.solve, ","), fmt.Sprint(i)) {
				want := gametest.Must(s.Score(t.Context(), p))(t).Score * []int{1, -1}[i%2]
				if x := got[i]; !x.Exact || int(x.Value) != min(max(want, -1), 1) {
					t.Errorf("%s: after %d moves %+v, want the sign of %d", c.position, i, x, want)
				}
			}
			if i < len(moves) {
				p = b.Play(p, moves[i])
			}
		}
	}
	// The solver's time is bounded, and what it does not find stays an estimate.
	if got := answered[values](t, asked(t, h, "/ui/values", `{"position":"9x7x5:12345","solve":[0,1,2,3,4,5]}`)).Values; len(got) != 6 || got[0].Exact {
		t.Errorf("a large board: %+v", got)
	}
}

// On every board, the state shows the position.
func TestGameShows(t *testing.T) {
	h, random := handler(t, Config{}), gametest.Rand(3)
	for _, b := range gametest.Boards() {
		var p game.Position
		var moves []int
		for range random.IntN(b.Cells() + 1) {
			if b.Result(p) != game.Ongoing {
				break
			}
			a := b.Action(b.Legal(p).Nth(random.IntN(b.Legal(p).OnesCount())).First())
			p, moves = b.Play(p, a), append(moves, a)
		}
		text := b.Rules().String() + ":" + game.FormatMoves(b.Rules(), moves)
		s := answered[gameState](t, asked(t, h, "/ui/game", fmt.Sprintf(`{"position":%q}`, text)))
		var legal []bool
		for a := range b.Actions() {
			legal = append(legal, b.Result(p) == game.Ongoing && b.CanPlay(p, a))
		}
		for i, cell := range s.Cells {
			if want := (game.State{Board: b, Position: p, Mark: p.Mover()}).Kaggle()[i]; cell != want {
				t.Errorf("%s: cell %d is %d, want %d", text, i, cell, want)
			}
		}
		if s.Position != text || !cmp.Equal(s.Legal, legal) || len(s.Names) != b.Actions() {
			t.Errorf("%s: %+v, want legal %v", text, s, legal)
		}
	}
}

// move is an agent's move.
func move(t *testing.T, h *Handler, position, agent string) string {
	t.Helper()
	return answered[struct{ Move string }](t, asked(t, h, "/ui/move", fmt.Sprintf(`{"position":%q,"agent":%q}`, position, agent))).Move
}

// Every agent moves, on any board.
func TestMove(t *testing.T) {
	h := handler(t, Config{Limits: Limits{Time: 50 * time.Millisecond}})
	for _, name := range agent.Names() {
		if strings.HasPrefix(name, "uct-") || strings.HasPrefix(name, "alphabeta") {
			name += ":time=20ms" // their default time is more than the limit
		}
		for _, position := range []string{"4444", "4x4x3:1", "3x3x3free:5"} {
			got := move(t, h, position, name)
			if s := answered[gameState](t, asked(t, h, "/ui/game", fmt.Sprintf(`{"position":%q,"do":"play","move":%q}`, position, got))); s.Played != got {
				t.Errorf("%s at %s plays %q", name, position, got)
			}
		}
	}
}

// The same seed gives the same move in a position; no seed gives different ones.
func TestMoveSeeds(t *testing.T) {
	h := handler(t, Config{})
	seeded, unseeded := map[string]bool{}, map[string]bool{}
	for range 40 {
		seeded[move(t, h, "44", "random:seed=5")], unseeded[move(t, h, "44", "random")] = true, true
	}
	if len(seeded) != 1 || len(unseeded) < 4 {
		t.Errorf("moves %v with a seed, %v without", seeded, unseeded)
	}
	// A seed does not give the same column for the whole game.
	columns := map[string]bool{}
	for _, position := range []string{"-", "1", "12", "123", "1234", "12345"} {
		columns[move(t, h, position, "random:seed=5")] = true
	}
	if len(columns) < 3 {
		t.Errorf("a seed gives the columns %v", columns)
	}
}

func TestConfig(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("a page without an evaluator")
	}
	e := &evaltest.Stub{}
	if _, err := New(Config{Evaluator: evaltest.Raw(e), Runs: "no/such/folder"}); err == nil || !strings.Contains(err.Error(), "no/such/folder") {
		t.Errorf("runs in no folder: %v", err)
	}
	for _, l := range []Limits{{Visits: -1}, {Time: -1}} {
		if _, err := New(Config{Evaluator: evaltest.Raw(e), Limits: l}); err == nil {
			t.Errorf("limits %+v", l)
		}
	}
	c := answered[map[string]any](t, asked(t, handler(t, Config{Networks: []string{"a"}}), "/ui/config", ""))
	if c["model"] != "bitsquares" || c["service"] != false || c["training"] != false || c["seconds"] != 10. || !strings.Contains(fmt.Sprint(c["agents"]), "name:negamax") {
		t.Errorf("config %v", c)
	}
}

// Every request is answered or refused with a client error.
func FuzzRequest(f *testing.F) {
	f.Add(uint8(0), `{"position":"7x6x4:4455","made":2,"human":[true,false],"do":"play","move":"4"}`)
	f.Add(uint8(0), `{"position":"3x3x3free:51","do":"undo"}`)
	f.Add(uint8(1), `{"position":"9x5x4:-","agent":"random:seed=3"}`)
	f.Add(uint8(1), `{"position":"4","agent":"uct-bitsquares:sims=10,power=1.5"}`)
	f.Add(uint8(2), `{"position":"44","visits":3,"seconds":0.001,"solve":false}`)
	f.Add(uint8(0), `{"position":"448","do":"open"}`)
	f.Add(uint8(2), `{"position":"44","visits":0,"seconds":0.001,"solve":true,"known":[1,null,null,null,null,null,null]}`)
	f.Add(uint8(3), `{"position":"9x5x4:44"}`)
	f.Add(uint8(3), `{"position":"4x4x3:44","solve":[2,0,2]}`)
	f.Add(uint8(4), `{"game":"http://x/#review=9x5x4:44"}`)
	f.Add(uint8(4), `{"game":"{\"name\":\"connectx\",\"steps\":[[{},{}],[{\"action\":3},{}]]}"}`)
	f.Add(uint8(5), `{"position":"3x3x3free:51","move":1}`)
	f.Add(uint8(2), "{\"position\":\"\\u0000\xff\"}")
	h := handler(f, Config{Limits: Limits{Visits: 20, Time: 10 * time.Millisecond}})
	f.Fuzz(func(t *testing.T, which uint8, body string) {
		if body == "" {
			return
		}
		path := []string{"/ui/game", "/ui/move", "/ui/analyze", "/ui/values", "/ui/review", "/ui/why"}[which%6]
		r := asked(t, h, path, body)
		text := gametest.Must(io.ReadAll(r.Body))(t)
		for l := range strings.Lines(string(text)) {
			if !json.Valid([]byte(l)) {
				t.Fatalf("%s is answered with %q", path, l)
			}
		}
		// 503: the time was not enough.
		if r.StatusCode != http.StatusOK && r.StatusCode != http.StatusServiceUnavailable && (r.StatusCode < 400 || r.StatusCode >= 500) {
			t.Fatalf("%s: status %d: %s", path, r.StatusCode, text)
		}
	})
}

func TestFinite(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if answer.Finite(x) != 0 {
			t.Errorf("%v stays", x)
		}
	}
}

// All that the page loads, but for puzzles, pictures, the charts of runs and what a folder without a server needs, is at most 250 KB, and a third of that by gzip, which gives the same.
func TestWeight(t *testing.T) {
	plain, packed := 0, 0
	h := handler(t, Config{})
	for name, f := range h.files {
		r := httptest.NewRequest(http.MethodGet, name, nil)
		r.Header.Set("Accept-Encoding", "br, gzip")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		size := w.Body.Len()
		z := gametest.Must(gzip.NewReader(w.Body))(t)
		if got := gametest.Must(io.ReadAll(z))(t); string(got) != string(f.content) || w.Header().Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: by gzip it is another file", name)
		}
		if path.Ext(name) != ".svg" && !strings.Contains(name, "puzzle") && !strings.Contains(name, "uplot") && name != "/ui/sw.js" && name != "/ui/worker.js" {
			plain, packed = plain+len(f.content), packed+size
		}
	}
	if plain > 250_000 || packed > 84_000 {
		t.Errorf("the page has %d bytes, %d by gzip", plain, packed)
	}
	t.Logf("%d bytes, %d by gzip", plain, packed)
}
