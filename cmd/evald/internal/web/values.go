package web

import (
	"net/http"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// valued is the evaluator's value of one position of a game.
type valued struct {
	Value float32 `json:"value"` // -1..1 for the side that moved first
	Exact bool    `json:"exact"` // the value follows from the rules
}

// serveValues answers with a value for the empty board and one after each move. If the game is over, the last value is its result.
func (h *Handler) serveValues(w http.ResponseWriter, r *http.Request) error {
	var q struct {
		Position string `json:"position"` // the game: rules and moves
	}
	if err := read(w, r, &q); err != nil {
		return err
	}
	b, moves, err := parsePosition(q.Position)
	if err != nil {
		return err
	}
	ctx, end, err := h.begin(w, r, h.config.Limits.Time)
	if err != nil {
		return err
	}
	defer end()
	batch := eval.NewBatch(b, len(moves)+1)
	var p game.Position
	for i, a := range moves {
		batch.Pos[i], p = p, b.Play(p, a)
	}
	batch.Pos[len(moves)] = p
	if err := h.config.Evaluator.Evaluate(ctx, batch); err != nil {
		return h.why(err)
	}
	values := make([]valued, len(batch.Pos))
	for i := range values {
		values[i] = valued{batch.Value(i), batch.Source[i] == eval.Rules || batch.Source[i] == eval.Terminal}
		if i%2 == 1 { // the other side is to move
			values[i].Value = -values[i].Value
		}
	}
	return answer(w, struct {
		Values []valued `json:"values"`
	}{values})
}
