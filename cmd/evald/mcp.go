//go:build !first

package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.yaml.in/yaml/v3"

	"github.com/evald/evald/cmd/evald/internal/answer"
	"github.com/evald/evald/cmd/evald/internal/diagram"
	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/puzzle"
)

type mcpCmd struct {
	served
	HTTP string `env:"EVALD_MCP_HTTP" placeholder:"HOST:PORT" help:"Serve at http://HOST:PORT/mcp."`
	callers
}

// Run serves until the client closes the input, or until it is interrupted.
func (c *mcpCmd) Run(ctx context.Context, s streams) error {
	serve := serveCmd{served: c.served, callers: c.callers}
	if err := kong.ApplyDefaults(&serve, append(mappers, kong.PostBuild(fillIn))...); err != nil {
		return err
	}
	serve.HTTP, serve.GRPC, serve.Metrics = c.HTTP, "", ""
	ctx, end := context.WithCancel(ctx)
	defer end()
	serve.inPlace = func(a *answer.Answerer) (http.Handler, error) {
		server, err := newTools(a)
		if err == nil && c.HTTP == "" {
			go func() { defer end(); _ = server.Run(ctx, &mcp.StdioTransport{}) }() // to its end
		}
		all := func(*http.Request) *mcp.Server { return server }
		return mcp.NewStreamableHTTPHandler(all, &mcp.StreamableHTTPOptions{
			Stateless: true, JSONResponse: true, MaxRequestBodyBytes: 2 * answer.UsualBody,
			DisableLocalhostProtection: true, // origin.Policy checks hosts
		}), err
	}
	return serve.Run(ctx, s)
}

//go:embed mcp.yaml
var toolsFile []byte // describes the tools and their arguments to a language model

type tools struct {
	*answer.Answerer
	puzzles []puzzle.Puzzle
}

// newTools returns a server of tools that ask a. A call has its position; nothing is kept.
func newTools(a *answer.Answerer) (*mcp.Server, error) {
	var d struct {
		Instructions string
		Tools        map[string]*mcp.Tool
	}
	err := yaml.Unmarshal(toolsFile, &d)
	puzzles, wrong := puzzle.Read(bytes.NewReader(puzzle.Shipped()))
	if err = cmp.Or(err, wrong); err != nil {
		return nil, err
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "evald", Version: version()},
		&mcp.ServerOptions{Instructions: d.Instructions, Capabilities: &mcp.ServerCapabilities{}})
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, call string, r mcp.Request) (_ mcp.Result, err error) {
			defer fault.Catch(&err) // a panic, also of the SDK, would end the program
			return next(ctx, call, r)
		}
	})
	add(s, d.Tools["evaluate"], asks[answer.Opinion](a, "analyze", args{"visits": 0}))
	add(s, d.Tools["search"], asks[answer.Searched](a, "analyze", args{"visits": ask.Usual().Visits}))
	add(s, d.Tools["solve"], asks[answer.Solved](a, "analyze", args{"visits": 0, "solve": true}))
	t := tools{a, puzzles}
	add(s, d.Tools["explain"], t.explain)
	add(s, d.Tools["show"], t.show)
	add(s, d.Tools["play"], t.play)
	add(s, d.Tools["puzzle"], t.puzzle)
	add(s, d.Tools["check"], t.check)
	return s, nil
}

// args has the arguments of a tool, or those of a question of package answer.
type args map[string]any

// call does what a tool does.
type call[Out any] func(ctx context.Context, in args) (Out, error)

// add adds a tool. Its errors are results, too, so that the model reads them.
func add[Out any](s *mcp.Server, tool *mcp.Tool, call call[Out]) {
	mcp.AddTool(s, tool, func(ctx context.Context, _ *mcp.CallToolRequest, in args) (
		_ *mcp.CallToolResult, out Out, err error,
	) {
		if out, err = call(ctx, in); err != nil {
			if r := answer.Describe(err); !strings.HasPrefix(r.Text, r.Field) {
				err = fmt.Errorf("%s: %w", r.Field, err)
			}
			return nil, out, err
		}
		b, err := json.Marshal(out) // which some clients show in place of the object
		if o, ok := any(out).(fmt.Stringer); ok {
			b = append([]byte(o.String()), b...)
		}
		text := &mcp.TextContent{Text: string(b)}
		return &mcp.CallToolResult{Content: []mcp.Content{text}}, out, err
	})
}

// asks returns a call that asks a question with its arguments, and with usual ones where it has
// none. It returns the last object of type Out in the answer.
func asks[Out any](a *answer.Answerer, question string, usual args) call[Out] {
	return func(ctx context.Context, in args) (found Out, err error) {
		all := maps.Clone(usual)
		maps.Copy(all, in)
		body, _ := json.Marshal(all) // it was JSON
		keep := func(object any) error {
			if x, ok := object.(Out); ok {
				found = x
			}
			return nil
		}
		last, err := a.Ask(ctx, question, body, keep)
		return found, cmp.Or(err, keep(last))
	}
}

// Explained compares the last move of a game with the best ones.
type Explained struct {
	Best    []string `json:"best"`
	Instead string   `json:"instead" jsonschema:"best play with one of the best moves"`
	After   string   `json:"after" jsonschema:"best play after the move that was made"`
}

func (t tools) explain(ctx context.Context, in args) (Explained, error) {
	e, err := asks[answer.Explained](t.Answerer, "why", in)(ctx, nil)
	return Explained{e.Best, e.Instead.String(), e.After.String()}, err
}

// Game is a position of a game or of a puzzle.
type Game struct {
	Position string       `json:"position" jsonschema:"for the next call"`
	Legal    []string     `json:"legal" jsonschema:"the moves that are possible"`
	Result   string       `json:"result,omitempty" jsonschema:"won by the last move, or draw"`
	Reply    string       `json:"reply,omitempty" jsonschema:"the level's move"`
	Regret   *int         `json:"regret,omitempty" jsonschema:"best exact score less your move's"`
	Puzzle   int          `json:"puzzle,omitempty" jsonschema:"its number, for check"`
	Rating   int          `json:"rating,omitempty" jsonschema:"difficulty of the puzzle"`
	Theme    puzzle.Theme `json:"theme,omitempty"`
	Keeps    string       `json:"keeps,omitempty" jsonschema:"result that a single move keeps"`
	Solved   *bool        `json:"solved,omitempty" jsonschema:"whether your move is that one"`
	Solution string       `json:"solution,omitempty"`
}

// String draws the position.
func (g Game) String() string {
	d, _ := diagram.Of(g.Position) // the position was read before
	return d.Text()
}

// show makes the move of in, if it has one.
func (t tools) show(ctx context.Context, in args) (g Game, err error) {
	q := args{"position": in["position"], "move": in["move"]}
	s, err := asks[answer.GameState](t.Answerer, "game", q)(ctx, nil)
	g.Position, g.Result, g.Legal = s.Position, s.Result, []string{}
	for a, legal := range s.Legal {
		if legal {
			g.Legal = append(g.Legal, s.Names[a])
		}
	}
	return g, err
}

// play makes the move of in, if it has one, and then that of a level.
func (t tools) play(ctx context.Context, in args) (g Game, err error) {
	if g, err = t.show(ctx, in); err == nil && in["judge"] == true && in["move"] != nil {
		g.Regret, err = t.regret(ctx, in)
	}
	if err != nil || in["level"] == nil || in["move"] != nil && g.Result != "" {
		return g, err
	}
	q := args{"position": g.Position, "agent": in["level"], "seed": in["seed"]}
	reply, err := asks[answer.Moved](t.Answerer, "move", q)(ctx, nil)
	if err != nil {
		return g, err
	}
	after, err := t.show(ctx, args{"position": g.Position, "move": reply.Move})
	after.Reply, after.Regret = reply.Move, g.Regret
	return after, err
}

// regret returns the best exact score less that of a move, or nil if the time was too short.
func (t tools) regret(ctx context.Context, in args) (*int, error) {
	q := args{"position": in["position"], "visits": 0, "solve": true}
	s, err := asks[answer.Solved](t.Answerer, "analyze", q)(ctx, nil)
	if err != nil || !s.Done {
		return nil, err
	}
	legal := slices.DeleteFunc(slices.Clone(s.Scores), func(x *int) bool { return x == nil })
	best := slices.MaxFunc(legal, func(x, y *int) int { return *x - *y })
	return new(*best - *s.Scores[slices.Index(s.Names, in["move"].(string))]), nil
}

// puzzle chooses among the hundred puzzles of the theme that are nearest to the rating.
func (t tools) puzzle(ctx context.Context, in args) (Game, error) {
	var near []int // in the order of ratings
	for i, z := range t.puzzles {
		if in["theme"] == nil || in["theme"] == string(z.Theme) {
			near = append(near, i)
		}
	}
	if rating, ok := in["rating"].(float64); ok {
		at := slices.IndexFunc(near, func(i int) bool { return t.puzzles[i].Rating >= int(rating) })
		near = near[max(0, at-50):min(len(near), at+50)]
	}
	at := near[rand.IntN(len(near))]
	if seed, ok := in["seed"].(float64); ok {
		at = near[int(seed)%len(near)]
	}
	return t.check(ctx, args{"puzzle": float64(at + 1)})
}

// check shows a puzzle, and judges a move if in has one.
func (t tools) check(ctx context.Context, in args) (Game, error) {
	i := int(in["puzzle"].(float64)) // in the range of mcp.yaml
	z := t.puzzles[i-1]
	q := args{"position": answer.Canonical(z.Board, z.Moves), "move": in["move"]}
	g, err := t.show(ctx, q)
	g.Puzzle, g.Rating, g.Theme, g.Keeps = i, z.Rating, z.Theme, z.Result.String()
	if in["move"] != nil {
		g.Solution = play.Name(z.Board, z.Move)
		g.Solved = new(in["move"] == g.Solution)
	}
	return g, err
}
