package answer

import (
	"context"

	"github.com/evald/evald/cmd/evald/internal/pasted"
)

// readRequest asks for the address of a game or position that a visitor has typed or pasted into a
// field.
type readRequest struct {
	Text string `json:"text"` // in any form that package pasted reads
}

func (*Answerer) read(_ context.Context, q *readRequest) (any, error) {
	g, err := pasted.Read(q.Text)
	if err != nil {
		return nil, bad("text", "%v", err)
	}
	return struct {
		Position string `json:"position"` // rules and moves
		Ordered  bool   `json:"ordered"`  // whether the text has the order of the moves; a board has none
	}{Canonical(g.Board, g.Moves), g.Ordered}, nil
}
