package kaggle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

func newPlayers(t testing.TB, spec string, most int, shared agent.Shared) *Players {
	t.Helper()
	s := gametest.Must(agent.Parse(spec))(t)
	return gametest.Must(NewPlayers(s, shared, most))(t)
}

// policyHandler plays the policy of bitsquares.
func policyHandler(t *testing.T) Handler {
	return Handler{Players: newPlayers(t, "policy", 1, agent.Shared{}), Log: log.New(io.Discard, "", 0)}
}

// Requests and their replies, by the policy of bitsquares.
func TestServeTranscript(t *testing.T) {
	if gametest.Race {
		t.Skip("a game that gives no time leaves 10 ms, too little for a program of the race detector on a busy machine")
	}
	var notes bytes.Buffer
	h := policyHandler(t)
	h.Log = log.New(&notes, "", 0)
	server := httptest.NewServer(h)
	defer server.Close()
	datadriven.RunTest(t, "testdata/serve.txt", func(t *testing.T, d *datadriven.TestData) string {
		notes.Reset()
		r := gametest.Must(http.NewRequestWithContext(t.Context(), d.Cmd, server.URL+d.CmdArgs[0].Key, strings.NewReader(d.Input)))(t)
		reply := gametest.Must(server.Client().Do(r))(t)
		defer reply.Body.Close()
		text := gametest.Must(io.ReadAll(reply.Body))(t)
		_, note, odd := strings.Cut(notes.String(), ": playing on: ")
		if odd {
			note = "playing on: " + note
		}
		if n := strings.Count(notes.String(), "\n"); n > 1 || (n == 1) != (odd || reply.StatusCode != http.StatusOK) {
			d.Fatalf(t, "the log is %q, want a line for a refused request", notes.String())
		}
		if got := reply.Header.Get("Content-Type"); got != "application/json" {
			d.Fatalf(t, "content type %q", got)
		}
		return fmt.Sprintf("%d %s%s", reply.StatusCode, text, note)
	})
}

// In a visitor's browser, another site's page gets no move.
func TestServeOtherSites(t *testing.T) {
	h := policyHandler(t)
	for header, want := range map[string]int{"": 400, "Sec-Fetch-Site": 403, "Origin": 403} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:8080/", strings.NewReader("{}"))
		if header != "" {
			r.Header.Set(header, "cross-site")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(deadlines{w}, r)
		if w.Code != want || !strings.Contains(w.Body.String(), "error") {
			t.Errorf("%q: %d %s, want %d", header, w.Code, w.Body, want)
		}
	}
}

// deadlines is a response recorder that accepts read deadlines and ignores them.
type deadlines struct{ *httptest.ResponseRecorder }

func (deadlines) SetReadDeadline(time.Time) error { return nil }

// Lines and their answers, asked all at once and one by one.
func TestActTranscript(t *testing.T) {
	var asked []string
	var want strings.Builder
	datadriven.RunTest(t, "testdata/act.txt", func(t *testing.T, d *datadriven.TestData) string {
		asked = append(asked, d.Input)
		in := strings.Repeat("\n", len(asked)-1) + d.Input + "\n" // so that the line has the same number in errors
		var out, notes bytes.Buffer
		gametest.Must(Act(t.Context(), strings.NewReader(in), &out, newPlayers(t, "policy", 1, agent.Shared{}), log.New(&notes, "", 0)))(t)
		want.Write(out.Bytes())
		return out.String() + notes.String()
	})
	var out bytes.Buffer
	bad, err := Act(t.Context(), strings.NewReader(strings.Join(asked, "\n")), &out, newPlayers(t, "policy", 1, agent.Shared{}), log.New(io.Discard, "", 0))
	if diff := cmp.Diff(want.String(), out.String()); diff != "" || err != nil || bad != strings.Count(want.String(), `"error"`) {
		t.Errorf("all at once: %d bad lines, %v (-want +got):\n%s", bad, err, diff)
	}
}

// An interrupt ends Act even if its input is silent.
func TestActInterrupted(t *testing.T) {
	in, quiet := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	answered := writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	go fmt.Fprintln(quiet, `{"observation":{"board":[0],"mark":1},"configuration":{"rows":1,"columns":1}}`)
	if _, err := Act(ctx, in, answered, newPlayers(t, "policy", 1, agent.Shared{}), log.New(io.Discard, "", 0)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	quiet.Close()
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Parsing gives a legal turn or an error, and both formats give the same.
func FuzzTurn(f *testing.F) {
	text := gametest.Must(os.ReadFile("testdata/serve.txt"))(f)
	for line := range strings.Lines(string(text)) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		turn, err := parseAct(text)
		if err != nil {
			if _, ok := errors.AsType[*game.ParseError](err); !ok {
				t.Fatalf("error %T: %v", err, err)
			}
			return
		}
		if turn.large != nil {
			if c := turn.large.move(); turn.large.top(c) < 0 {
				t.Fatalf("column %d is full in %+v", c, turn.large)
			}
			return
		}
		if turn.Board.Result(turn.Position) != game.Ongoing || turn.Board.Legal(turn.Position).IsZero() {
			t.Fatalf("there is no move in %+v", turn)
		}
		if turn.Act < 0 || turn.Act > longest || turn.Overage < 0 || turn.Overage > longest {
			t.Fatalf("times %v and %v", turn.Act, turn.Overage)
		}
		r := turn.Board.Rules()
		line, err := json.Marshal(map[string]any{
			"observation":   map[string]any{"board": turn.Kaggle(), "mark": turn.Mark, "remainingOverageTime": turn.Overage.Seconds()},
			"configuration": map[string]any{"rows": r.Rows, "columns": r.Columns, "inarow": r.InARow, "actTimeout": turn.Act.Seconds()},
		})
		gametest.OK(t, err)
		again, err := parseLine(line)
		if err != nil || again.Position != turn.Position || again.Mark != turn.Mark || again.Board.Rules() != r ||
			(again.Act-turn.Act).Abs() > time.Microsecond || (again.Overage-turn.Overage).Abs() > time.Microsecond {
			t.Fatalf("%s\nread again by %s: %+v, %v", text, line, again, err)
		}
	})
}

// body returns a request for a state.
func body(s game.State, act float64) string {
	r := s.Board.Rules()
	cells, _ := json.Marshal(s.Kaggle())
	return fmt.Sprintf(`{"action":"act","environment":"connectx","configuration":{"rows":%d,"columns":%d,"inarow":%d,"actTimeout":%g},"state":{"observation":{"board":%s,"mark":%d,"remainingOverageTime":60}}}`,
		r.Rows, r.Columns, r.InARow, act, cells, s.Mark)
}

func post(t testing.TB, client *http.Client, url, text string) (status int, reply struct {
	Action int
	Error  string
},
) {
	t.Helper()
	r, err := client.Post(url, "application/json", strings.NewReader(text))
	if err != nil {
		t.Error(err)
		return 0, reply
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(&reply); err != nil {
		t.Error(err)
	}
	return r.StatusCode, reply
}

// serve runs a server; stop interrupts it, waits for its end and returns its error.
func serve(t *testing.T, p *Players) (url string, stop func() error) {
	t.Helper()
	l := gametest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, Handler{Players: p, Log: log.New(io.Discard, "", 0)}) }()
	return "http://" + l.Addr().String() + "/", func() error { cancel(); return <-ended }
}

// Many games at once, of several kinds, each against a random player: all moves are legal, the games end, and the number of
// agents stays within its limit.
func TestManyGames(t *testing.T) {
	defer goleak.VerifyNone(t)
	const most = 3
	players := newPlayers(t, "uct-bitsquares:sims=60", most, agent.Shared{})
	url, stop := serve(t, players)
	client := &http.Client{Transport: &http.Transport{}}
	var games sync.WaitGroup
	for i, rules := range []game.Rules{
		game.Connect4, game.Connect4, game.Connect4, game.Connect4,
		{Rows: 4, Columns: 5, InARow: 3, Gravity: true},
		{Rows: 9, Columns: 12, InARow: 4, Gravity: true},
		{Rows: 1, Columns: 7, InARow: 2, Gravity: true},
		{Rows: 7, Columns: 2, InARow: 9, Gravity: true},
	} {
		games.Go(func() {
			b, r := game.MustBoard(rules), gametest.Rand(uint64(i))
			s := game.State{Board: b, Mark: 1}
			for ours := i%2 == 0; b.Result(s.Position) == game.Ongoing; ours = !ours {
				legal := b.Legal(s.Position)
				action := b.Action(legal.Nth(r.IntN(legal.OnesCount())).First())
				if ours {
					status, reply := post(t, client, url, body(s, 2))
					if action = reply.Action; status != http.StatusOK || !b.CanPlay(s.Position, action) {
						t.Errorf("%v: status %d, %+v", rules, status, reply)
						return
					}
				}
				s = game.State{Board: b, Position: b.Play(s.Position, action), Mark: 3 - s.Mark}
			}
		})
	}
	games.Wait()
	client.CloseIdleConnections()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if players.busy != 0 || len(players.idle) < 1 || len(players.idle) > most || len(players.slots) != 0 {
		t.Errorf("%d busy and %d idle agents, %d slots taken; want 0, 1 to %d, 0", players.busy, len(players.idle), len(players.slots), most)
	}
}

// A body that is too long is refused before it is read completely.
func TestLongBody(t *testing.T) {
	server := httptest.NewServer(policyHandler(t))
	defer server.Close()
	s := game.State{Board: game.MustBoard(game.Connect4), Mark: 1}
	padded := strings.Repeat(" ", maxBody-len(body(s, 2))) + body(s, 2)
	if status, reply := post(t, server.Client(), server.URL, padded); status != http.StatusOK {
		t.Errorf("a body of %d bytes: status %d, %+v", len(padded), status, reply)
	}
	if status, reply := post(t, server.Client(), server.URL, " "+padded); status != http.StatusRequestEntityTooLarge || !strings.Contains(reply.Error, "longer than 65536 bytes") {
		t.Errorf("one byte more: status %d, %+v", status, reply)
	}
}

// A body that never ends is refused in time, and its connection is closed.
func TestLateBody(t *testing.T) {
	h := policyHandler(t)
	h.patience = 20 * time.Millisecond
	server := httptest.NewServer(h)
	defer server.Close()
	c := gametest.Must(net.Dial("tcp", server.Listener.Addr().String()))(t)
	defer c.Close()
	gametest.Must(io.WriteString(c, "POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\n{"))(t)
	reply, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(reply), "HTTP/1.1 408 ") || !strings.HasSuffix(string(reply), `{"error":"body: did not arrive in time"}`+"\n") {
		t.Errorf("%q, %v; want status 408 and its reason", reply, err)
	}
}

// Clients whose bodies do not end have a bounded number of connections, and when they go, the others are answered.
func TestManyConnections(t *testing.T) {
	l := &openListener{Listener: gametest.Must(net.Listen("tcp", "127.0.0.1:0"))(t), first: make(chan struct{})}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, policyHandler(t)) }()
	unfinished := make([]net.Conn, maxConnections+100)
	for i := range unfinished {
		unfinished[i] = gametest.Must(net.Dial("tcp", l.Addr().String()))(t)
		gametest.Must(io.WriteString(unfinished[i], "POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\n{"))(t)
	}
	<-l.first
	for _, c := range unfinished {
		c.Close()
	}
	s := game.State{Board: game.MustBoard(game.Connect4), Mark: 1}
	if status, reply := post(t, http.DefaultClient, "http://"+l.Addr().String(), body(s, 2)); status != http.StatusOK {
		t.Errorf("afterwards: status %d, %+v", status, reply)
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	gametest.OK(t, <-ended)
	if n := l.most.Load(); n != maxConnections {
		t.Errorf("%d connections were open at once, want %d", n, maxConnections)
	}
}

// openListener counts the connections that are open. first is closed when maxConnections are.
type openListener struct {
	net.Listener
	open, most atomic.Int64
	first      chan struct{}
}

func (l *openListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if n := l.open.Add(1); n > l.most.Load() {
		if l.most.Store(n); n == maxConnections {
			close(l.first)
		}
	}
	return &openConn{c, sync.OnceFunc(func() { l.open.Add(-1) })}, nil
}

type openConn struct {
	net.Conn
	closed func()
}

func (c *openConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// byStub returns players of one agent, whose evaluator calls before, and then prefers the first column.
func byStub(t *testing.T, before func(context.Context, *eval.Batch) error) *Players {
	return newPlayers(t, "policy:model=stub", 1, agent.Shared{Models: func(string) (*eval.Evaluator, error) {
		return evaltest.Raw(&evaltest.Stub{Before: before, After: func(b *eval.Batch) { b.Policy[0] = 1 }}), nil
	}})
}

// gate lets an evaluator wait until it is allowed to continue.
type gate struct{ entered, open chan struct{} }

func newGate() gate { return gate{make(chan struct{}), make(chan struct{})} }

func (g gate) wait(ctx context.Context, _ *eval.Batch) error {
	g.entered <- struct{}{}
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A request that is under way when the server is interrupted is answered; after that the server is gone.
func TestShutdown(t *testing.T) {
	defer goleak.VerifyNone(t)
	g := newGate()
	url, stop := serve(t, byStub(t, g.wait))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	s := game.State{Board: game.MustBoard(game.Connect4), Mark: 1}
	answered := make(chan int, 1)
	go func() {
		status, _ := post(t, client, url, body(s, 600))
		answered <- status
	}()
	<-g.entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	select {
	case err := <-stopped:
		t.Fatalf("the server has ended with a request under way: %v", err)
	case g.open <- struct{}{}:
	}
	if status, err := <-answered, <-stopped; status != http.StatusOK || err != nil {
		t.Errorf("status %d, want 200; the server ended with %v", status, err)
	}
	if _, err := client.Get(url); err == nil {
		t.Error("the server still answers")
	}
}
