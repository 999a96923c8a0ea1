//go:build !js

package play

import (
	"fmt"
	"strings"

	"github.com/evald/evald/engine/game"
)

// status returns a line with the side to move, or the result of the game.
func (m *model) status() string {
	s, side := m.session, m.session.Side()
	if text := s.outcome(); text != "" {
		return text + "; N begins a new game"
	}
	letter, player := letters[side:side+1], m.player(side)
	switch {
	case player.Agent == nil:
		return fmt.Sprintf("%s to move: %s", letter, player.Name)
	case s.paused:
		return fmt.Sprintf("%s waits: %s; space lets it move", letter, player.Name)
	}
	return fmt.Sprintf("%s thinks: %s", letter, player.Name)
}

// outcome returns the result of the game as text, or "" if it is not over.
func (s *Session) outcome() string {
	switch s.Result() {
	case game.Draw:
		return "draw"
	case game.Loss:
		return letters[1-s.Side():2-s.Side()] + " wins"
	}
	return ""
}

// valueText returns the value of the position for the side to move as text.
func (r *Report) valueText() string {
	if r.Result != game.Ongoing {
		return "(proved: " + r.Result.String() + ")"
	}
	return "(value " + hundredths(r.Value) + ")"
}

// searchText describes the source of the values under the board.
func (m *model) searchText() string {
	switch {
	case !m.evaluate && !m.hint || m.session.over():
		return ""
	case m.report == nil:
		return "search  .."
	case m.report.Err != nil:
		return "search  " + m.report.Err.Error()
	}
	side := m.session.Side()
	text := fmt.Sprintf("search  %s visits, %s, for %s %s", count(m.report.Visits), m.config.Search, letters[side:side+1], m.report.valueText())
	if m.report.Finished {
		text += ", done"
	}
	return text
}

// solverText describes the solver's progress.
func (m *model) solverText() string {
	switch e := m.exact; {
	case m.solving == nil:
		return ""
	case e == nil:
		return "exact   .."
	case e.Err != nil:
		return "exact   " + e.Err.Error()
	case e.Finished:
		return fmt.Sprintf("exact   %d moves solved, the best %s: %s for %c",
			e.Solved, Name(m.config.Board, e.best()), scoreCell(e.Scores[e.best()]).text, letters[m.session.Side()])
	default:
		text := fmt.Sprintf("exact   %d of %d moves", e.Solved, e.Legal)
		if p := e.Progress; p.Nodes > 0 {
			// The progress is about the position after the move, for the other side.
			text += fmt.Sprintf("; %s is %+d to %+d, %s nodes", Name(m.config.Board, e.Action), -p.Upper, -p.Lower, count(int(p.Nodes)))
		}
		return text + "; S stops"
	}
}

// movesText returns the game in evald's notation, or only the end of a long game.
func (m *model) movesText() string {
	const label = "moves   "
	text := game.FormatNotation(m.config.Board.Rules(), m.session.Moves())
	if most := m.width - len(label); len(text) > most {
		text = ".." + text[len(text)-max(0, most-2):]
	}
	return label + text
}

// keys lists the commands that fit into the width. On boards with a move "e" the command for the evaluation is a capital E.
func (m *model) keys() string {
	text := ""
	for _, k := range []string{"? help", "q quit", "u undo", "r redo", "h hint", "e evaluation", "s solve", "n new", "x swap"} {
		if Action(m.config.Board, k[:1]) >= 0 {
			k = strings.ToUpper(k[:1]) + k[1:]
		}
		if max(2, len(text))+len(k) > m.width {
			break
		}
		text += "  " + k
	}
	return strings.TrimPrefix(text, "  ")
}

// count formats a number with three significant digits: 831, 12.3 k, 4.56 M.
func count(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	x, unit := float64(n)/1e3, 0
	for ; x >= 999.5 && unit < len("kMGT")-1; unit++ {
		x /= 1e3
	}
	return fmt.Sprintf("%.3g %c", x, "kMGT"[unit])
}
