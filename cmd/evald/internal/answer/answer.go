// Package answer answers the questions of the page. A question is a name and a JSON object; its
// answer is one object, or several of which each replaces or continues the ones before. Nothing here
// knows of HTTP, so that a service (internal/web) and an engine in the browser (internal/web/wasm)
// give the same answers.
//
// Read the files in this order:
//
//	answer.go    Config, Answerer, Ask: the questions by name
//	request.go   how questions are read and refused
//	pasted.go    a text that a visitor has typed or pasted as a position
//	game.go      a game's state after a command; values.go: the value of each of its positions
//	opinion.go   what a network or heuristic thinks of each move
//	analysis.go  the opinions of the evaluator, a search and the solver, as several objects
//	review.go    a review of a whole game, and why a move is a mistake
//	tree.go      the tree of a search
//	think.go     an agent's move; how questions that compute begin and end
//
// Each command of a game builds a play.Session from the moves, so the page needs no rules of the
// game, and nothing is kept from one question to the next.
package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/evald/evald/cmd/evald/internal/pasted"
	"github.com/evald/evald/cmd/evald/internal/places"
	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
)

// Config is what answers are computed with.
type Config struct {
	Evaluator *eval.Evaluator           // for the opinion of each column, and for the search
	Model     string                    // the evaluator's name
	Agents    agent.Shared              // networks and exact books of the agents to play against; opening books are not read
	ModelOn   func(r game.Rules) string // returns the name of the network that evaluates a game; nil: always Model
	Networks  []string                  // models that agents may use, besides heuristics and the networks of levels; other models are refused

	Played   func(b *game.Board, p game.Position) []Played // counts each move of a position in recorded games, by action; nil: there are none
	Service  bool                                          // the page can show metrics
	Training bool                                          // the page can show training runs

	Places *places.Places // for analyses, moves and reviews
	Limits Limits
}

// Limits of questions. Zero means the default.
type Limits struct {
	Visits int           // of a search or an agent's move; default 1 million, or fewer if a place has too little memory
	Time   time.Duration // of an analysis or an agent's move; default 10 s
	Review time.Duration // of a game's review, or of why a move is a mistake; default 1.8 s, and at most Time
}

func (l Limits) orDefaults(p *places.Places) Limits {
	l.Visits = cmp.Or(l.Visits, int(min(1_000_000, p.Bytes/visitBytes)))
	l.Time = cmp.Or(l.Time, 10*time.Second)
	l.Review = min(cmp.Or(l.Review, 1800*time.Millisecond), l.Time)
	return l
}

// visitBytes is the memory of a visit in a tree, in bytes.
const visitBytes = 300

// Answerer answers questions. Several goroutines may ask at once.
type Answerer struct {
	config    Config
	questions map[string]question
}

// A question answers the JSON object in body. It calls send with each object of an answer of
// several, and returns the last one; an error of send ends the work.
type question func(ctx context.Context, body []byte, send func(any) error) (any, error)

// New returns an Answerer. The error names the wrong field of the Config.
func New(c Config) (*Answerer, error) {
	if c.Evaluator == nil {
		return nil, errors.New("no evaluator")
	}
	c.Limits = c.Limits.orDefaults(c.Places)
	if c.Limits.Visits < 1 || c.Limits.Time < 0 || c.Limits.Review < 0 {
		return nil, fmt.Errorf("limits %+v: must be positive", c.Limits)
	}
	c.Networks = append([]string{}, c.Networks...) // JSON gets an empty list rather than null
	c.Agents.Memory = c.Places.Bytes
	a := &Answerer{config: c}
	a.questions = map[string]question{
		"config":  func(context.Context, []byte, func(any) error) (any, error) { return a.describe(), nil },
		"read":    decoded(a.read),
		"game":    decoded(a.game),
		"move":    decoded(a.move),
		"analyze": decodedStream(a.analyze),
		"opinion": decoded(a.opinion),
		"values":  decoded(a.values),
		"played":  decoded(a.played),
		"review":  decoded(a.review),
		"why":     decoded(a.why),
		"tree":    decoded(a.tree),
	}
	return a, nil
}

// decoded returns a question with one answer, which is computed from the object that the body holds.
func decoded[T any](answer func(context.Context, *T) (any, error)) question {
	return decodedStream(func(ctx context.Context, q *T, _ func(any) error) (any, error) { return answer(ctx, q) })
}

// decodedStream is decoded for an answer of several objects.
func decodedStream[T any](answer func(context.Context, *T, func(any) error) (any, error)) question {
	return func(ctx context.Context, body []byte, send func(any) error) (any, error) {
		q := new(T)
		if err := decode(body, q); err != nil {
			return nil, err
		}
		return answer(ctx, q, send)
	}
}

// Questions returns the names of all questions. config is the only one without an object.
func (a *Answerer) Questions() []string { return slices.Sorted(maps.Keys(a.questions)) }

// MaxBody returns the maximum length of a question's object in bytes. A replay with its quotes
// escaped fits into those of read and review.
func MaxBody(name string) int64 {
	if name == "read" || name == "review" {
		return pasted.MaxText + pasted.MaxText/4
	}
	return UsualBody
}

// UsualBody is the maximum length of most questions' objects in bytes.
const UsualBody = 16 << 10

// Longest returns the maximum time of an answer.
func (a *Answerer) Longest() time.Duration {
	return places.Patience + a.config.Limits.Time + time.Second
}

// Ask answers a question by its name. It calls send with each object of an answer of several but the
// last, one at a time; an error of send ends the work. All its errors can be described by Describe.
// When ctx ends, the answer is what was found until then, or an error; a *Refusal that is the cause
// of ctx's end is the error.
func (a *Answerer) Ask(ctx context.Context, name string, body []byte, send func(any) error) (any, error) {
	q, ok := a.questions[name]
	if !ok {
		return nil, Refuse(NotFound, "", "there is no question %q", cut(name))
	}
	if int64(len(body)) > MaxBody(name) {
		return nil, TooLong(name)
	}
	x, err := q(ctx, body, send)
	if err != nil {
		return nil, Describe(err)
	}
	return x, nil
}

// settings are what the page must know.
type settings struct {
	Model      string              `json:"model"`
	Networks   []string            `json:"networks"`
	Heuristics []string            `json:"heuristics"`
	Levels     []play.Level        `json:"levels"` // weakest first
	Agents     []agent.Description `json:"agents"`
	Visits     int                 `json:"visits"`
	Seconds    float64             `json:"seconds"`
	Service    bool                `json:"service"`  // the page can show metrics
	Training   bool                `json:"training"` // the page can show training runs
	Games      bool                `json:"games"`    // the page can ask how often a move was played
}

func (a *Answerer) describe() settings {
	c := &a.config
	levels := slices.DeleteFunc(slices.Clone(play.Levels), func(level play.Level) bool {
		_, err := a.spec(level.Name, 0, 0)
		return err != nil // its network is not available
	})
	return settings{c.Model, c.Networks, heuristic.Names(), levels, agent.Descriptions(), c.Limits.Visits, c.Limits.Time.Seconds(), c.Service, c.Training, c.Played != nil}
}

// Played is the number of recorded games in which a move was played, and their results for the side
// that made the move.
type Played struct {
	Games  uint64 `json:"games"`
	Wins   uint32 `json:"wins"`
	Draws  uint32 `json:"draws"`
	Losses uint32 `json:"losses"`
}

// playedRequest asks how often each move of a position was played in recorded games.
type playedRequest struct {
	Position string `json:"position"` // rules and moves
}

func (a *Answerer) played(_ context.Context, q *playedRequest) (any, error) {
	if a.config.Played == nil {
		return nil, Refuse(NotFound, "", "the server has read no games (evald serve --games)")
	}
	b, moves, err := ParsePosition(q.Position)
	if err != nil {
		return nil, err
	}
	return struct {
		Moves []Played `json:"moves"` // by action
	}{a.config.Played(b, b.PlayMoves(moves))}, nil
}
