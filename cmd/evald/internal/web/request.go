package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/evald/evald/cmd/evald/internal/pasted"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
)

// maxBody is the maximum length of a request's body in bytes.
const maxBody = 16 << 10

// refusal is an error for the client: an HTTP status, the wrong field of the request or "", and a text.
type refusal struct {
	status int
	field  string
	text   string
	after  int // seconds after which to try again; 0: not stated
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, field, format string, args ...any) error {
	return &refusal{status: status, field: field, text: fmt.Sprintf(format, args...)}
}

func bad(field, format string, args ...any) error {
	return refuse(http.StatusBadRequest, field, format, args...)
}

// answerError answers {"error":"..","field":".."}.
func answerError(w http.ResponseWriter, err error) {
	r, ok := errors.AsType[*refusal](err)
	if missing, unsupported := errors.AsType[*eval.UnsupportedError](err); unsupported {
		r = &refusal{status: http.StatusBadRequest, field: "position", text: missing.Error()}
	} else if !ok {
		r = &refusal{status: http.StatusInternalServerError, text: err.Error()}
	}
	if r.after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(r.after))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.status)
	// A write error means that the client is gone.
	_ = json.NewEncoder(w).Encode(struct {
		Error string `json:"error"`
		Field string `json:"field,omitempty"`
	}{r.text, r.field})
}

// answer sends x as JSON.
func answer(w http.ResponseWriter, x any) error {
	text, err := json.Marshal(x)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // an error means that the client is gone, which can happen at any time
	return nil
}

// read decodes a request's JSON object into to. It refuses unknown fields.
func read(w http.ResponseWriter, r *http.Request, to any) error {
	return readUpTo(w, r, to, maxBody)
}

// readUpTo is read for a body of at most most bytes.
func readUpTo(w http.ResponseWriter, r *http.Request, to any, most int64) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "", "Content-Type is %q, want application/json", cut(r.Header.Get("Content-Type")))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return refuse(http.StatusRequestEntityTooLarge, "", "the request is longer than %d bytes", most)
	}
	if err != nil {
		return bad("", "the request ends early: %v", err)
	}
	err = game.DecodeJSON(body, to, jsonv2.RejectUnknownMembers(true))
	wrong, ok := errors.AsType[*game.ParseError](err)
	switch {
	case !ok:
		return err
	case wrong.Field == "json":
		return bad("", "the request is no JSON object as expected: %s", wrong.Reason)
	}
	return bad(wrong.Field, "%v", wrong)
}

// parsePosition parses a game or a position in any form that package pasted reads. The page itself
// sends rules and moves: 9x5x4:4455.
func parsePosition(text string) (*game.Board, []int, error) {
	b, actions, wrong, err := parseLink(text)
	if err == nil && wrong != nil {
		err = bad("position", "%v", wrong)
	}
	return b, actions, err
}

// parseLink is parsePosition, except that an illegal move is not err: wrong describes it, and actions are the moves before it.
func parseLink(text string) (b *game.Board, actions []int, wrong, err error) {
	g, wrong := pasted.Read(text)
	if g.Board == nil {
		return nil, nil, nil, bad("position", "%v", wrong)
	}
	return g.Board, g.Moves, wrong, nil
}

// canonical returns a game as the page's addresses have it: always with the rules.
func canonical(b *game.Board, moves []int) string {
	return b.Rules().String() + ":" + game.FormatMoves(b.Rules(), moves)
}

// parseOngoing returns the position after the moves. The game must not be over.
func parseOngoing(text string) (*game.Board, game.Position, error) {
	b, actions, err := parsePosition(text)
	if err != nil {
		return nil, game.Position{}, err
	}
	p := b.PlayMoves(actions)
	if b.Result(p) != game.Ongoing {
		return nil, p, bad("position", "the game is over")
	}
	return b, p, nil
}

// cut shortens a text for an error message.
func cut(s string) string { return short.To(s, 82) }
