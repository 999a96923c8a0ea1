//go:build !js

package play

import (
	"fmt"
	"slices"

	"github.com/evald/evald/engine/game"
)

// A hint is the exact best move if all moves of the position are solved, else the search's best move. Its text says which of the two it is.

// solution has the exact scores of all moves of a position, for the side to move.
type solution struct {
	position game.Position
	scores   []int // [A] by action; solver.NoMove if illegal
}

// solution returns the scores if all moves of p, the position of e, are solved, else nil.
func (e *Exact) solution(p game.Position) *solution {
	if e.Err != nil || e.Solved < e.Legal {
		return nil
	}
	return &solution{p, slices.Clone(e.Scores)}
}

// of reports whether s is the solution of p. A nil solution is of no position.
func (s *solution) of(p game.Position) bool { return s != nil && s.position == p }

// best returns a move with the highest score: the search's choice if it is one, else the leftmost. r may be nil.
func (s *solution) best(r *Report) int {
	most := slices.Max(s.scores)
	if r != nil && r.Best >= 0 && s.scores[r.Best] == most {
		return r.Best
	}
	return slices.Index(s.scores, most)
}

// advice returns the best move and its exact score, with the search's principal variation if that begins with this move.
func (s *solution) advice(b *game.Board, r *Report) string {
	best := s.best(r)
	text := fmt.Sprintf("%s (exact: %s)", Name(b, best), scoreCell(s.scores[best]).text)
	if r != nil && len(r.Line) > 0 && r.Line[0] == best {
		text += r.expected(b)
	}
	return text
}

// advice returns the search's best move and its principal variation.
func (r *Report) advice(b *game.Board) string {
	kind := "search: value " + hundredths(r.Value)
	if r.Result != game.Ongoing {
		kind = "search, proved: " + r.Result.String()
	}
	return fmt.Sprintf("%s (%s)%s", Name(b, r.Best), kind, r.expected(b))
}

// expected returns the principal variation as text, or "".
func (r *Report) expected(b *game.Board) string {
	if len(r.Line) == 0 {
		return ""
	}
	return ", expected " + game.FormatMoves(b.Rules(), r.Line)
}

// hinted returns the move of the hint, or -1 if no hint is shown.
func (m *model) hinted() int {
	switch {
	case !m.hint:
		return -1
	case m.solution.of(m.session.now):
		return m.solution.best(m.report)
	case m.report == nil:
		return -1
	}
	return m.report.Best
}

// hintText returns the line with the hint, or "" if no hint is wanted.
func (m *model) hintText() string {
	switch {
	case !m.hint:
		return ""
	case m.solution.of(m.session.now):
		return "hint  " + m.solution.advice(m.config.Board, m.report)
	case m.hinted() < 0:
		return "hint  .."
	}
	return "hint  " + m.report.advice(m.config.Board)
}

// known returns the exact scores of the current position if it was solved before, else nil.
func (m *model) known() []int {
	if !m.solution.of(m.session.now) {
		return nil
	}
	return m.solution.scores
}
