package answer

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/evald/evald/cmd/evald/internal/places"
	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/heuristic"
)

// begin waits for a place. Then the returned context ends after d. The caller must call end.
func (a *Answerer) begin(ctx context.Context, d time.Duration) (timed context.Context, end func(), err error) {
	if err := a.config.Places.Take(ctx); err != nil {
		return nil, nil, why(ctx, Busy(err))
	}
	timed, stop := context.WithTimeout(ctx, d)
	return timed, func() { stop(); a.config.Places.Leave() }, nil
}

// Busy converts places.ErrBusy to a Refusal, and returns other errors as they are.
func Busy(err error) error {
	if errors.Is(err, places.ErrBusy) {
		return &Refusal{Status: Unavailable, Text: err.Error(), After: 1}
	}
	return err
}

// why converts the error of an ended context to one for the one who asked.
func why(ctx context.Context, err error) error {
	if r, refused := errors.AsType[*Refusal](context.Cause(ctx)); refused && errors.Is(err, context.Canceled) {
		return r
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return Refuse(Unavailable, "", "no answer in time, because the server is busy: try again")
	}
	return err
}

// moveRequest asks for an agent's move.
type moveRequest struct {
	Position string `json:"position"`
	Agent    string `json:"agent"` // a level's name, or a spec in the grammar of engine/agent
	Seed     uint64 `json:"seed"`  // of an agent without one: the same move each time; 0: none
}

// Moved is an agent's move.
type Moved struct {
	Move    string  `json:"move"`
	Seconds float64 `json:"seconds"`
}

func (a *Answerer) move(ctx context.Context, q *moveRequest) (any, error) {
	b, p, err := parseOngoing(q.Position)
	if err != nil {
		return nil, err
	}
	spec, err := a.spec(q.Agent, p.Plies(), q.Seed)
	if err != nil {
		return nil, err
	}
	// The agent limits itself to Limits.Time at most; the context is a second longer, so that it does not end a move that is just in time.
	ctx, end, err := a.begin(ctx, a.config.Limits.Time+time.Second)
	if err != nil {
		return nil, err
	}
	defer end()
	player, err := agent.New(spec, a.config.Agents)
	if err != nil {
		return nil, bad("agent", "%v", err)
	}
	began := time.Now()
	action, err := player.Move(ctx, b, p)
	if err != nil {
		return nil, why(ctx, err)
	}
	return Moved{play.Name(b, action), time.Since(began).Seconds()}, nil
}

// maxAgent is the maximum length of an agent's text in bytes.
const maxAgent = 200

// spec parses an agent for a move after the given number of plies, and checks it against the limits.
// seed is for an agent without one; 0 is none.
func (a *Answerer) spec(text string, plies int, seed uint64) (agent.Spec, error) {
	if len(text) > maxAgent {
		return agent.Spec{}, bad("agent", "agent is longer than %d bytes", maxAgent)
	}
	s, err := play.ParseAgent(text)
	if err != nil {
		return s, bad("agent", "%v", err)
	}
	l := a.config.Limits
	known := heuristic.Is(s.Model) || a.config.Agents.Models != nil && play.Named(s)
	switch {
	case s.Book != "":
		return s, bad("agent", "agent %q: opening books are not read here", cut(text))
	case s.Model != "" && !known && !slices.Contains(a.config.Networks, s.Model):
		return s, bad("agent", "agent %q: model is %q, must be a heuristic or one of %q", cut(text), cut(s.Model), a.config.Networks)
	case s.Visits > l.Visits || s.Games > l.Visits:
		return s, bad("agent", "agent %q: may have %d visits or games a move here", cut(text), l.Visits)
	case s.Time > l.Time:
		return s, bad("agent", "agent %q: may think for %v a move here", cut(text), l.Time)
	case s.Time == 0:
		s.Time = l.Time
	}
	// Each move gets a new agent, so the seed must differ from move to move. Without a seed in the text, games differ, too.
	s.Seed = cmp.Or(s.Seed, seed)
	if s.Seed += uint64(plies); s.Seed == uint64(plies) {
		s.Seed = rand.Uint64()
	}
	return s, nil
}
