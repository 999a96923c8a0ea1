package web

import (
	"net/http"

	"github.com/evald/evald/cmd/evald/internal/pasted"
)

// serveRead answers with the address of a game or position that a visitor has typed or pasted into
// a field.
func (h *Handler) serveRead(w http.ResponseWriter, r *http.Request) error {
	var q struct {
		Text string `json:"text"` // in any form that package pasted reads
	}
	if r.ContentLength >= 0 && r.ContentLength <= maxBody {
		if err := readUpTo(w, r, &q, maxBody); err != nil {
			return err
		}
	} else { // a replay
		_, end, err := h.beginReview(w, r, &q)
		if err != nil {
			return err
		}
		defer end()
	}
	g, err := pasted.Read(q.Text)
	if err != nil {
		return bad("text", "%v", err)
	}
	return answer(w, struct {
		Position string `json:"position"` // rules and moves
		Ordered  bool   `json:"ordered"`  // whether the text has the order of the moves; a board has none
	}{canonical(g.Board, g.Moves), g.Ordered})
}
