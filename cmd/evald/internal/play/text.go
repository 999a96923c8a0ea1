package play

import (
	"fmt"
	"strings"

	"github.com/evald/evald/engine/game"
)

// status says whose turn it is, or how the game ended.
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

// outcome says how the game ended, or is empty.
func (s *Session) outcome() string {
	switch s.Result() {
	case game.Draw:
		return "draw"
	case game.Loss:
		return letters[1-s.Side():2-s.Side()] + " wins"
	}
	return ""
}

// hintText is the search's best move and the line that it expects.
func (m *model) hintText() string {
	if !m.hint {
		return ""
	}
	if m.report == nil || m.report.Best < 0 {
		return "hint  .."
	}
	return "hint  " + m.report.advice(m.config.Board)
}

// advice is the best move and the principal variation.
func (r *Report) advice(b *game.Board) string {
	text := fmt.Sprintf("%s %s", Name(b, r.Best), r.valueText())
	if len(r.Line) > 0 {
		text += ", expected " + game.FormatMoves(b.Rules(), r.Line)
	}
	return text
}

// valueText is the value of the position for the side to move.
func (r *Report) valueText() string {
	if r.Result != game.Ongoing {
		return "(proved: " + r.Result.String() + ")"
	}
	return "(value " + hundredths(r.Value) + ")"
}

// searchText says where the values under the board come from.
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

// solverText says how far the solver has come.
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
			// The progress is that of the position after the move, for the other side.
			text += fmt.Sprintf("; %s is %+d to %+d, %s nodes", Name(m.config.Board, e.Action), -p.Upper, -p.Lower, count(int(p.Nodes)))
		}
		return text + "; S stops"
	}
}

// movesText is the game in evald's notation; of a long game only its end.
func (m *model) movesText() string {
	const label = "moves   "
	text := game.FormatNotation(m.config.Board.Rules(), m.session.Moves())
	if most := m.width - len(label); len(text) > most {
		text = ".." + text[len(text)-max(0, most-2):]
	}
	return label + text
}

// keys lists as many commands as fit in the width. On boards with a move "e" the command for the evaluation is a capital E.
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

func (m *model) helpText() string {
	b := m.config.Board
	drop := fmt.Sprintf("%s to %s", Name(b, 0), Name(b, b.Actions()-1))
	if len(Name(b, b.Actions()-1)) > 1 {
		drop = "arrows"
	}
	return fmt.Sprintf(`%-12s play there; or arrows and enter
U            take back your move and the reply
R            make it again
H            the best move by the search, and what follows
E            the search's evaluation of each move
S            the exact score of each move; again: stop
X            swap sides
N            new game
space        let an agent wait, or go on
Q, ctrl+c    quit

Small letters do as well where they name no move.

value    for the side to move: +100 wins, -100 loses;
         win, draw and loss are proved
visits   how often the search tried the move
exact    0 draws; a win scores more the sooner it comes
(X) [X]  the last move; a winning line; x where there is no room

any key goes back`, drop)
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
