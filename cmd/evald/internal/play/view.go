//go:build !js

package play

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/solver"
)

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(lipgloss.NewStyle().MaxWidth(m.width).MaxHeight(m.height).Render(m.screen()))
	v.AltScreen = true
	v.WindowTitle = "evald play"
	return v
}

// part is some lines of the screen. If the screen has too few lines, the part with the lowest goes above 0 is left out first.
type part struct {
	goes  int // 0: is never left out
	lines []string
}

func (m *model) screen() string {
	if m.help {
		return m.helpPage()
	}
	width, margin, apart := m.layout()
	if width == 0 {
		return m.tooSmall(m.config.Board.Columns()+3, m.config.Board.Rows()+2)
	}
	parts := m.parts(width, margin, apart)
	for len(lines(parts)) > m.height {
		lowest := -1
		for i, p := range parts {
			if p.goes > 0 && (lowest < 0 || p.goes < parts[lowest].goes) {
				lowest = i
			}
		}
		if lowest < 0 {
			return m.tooSmall(m.config.Board.Columns()+3, len(lines(parts)))
		}
		parts = slices.Delete(parts, lowest, lowest+1)
	}
	return strings.Join(lines(parts), "\n")
}

func lines(parts []part) (all []string) {
	for _, p := range parts {
		all = append(all, p.lines...)
	}
	return all
}

func (m *model) tooSmall(width, height int) string {
	return fmt.Sprintf("too small:\n%d x %d for\n%v\nq quits", width, height, m.config.Board.Rules())
}

// layout returns the width of a cell and of the margin to the left of the board, in characters; width is 0 if nothing fits. apart says that
// the values of the moves of a board without gravity are shown beside the board, not in its cells.
func (m *model) layout() (width, margin int, apart bool) {
	labels, columns := len("visits  "), m.config.Board.Columns()
	if !m.config.Board.Rules().Gravity {
		labels = 1
		for _, width := range []int{5, 3} {
			if 1+2*(columns*width+2)+1 <= m.width {
				return width, 1, true
			}
		}
	}
	for _, width := range []int{5, 3, 2, 1} {
		for _, margin := range []int{labels, 1} {
			if margin+columns*width+2 <= m.width {
				return width, margin, false
			}
		}
	}
	return 0, 0, false
}

func (m *model) parts(width, margin int, apart bool) []part {
	left := strings.Repeat(" ", margin)
	labelled := func(label string, cells []cell) string {
		if len(label) > margin {
			label = ""
		}
		return faint.Render(fmt.Sprintf("%-*s", margin, label)) + " " + renderAll(cells, width)
	}
	gravity := m.config.Board.Rules().Gravity
	parts := []part{{3, []string{m.title(), ""}}}
	if gravity {
		parts = append(parts, part{6, []string{labelled("", m.pointer())}})
	}
	framed := func(cells []cell) string { return faint.Render("│") + renderAll(cells, width) + faint.Render("│") }
	var board []string
	for _, cells := range m.cells(apart) {
		board = append(board, left+framed(cells))
	}
	floor := left + faint.Render("└"+strings.Repeat("─", width*m.config.Board.Columns())+"┘")
	if label, values := m.values(); apart && label != "" {
		i := 0
		for cells := range slices.Chunk(values, m.config.Board.Columns()) {
			board[i] += " " + framed(cells)
			i++
		}
		floor += faint.Render("  " + label)
	}
	parts = append(parts, part{0, board}, part{2, []string{floor}})
	if gravity {
		parts = append(parts, part{0, []string{labelled("", m.names())}})
		if m.evaluate && !m.session.over() {
			values, bars := m.evaluations()
			parts = append(parts, part{8, []string{labelled("value", values)}}, part{4, []string{labelled("visits", bars)}})
		}
		if m.exact != nil {
			parts = append(parts, part{9, []string{labelled("exact", m.scores())}})
		}
	}
	parts = append(parts, part{1, []string{""}}, part{0, []string{bold.Render(m.status())}})
	if m.message != "" {
		parts = append(parts, part{0, []string{m.message}})
	}
	for _, p := range []struct {
		goes int
		text string
	}{{7, m.hintText()}, {4, m.searchText()}, {5, m.solverText()}, {5, m.movesText()}} {
		if p.text != "" {
			parts = append(parts, part{p.goes, []string{p.text}})
		}
	}
	return append(parts, part{2, []string{"", faint.Render(m.keys())}})
}

func (m *model) title() string {
	s := bold.Render(m.config.Board.Rules().String())
	for side := range 2 {
		s += "   " + discs[side].Render(" "+letters[side:side+1]+" ") + " " + m.player(side).Name
	}
	return s
}

func (m *model) player(side int) Player { return m.config.Players[m.session.seat[side]] }

// humanTurn reports whether the game waits for a person's move.
func (m *model) humanTurn() bool { return m.session.humanToMove() && !m.session.over() }

// pointer returns the line above the board that shows the cursor.
func (m *model) pointer() []cell {
	cells := make([]cell, m.config.Board.Columns())
	if m.humanTurn() {
		cells[m.column] = cell{text: " v ", short: "v", style: discs[m.session.Side()]}
	}
	return cells
}

func (m *model) names() []cell {
	cells := make([]cell, m.config.Board.Columns())
	for a := range cells {
		name := Name(m.config.Board, a)
		cells[a] = cell{text: name, short: name[len(name)-1:], style: bold}
		if m.hinted() == a {
			cells[a].text, cells[a].style = "*"+name+"*", winner
		}
	}
	return cells
}

// cells returns the board. Without gravity it contains the cursor and the hint, and the values of the moves or, if the values are apart, on
// small boards the names of the moves.
func (m *model) cells(apart bool) [][]cell {
	rows := m.session.cells()
	if m.config.Board.Rules().Gravity {
		return rows
	}
	_, values := m.values()
	for i := range rows {
		for c := range rows[i] {
			a, to := i*len(rows[i])+c, &rows[i][c]
			if apart && m.config.Board.Actions() <= 9 && m.session.board.CanPlay(m.session.now, a) {
				to.text, to.short = Name(m.config.Board, a), Name(m.config.Board, a) // the name to type
			}
			if !apart && values != nil && values[a].text != "" {
				*to = values[a]
				to.style = faint
			}
			if m.hinted() == a && m.session.board.CanPlay(m.session.now, a) {
				to.text, to.short, to.style = "*", "*", winner
			}
		}
	}
	rows[m.row][m.column].cursor = m.humanTurn()
	return rows
}

// values returns a cell for each action and their label: the exact scores, or else the search's values.
func (m *model) values() (label string, cells []cell) {
	switch {
	case m.exact != nil:
		label, cells = "exact", m.scores()
	case m.evaluate && !m.session.over():
		label = "value"
		cells, _ = m.evaluations()
	}
	for a := range cells {
		if !m.session.board.CanPlay(m.session.now, a) {
			cells[a] = cell{}
		}
	}
	return label, cells
}

// evaluations returns, for each action, the value of its move and a bar of its share of the visits.
func (m *model) evaluations() (values, bars []cell) {
	n := m.config.Board.Actions()
	values, bars = make([]cell, n), make([]cell, n)
	if m.report == nil {
		return values, bars
	}
	most := 1
	for _, move := range m.report.Moves {
		most = max(most, move.Visits)
	}
	for a, move := range m.report.Moves {
		values[a] = valueCell(move)
		if m.report.Best == a {
			values[a].style = bold
		}
		if move.Visits > 0 {
			eighth := []rune("▁▂▃▄▅▆▇█")[(8*move.Visits-1)/most]
			bars[a] = cell{text: strings.Repeat(string(eighth), 3), short: string(eighth)}
		}
	}
	return values, bars
}

// valueCell returns the proved result of a move, or its value in hundredths.
func valueCell(move mcts.Move) cell {
	switch move.Result {
	case game.Win:
		return cell{text: "win ", short: "W"} // padded, so that all three words are shortened or none
	case game.Draw:
		return cell{text: "draw", short: "D"}
	case game.Loss:
		return cell{text: "loss", short: "L"}
	}
	if move.Visits == 0 {
		return cell{}
	}
	return cell{text: hundredths(move.Q), short: sign(move.Q, 0.1, "-=+")}
}

// hundredths formats a value in -1..1: +44, 0, -7. It never shows 100, which stands for a proved win.
func hundredths(value float64) string {
	return signed(min(max(int(math.Round(100*value)), -99), 99))
}

// signed formats a number with its sign, and 0 without.
func signed(n int) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%+d", n)
}

// sign returns the first byte of signs if x is less than -most, the third if x is more than most, else the second.
func sign(x, most float64, signs string) string {
	i := 1 + (cmp.Compare(x, most)+cmp.Compare(x, -most))/2
	return signs[i : i+1]
}

func scoreCell(score int) cell {
	return cell{text: signed(score), short: sign(float64(score), 0, "LDW")}
}

func (m *model) scores() []cell {
	cells := make([]cell, m.config.Board.Actions())
	for a, score := range m.exact.Scores {
		switch {
		case score != solver.NoMove:
			cells[a] = scoreCell(score)
			if m.exact.Finished && score == m.exact.Scores[m.exact.best()] {
				cells[a].style = bold
			}
		case !m.exact.Finished && a == m.exact.Action:
			cells[a] = cell{text: "..", short: "."}
		}
	}
	return cells
}
