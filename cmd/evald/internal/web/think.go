package web

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/evald/evald/cmd/evald/internal/places"
	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/heuristic"
)

// begin waits for a place. Then ctx ends after d, or when the client disconnects or the handler is closed. The caller must call end.
func (h *Handler) begin(w http.ResponseWriter, r *http.Request, d time.Duration) (ctx context.Context, end func(), err error) {
	// The server's own deadline is too short for this request. An error means that the connection supports no deadlines.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(places.Patience + d + lineTime))
	ctx, cancel := context.WithCancel(r.Context())
	unhook := context.AfterFunc(h.closing, cancel)
	if err := h.config.Places.Take(ctx); err != nil {
		unhook()
		cancel()
		return nil, nil, h.why(err)
	}
	timed, stop := context.WithTimeout(ctx, d)
	return timed, func() { stop(); h.config.Places.Leave(); unhook(); cancel() }, nil
}

// why converts the error of an ended context, or of places, to one for the client.
func (h *Handler) why(err error) error {
	if errors.Is(err, places.ErrBusy) {
		return &refusal{status: http.StatusServiceUnavailable, text: err.Error(), after: 1}
	}
	if errors.Is(err, context.Canceled) && h.closing.Err() != nil {
		return &refusal{status: http.StatusServiceUnavailable, text: "the server is shutting down", after: 1} // a new server may replace it
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return refuse(http.StatusServiceUnavailable, "", "no answer in time, because the server is busy: try again")
	}
	return err
}

func (h *Handler) serveMove(w http.ResponseWriter, r *http.Request) error {
	var q struct {
		Position string `json:"position"`
		Agent    string `json:"agent"` // a level's name, or a spec in the grammar of engine/agent
	}
	if err := read(w, r, &q); err != nil {
		return err
	}
	b, p, err := parseOngoing(q.Position)
	if err != nil {
		return err
	}
	spec, err := h.spec(q.Agent, p.Plies())
	if err != nil {
		return err
	}
	// The agent limits itself to Limits.Time at most; the context is a second longer, so that it does not end a move that is just in time.
	ctx, end, err := h.begin(w, r, h.config.Limits.Time+time.Second)
	if err != nil {
		return err
	}
	defer end()
	a, err := agent.New(spec, h.config.Agents)
	if err != nil {
		return bad("agent", "%v", err)
	}
	began := time.Now()
	action, err := a.Move(ctx, b, p)
	if err != nil {
		return h.why(err)
	}
	return answer(w, struct {
		Move    string  `json:"move"`
		Seconds float64 `json:"seconds"`
	}{play.Name(b, action), time.Since(began).Seconds()})
}

// maxAgent is the maximum length of an agent's text in bytes.
const maxAgent = 200

// spec parses an agent for a move after the given number of plies, and checks it against the limits.
func (h *Handler) spec(text string, plies int) (agent.Spec, error) {
	if len(text) > maxAgent {
		return agent.Spec{}, bad("agent", "agent is longer than %d bytes", maxAgent)
	}
	s, err := play.ParseAgent(text)
	if err != nil {
		return s, bad("agent", "%v", err)
	}
	l := h.config.Limits
	known := heuristic.Is(s.Model) || h.config.Agents.Models != nil && play.Named(s)
	switch {
	case s.Book != "":
		return s, bad("agent", "agent %q: opening books are not read here", cut(text))
	case s.Model != "" && !known && !slices.Contains(h.config.Networks, s.Model):
		return s, bad("agent", "agent %q: model is %q, must be a heuristic or one of %q", cut(text), cut(s.Model), h.config.Networks)
	case s.Visits > l.Visits || s.Games > l.Visits:
		return s, bad("agent", "agent %q: may have %d visits or games a move here", cut(text), l.Visits)
	case s.Time > l.Time:
		return s, bad("agent", "agent %q: may think for %v a move here", cut(text), l.Time)
	case s.Time == 0:
		s.Time = l.Time
	}
	// Each move gets a new agent, so the seed must differ from move to move. Without a seed in the text, games differ, too.
	if s.Seed += uint64(plies); s.Seed == uint64(plies) {
		s.Seed = rand.Uint64()
	}
	return s, nil
}
