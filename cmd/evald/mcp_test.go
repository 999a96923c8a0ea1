package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/evald/evald/cmd/evald/internal/answer"
	"github.com/evald/evald/cmd/evald/internal/places"
	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/puzzle"
	"github.com/evald/evald/engine/solver"
)

// connect returns a session of the SDK's client.
func connect(t testing.TB, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session := gametest.Must(client.Connect(context.WithoutCancel(t.Context()), transport, nil))(t)
	t.Cleanup(func() { session.Close() })
	return session
}

// inMemory returns a session with tools in this process, which evaluate with bitsquares.
func inMemory(t testing.TB, limit time.Duration) *mcp.ClientSession {
	t.Helper()
	name, _, err := heuristic.Parse("bitsquares")
	gametest.OK(t, err)
	own := shareAgents(processors{}, io.Discard)
	a := gametest.Must(answer.New(answer.Config{
		Evaluator: eval.New(name.New(), eval.Options{}), Model: "bitsquares", Places: places.ForPage(0),
		Agents: agent.Shared{Models: own.Models, Chosen: own.Chosen, Solved: &agent.Solved{}, Ships: solver.ShippedBook},
		Limits: answer.Limits{Time: limit},
	}))(t)
	here, there := mcp.NewInMemoryTransports()
	gametest.Must(gametest.Must(newTools(a))(t).Connect(t.Context(), there, nil))(t)
	return connect(t, here)
}

// callTool returns the text of a tool's result, and its object as JSON.
func callTool(t testing.TB, s *mcp.ClientSession, name string, in any) (text, object string, refused bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: in})
	if err != nil {
		t.Fatalf("%s %v: %v", name, in, err)
	}
	for _, c := range r.Content {
		text += c.(*mcp.TextContent).Text
	}
	if r.StructuredContent != nil {
		object = string(gametest.Must(json.Marshal(r.StructuredContent))(t))
	}
	return text, object, r.IsError
}

// child returns a session with the program as a process of its own.
func child(t *testing.T, args ...string) *mcp.ClientSession {
	t.Helper()
	p := exec.Command(os.Args[0], append([]string{"mcp"}, args...)...)
	p.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	return connect(t, &mcp.CommandTransport{Command: p})
}

var digits = regexp.MustCompile(`(\d\.\d{2})\d+`)

// A client in another process asks each tool. Standard output has nothing but the protocol.
func TestMCPTranscript(t *testing.T) {
	ownStore(t)
	s := child(t, "--backend", "bitsquares")
	datadriven.RunTest(t, "testdata/mcp.txt", func(t *testing.T, d *datadriven.TestData) string {
		text, _, refused := callTool(t, s, d.Cmd, json.RawMessage(d.Input))
		if refused {
			text = "error: " + text
		}
		return digits.ReplaceAllString(text, "$1") + "\n"
	})
}

// What the descriptions promise is so: the levels, the themes, the numbers of puzzles.
func TestMCPDescriptions(t *testing.T) {
	s := inMemory(t, 3*time.Second)
	tools := map[string]*mcp.Tool{}
	for tool, err := range s.Tools(t.Context(), nil) {
		gametest.OK(t, err)
		if tools[tool.Name] = tool; tool.Description == "" || tool.OutputSchema == nil || !tool.Annotations.ReadOnlyHint {
			t.Errorf("tool %s is %+v", tool.Name, tool)
		}
	}
	if len(tools) != 8 {
		t.Errorf("there are %d tools", len(tools))
	}
	argument := func(tool, name string) (found struct {
		Description      string
		Enum             []puzzle.Theme
		Minimum, Maximum int
	},
	) {
		schema := tools[tool].InputSchema.(map[string]any)["properties"].(map[string]any)[name]
		gametest.OK(t, json.Unmarshal(gametest.Must(json.Marshal(schema))(t), &found))
		return found
	}
	for _, l := range play.Levels {
		if text := fmt.Sprintf("%s %d", l.Name, l.Elo); !strings.Contains(argument("play", "level").Description, text) {
			t.Errorf("the description of levels lacks %s", text)
		}
	}
	if diff := cmp.Diff(puzzle.Themes(), argument("puzzle", "theme").Enum); diff != "" {
		t.Errorf("themes (-package +tool):\n%s", diff)
	}
	all := gametest.Must(puzzle.Read(bytes.NewReader(puzzle.Shipped())))(t)
	if a := argument("check", "puzzle"); a.Minimum != 1 || a.Maximum != len(all) {
		t.Errorf("puzzles are %d to %d, want 1 to %d", a.Minimum, a.Maximum, len(all))
	}
	if a := argument("puzzle", "rating"); a.Minimum != all[0].Rating || a.Maximum != all[len(all)-1].Rating {
		t.Errorf("ratings are %d to %d, want %d to %d", a.Minimum, a.Maximum, all[0].Rating, all[len(all)-1].Rating)
	}
}

// played is the object of a result of play.
func playedBy(t testing.TB, s *mcp.ClientSession, tool string, in any) (g Game) {
	t.Helper()
	text, object, refused := callTool(t, s, tool, in)
	if refused {
		t.Fatalf("%s %v: %s", tool, in, text)
	}
	gametest.OK(t, json.Unmarshal([]byte(object), &g))
	return g
}

// Random moves against a level, to the end of games: positions, legal moves and results are those of
// the rules, regrets those of a solver, and a seed makes a game the same.
func TestMCPPlay(t *testing.T) {
	s := inMemory(t, 3*time.Second)
	for number, rules := range []string{"4x4x4", "4x4x3", "3x3x3free", "12x2x4", "6x6x5free"} {
		b := gametest.Must(new(game.Boards).Parse(rules))(t)
		truth := gametest.Must(solver.New(b, solver.Options{}))(t)
		moves := []int{}
		rng := rand.New(rand.NewPCG(uint64(number), 1))
		for b.Result(b.PlayMoves(moves)) == game.Ongoing {
			p := b.PlayMoves(moves)
			var legal []int
			for a := range b.Actions() {
				if b.CanPlay(p, a) {
					legal = append(legal, a)
				}
			}
			a := legal[rng.IntN(len(legal))]
			small := b.Cells() <= 16
			in := map[string]any{"position": answer.Canonical(b, moves), "move": play.Name(b, a), "level": "casual", "seed": 1 + number, "judge": small}
			g := playedBy(t, s, "play", in)
			if again := playedBy(t, s, "play", in); !cmp.Equal(g, again) {
				t.Fatalf("%v: %+v, and then %+v", in, g, again)
			}
			if small {
				scores, _, err := truth.Scores(t.Context(), p)
				gametest.OK(t, err)
				if want := slices.Max(scores) - scores[a]; g.Regret == nil || *g.Regret != want {
					t.Fatalf("%v: regret %v, want %d", in, g.Regret, want)
				}
			}
			if moves = append(moves, a); g.Reply != "" {
				moves = append(moves, play.Action(b, g.Reply))
			}
			q := b.PlayMoves(moves)
			want := Game{Position: answer.Canonical(b, moves), Legal: []string{}, Reply: g.Reply, Regret: g.Regret}
			for a := range b.Actions() {
				if b.Result(q) == game.Ongoing && b.CanPlay(q, a) {
					want.Legal = append(want.Legal, play.Name(b, a))
				}
			}
			want.Result = map[game.Result]string{game.Loss: "won", game.Draw: "draw"}[b.Result(q)]
			if diff := cmp.Diff(want, g); diff != "" || g.Reply == "" && g.Result == "" {
				t.Fatalf("%v (-want +got):\n%s", in, diff)
			}
		}
	}
}

// Puzzles are of the theme and near the rating, and their solutions are those that ship.
func TestMCPPuzzles(t *testing.T) {
	s := inMemory(t, 3*time.Second)
	all := gametest.Must(puzzle.Read(bytes.NewReader(puzzle.Shipped())))(t)
	for i, theme := range puzzle.Themes() {
		for _, rating := range []int{600, 1000, 1900} {
			g := playedBy(t, s, "puzzle", map[string]any{"theme": theme, "rating": rating, "seed": i + rating})
			z := all[g.Puzzle-1]
			nearer := 0
			for _, other := range all {
				if other.Theme == theme && max(other.Rating-rating, rating-other.Rating) < max(z.Rating-rating, rating-z.Rating) {
					nearer++
				}
			}
			if g.Theme != theme || z.Theme != theme || g.Rating != z.Rating || nearer >= 1000 || g.Keeps != z.Result.String() || g.Position != answer.Canonical(z.Board, z.Moves) {
				t.Errorf("theme %s, rating %d: %+v, and %d puzzles are nearer", theme, rating, g, nearer)
			}
			for _, move := range g.Legal {
				c := playedBy(t, s, "check", map[string]any{"puzzle": g.Puzzle, "move": move})
				if right := play.Action(z.Board, move) == z.Move; *c.Solved != right || c.Solution != play.Name(z.Board, z.Move) {
					t.Errorf("puzzle %d, move %s: %+v", g.Puzzle, move, c)
				}
			}
		}
	}
	seen := map[int]bool{}
	for range 5 {
		seen[playedBy(t, s, "puzzle", map[string]any{}).Puzzle] = true
	}
	if len(seen) < 3 {
		t.Errorf("without a seed the puzzles are %v", seen)
	}
}

// Nonsense is refused with an error for the model, which names the argument.
func TestMCPNonsense(t *testing.T) {
	s := inMemory(t, 3*time.Second)
	for _, x := range []struct{ tool, in, want string }{
		{"evaluate", `{}`, `required: missing properties: ["position"]`},
		{"evaluate", `{"position":"8"}`, `position: `},
		{"evaluate", `{"position":"4444444"}`, `goes to "4", which is full`},
		{"evaluate", `{"position":"41414141"}`, `comes after the game was won`},
		{"evaluate", `{"position":"4141414"}`, `position: the game is over`},
		{"evaluate", `{"position":"1000x1000x4:-"}`, `position: `},
		{"evaluate", `{"position":7}`, `/properties/position`},
		{"evaluate", `{"position":"-","model":"/etc/passwd"}`, `model is "/etc/passwd"`},
		{"evaluate", `{"position":"-","colour":"red"}`, `colour`},
		{"evaluate", `{"position":"` + strings.Repeat("1", 5000) + `"}`, `maxLength`},
		{"search", `{"position":"-","visits":0}`, `/properties/visits`},
		{"search", `{"position":"-","visits":1000000000000}`, `visits is 1000000000000, must be 0 to 1000000`},
		{"search", `{"position":"-","visits":1.5}`, `/properties/visits`},
		{"solve", `{"position":"-","seconds":1e9}`, `seconds is 1e+09, must be 0 to 3`},
		{"solve", `{"position":"-","seconds":-1}`, `/properties/seconds`},
		{"explain", `{"position":"-"}`, `move`},
		{"show", `{"position":"x"}`, `position: `},
		{"play", `{"position":"-","move":"8"}`, `move: "8" is no move of 7x6x4`},
		{"play", `{"position":"444444","move":"4"}`, `move: 4 cannot be played; legal moves are 1 2 3 5 6 7`},
		{"play", `{"position":"4141414","move":"4"}`, `move: the game is over`},
		{"play", `{"position":"4141414","level":"perfect"}`, `position: the game is over`},
		{"play", `{"position":"-","level":"grandmaster"}`, `agent "grandmaster": there are`},
		{"play", `{"position":"-","level":"mcts:visits=1000000000"}`, `visits`},
		{"puzzle", `{"theme":"luck"}`, `/properties/theme`},
		{"puzzle", `{"rating":99999}`, `/properties/rating`},
		{"check", `{"puzzle":0,"move":"4"}`, `/properties/puzzle`},
		{"check", `{"puzzle":10001,"move":"4"}`, `/properties/puzzle`},
		{"check", `{"puzzle":1,"move":"99"}`, `move: "99" is no move of 7x6x4`},
	} {
		if text, _, refused := callTool(t, s, x.tool, json.RawMessage(x.in)); !refused || !strings.Contains(text, x.want) || strings.Contains(text, "fault") {
			t.Errorf("%s %.100s: refused %v, %q, want %q", x.tool, x.in, refused, text, x.want)
		}
	}
}

// bearerTransport adds a token to requests.
type bearerTransport string

func (token bearerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+string(token))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// Over HTTP the same tools answer, to holders of a token of the group page alone, and with the limits
// of evald serve.
func TestMCPHTTP(t *testing.T) {
	ownStore(t)
	tokens := filepath.Join(t.TempDir(), "tokens")
	putFile(t, tokens, "page right-token\ninference other-token\n")
	gametest.OK(t, os.Chmod(tokens, 0o600))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	log, status := &syncBuffer{}, make(chan int, 1)
	go func() {
		status <- run(ctx, []string{"mcp", "--http", "127.0.0.1:0", "--tokens", tokens, "--backend", "bitsquares"}, streams{strings.NewReader(""), io.Discard, log})
	}()
	defer func() {
		if cancel(); <-status != exitOK {
			t.Errorf("the log is %s", log)
		}
	}()
	at := regexp.MustCompile(`http=(127\.0\.0\.1:\d+)`)
	for end := time.Now().Add(20 * time.Second); at.FindString(log.String()) == ""; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the service does not start:\n%s", log)
		}
	}
	url := "http://" + at.FindStringSubmatch(log.String())[1] + "/mcp"
	s := connect(t, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearerTransport("right-token")}})
	if g := playedBy(t, s, "play", map[string]any{"position": "444", "move": "4", "level": "perfect"}); !strings.HasPrefix(g.Position, "7x6x4:4444") || g.Reply == "" {
		t.Errorf("over HTTP: %+v", g)
	}
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"show","arguments":{"position":"-"}}}`
	for _, x := range []struct {
		token, body string
		headers     map[string]string
		want        int
	}{
		{"right-token", call, nil, http.StatusOK},
		{"", call, nil, http.StatusUnauthorized},
		{"wrong-token", call, nil, http.StatusUnauthorized},
		{"other-token", call, nil, http.StatusForbidden},
		{"right-token", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 1<<16) + `"}`, nil, http.StatusRequestEntityTooLarge},
		{"right-token", call, map[string]string{"Origin": "https://example.org", "Host": "example.org"}, http.StatusForbidden},
		{"", call, map[string]string{"Origin": "https://example.org"}, http.StatusForbidden},
	} {
		r := gametest.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(x.body)))(t)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		for name, value := range x.headers {
			r.Header.Set(name, value)
		}
		if host := x.headers["Host"]; host != "" {
			r.Host = host
		}
		reply := gametest.Must(bearerTransport(x.token).RoundTrip(r))(t)
		text, err := io.ReadAll(reply.Body)
		reply.Body.Close()
		if err != nil || reply.StatusCode != x.want {
			t.Errorf("token %q, headers %v, %.80s: %d %s, want %d", x.token, x.headers, x.body, reply.StatusCode, text, x.want)
		}
	}
}

// A panic is an error of its call, and the next call is answered.
func TestMCPFault(t *testing.T) {
	broken := evaltest.Raw(&evaltest.Stub{Before: func(context.Context, *eval.Batch) error { panic("a mistake") }})
	a := gametest.Must(answer.New(answer.Config{Evaluator: broken, Model: "broken", Places: places.ForPage(0)}))(t)
	here, there := mcp.NewInMemoryTransports()
	server := gametest.Must(newTools(a))(t)
	add(server, &mcp.Tool{Name: "broken", InputSchema: map[string]any{"type": "object"}}, func(context.Context, args) (Game, error) { panic("another mistake") })
	gametest.Must(server.Connect(t.Context(), there, nil))(t)
	s := connect(t, here)
	if text, _, refused := callTool(t, s, "evaluate", map[string]any{"position": "4"}); !refused || !strings.Contains(text, "evald has a fault: a mistake") {
		t.Errorf("a panic of the evaluator: %v, %s", refused, text)
	}
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "broken"}); err == nil || !strings.Contains(err.Error(), "evald has a fault: another mistake") {
		t.Errorf("a panic of a tool: %v", err)
	}
	if g := playedBy(t, s, "show", map[string]any{"position": "4"}); g.Position != "7x6x4:4" {
		t.Errorf("after a panic: %+v", g)
	}
}

// Whatever arguments are, a tool answers with a result or an error for the model, never with a panic.
func FuzzMCP(f *testing.F) {
	for _, in := range []string{
		`{"position":"44554","move":"4","level":"casual","seed":1,"judge":true}`, `{"position":"3x3x3free:5","visits":10}`,
		`{"puzzle":1,"move":"4"}`, `{"theme":"plan","rating":700,"seed":3}`, `{"position":"-","seconds":0.01}`, `[]`, `null`, `{"position":null}`, `{"move":{}}`,
	} {
		for tool := range uint8(8) {
			f.Add(tool, in)
		}
	}
	s := inMemory(f, time.Second/20)
	names := []string{"evaluate", "search", "solve", "explain", "show", "play", "puzzle", "check"}
	f.Fuzz(func(t *testing.T, tool uint8, in string) {
		if !json.Valid([]byte(in)) {
			return
		}
		text, object, refused := callTool(t, s, names[int(tool)%len(names)], json.RawMessage(in))
		if refused == (object != "") || text == "" || strings.Contains(text, "fault") {
			t.Errorf("%s %s: refused %v, %s, %s", names[int(tool)%len(names)], in, refused, text, object)
		}
	})
}
