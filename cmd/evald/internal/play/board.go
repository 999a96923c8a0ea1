//go:build !js

package play

import (
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/evald/evald/engine/game"
)

// cell is one cell of the drawn board, or a note under a column. Its text contains the same information as its colour.
type cell struct {
	text   string // at most 4 characters
	short  string // one character, for cells one or two characters wide, or if text does not fit
	style  lipgloss.Style
	cursor bool
}

var (
	faint = lipgloss.NewStyle().Faint(true)
	bold  = lipgloss.NewStyle().Bold(true)
	discs = [2]lipgloss.Style{ // by side
		bold.Foreground(lipgloss.BrightWhite).Background(lipgloss.Red),
		bold.Foreground(lipgloss.Black).Background(lipgloss.Yellow),
	}
	winner = bold.Foreground(lipgloss.Black).Background(lipgloss.Green)
)

// letters are the sides' stones.
const letters = "XO"

// cells returns the board, the highest row first. A stone is " X ", the last move "(X)", a stone of a winning line "[X]". In narrow cells
// "x" stands for the last two.
func (s *Session) cells() [][]cell {
	won := s.Winning()
	rows := make([][]cell, s.board.Rows())
	for i := range rows {
		for c := range s.board.Columns() {
			at := s.board.Index(c, s.board.Rows()-1-i)
			rows[i] = append(rows[i], stone(s.now, at, won.Has(at), s.last == at))
		}
	}
	return rows
}

// stone returns the cell of bit i of p.
func stone(p game.Position, i int, won, last bool) cell {
	if !p.All.Has(i) {
		return cell{text: ".", short: ".", style: faint}
	}
	side := p.Plies() % 2
	if !p.Own.Has(i) {
		side = 1 - side
	}
	c := cell{short: letters[side : side+1], style: discs[side]}
	switch {
	case won:
		c.text, c.short, c.style = "["+c.short+"]", strings.ToLower(c.short), winner
	case last:
		c.text, c.short = "("+c.short+")", strings.ToLower(c.short)
	default:
		c.text = " " + c.short + " "
	}
	return c
}

// render draws the cell in the given number of characters.
func (c cell) render(width int) string {
	if c.cursor {
		if width >= 3 {
			return ">" + cell{text: c.text, short: c.short, style: c.style}.render(width-2) + "<"
		}
		c.style = c.style.Reverse(true)
	}
	n := len([]rune(c.text))
	if n > width || width < 3 {
		c.text, n = c.short, len([]rune(c.short))
	}
	left := (width - n + 1) / 2 // so that a leading sign is left of the centre
	return strings.Repeat(" ", left) + c.style.Render(c.text) + strings.Repeat(" ", width-n-left)
}

func renderAll(cells []cell, width int) string {
	var s strings.Builder
	for _, c := range cells {
		s.WriteString(c.render(width))
	}
	return s.String()
}
