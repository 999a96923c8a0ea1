package answer

import (
	"errors"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/evald/evald/cmd/evald/internal/pasted"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
)

// Statuses of refusals are those of HTTP, whose package is too large for a browser.
const (
	BadRequest  = 400
	NotFound    = 404
	TooLarge    = 413
	Internal    = 500
	Unavailable = 503
)

// Refusal is an error for the one who asked.
type Refusal struct {
	Status int    `json:"-"`
	Text   string `json:"error"`
	Field  string `json:"field,omitempty"` // the wrong field of the question, or ""
	After  int    `json:"-"`               // seconds after which to try again; 0: not stated
}

func (r *Refusal) Error() string { return r.Text }

// Refuse returns a Refusal.
func Refuse(status int, field, format string, args ...any) error {
	return &Refusal{Status: status, Field: field, Text: fmt.Sprintf(format, args...)}
}

func bad(field, format string, args ...any) error {
	return Refuse(BadRequest, field, format, args...)
}

// TooLong refuses the object of a question, because it is longer than MaxBody.
func TooLong(name string) error {
	return Refuse(TooLarge, "", "the request is longer than %d bytes", MaxBody(name))
}

// Describe returns an error as a Refusal.
func Describe(err error) *Refusal {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r
	}
	if missing, ok := errors.AsType[*eval.UnsupportedError](err); ok {
		return &Refusal{Status: BadRequest, Field: "position", Text: missing.Error()}
	}
	return &Refusal{Status: Internal, Text: err.Error()}
}

// decode decodes a question's JSON object into to. It refuses unknown fields.
func decode(body []byte, to any) error {
	err := game.DecodeJSON(body, to, jsonv2.RejectUnknownMembers(true))
	wrong, ok := errors.AsType[*game.ParseError](err)
	switch {
	case !ok:
		return err
	case wrong.Field == "json":
		return bad("", "the request is no JSON object as expected: %s", wrong.Reason)
	}
	return bad(wrong.Field, "%v", wrong)
}

// ParsePosition parses a game or a position in any form that package pasted reads. The page itself
// sends rules and moves: 9x5x4:4455.
func ParsePosition(text string) (*game.Board, []int, error) {
	b, actions, wrong, err := parseLink(text)
	if err == nil && wrong != nil {
		err = bad("position", "%v", wrong)
	}
	return b, actions, err
}

// parseLink is ParsePosition, except that an illegal move is not err: wrong describes it, and actions are the moves before it.
func parseLink(text string) (b *game.Board, actions []int, wrong, err error) {
	g, wrong := pasted.Read(text)
	if g.Board == nil {
		return nil, nil, nil, bad("position", "%v", wrong)
	}
	return g.Board, g.Moves, wrong, nil
}

// Canonical returns a game as the page's addresses have it: always with the rules.
func Canonical(b *game.Board, moves []int) string {
	return b.Rules().String() + ":" + game.FormatMoves(b.Rules(), moves)
}

// parseOngoing returns the position after the moves. The game must not be over.
func parseOngoing(text string) (*game.Board, game.Position, error) {
	b, actions, err := ParsePosition(text)
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
