//go:build !js

package play

import (
	"fmt"
	"strings"
)

// helpText explains the keys and the screen.
func (m *model) helpText() string {
	b := m.config.Board
	drop := fmt.Sprintf("%s to %s", Name(b, 0), Name(b, b.Actions()-1))
	if len(Name(b, b.Actions()-1)) > 1 {
		drop = "arrows"
	}
	return fmt.Sprintf(`%-12s play there; or arrows and enter
U            %s
R            make it again
H            the best move, and what follows: exact if
             S has solved all moves, else the search's
E            the search's evaluation of each move
S            the exact score of each move; again: stop
X            swap sides
N            new game
space        let an agent wait, or go on
Q, ctrl+c    quit; the moves stay on the terminal

Small letters do as well where they name no move.

value    for the side to move: +100 wins, -100 loses;
         win, draw and loss are proved
visits   how often the search tried the move
exact    0 draws; a faster win scores higher
(X) [X]  the last move; a winning line; x where there is no room`, drop, m.session.undoText())
}

// helpPage returns the part of the help that fits on the screen, from line helpFrom on. If the screen has at least two lines, the last one
// says how to scroll and how to leave.
func (m *model) helpPage() string {
	all := wrap(m.helpText(), m.width)
	const leave = "any key goes back"
	if foot := append([]string{""}, wrap(leave, m.width)...); len(all)+len(foot) <= m.height {
		return strings.Join(append(all, foot...), "\n")
	}
	room := m.helpRoom()
	last := min(m.helpFrom+room, len(all))
	foot := fmt.Sprintf("%d-%d of %d; down, up; others go back", m.helpFrom+1, last, len(all))
	if len(foot) > m.width {
		foot = wrap(fmt.Sprintf("%d/%d down up", last, len(all)), m.width)[0]
	}
	page := all[m.helpFrom:last]
	if m.height > 1 {
		page = append(page[:len(page):len(page)], bold.Render(foot))
	}
	return strings.Join(page, "\n")
}

// helpRoom returns the number of lines of the help that are shown at once if it is longer than the screen.
func (m *model) helpRoom() int { return max(1, m.height-1) }

// scrollHelp handles a key while the help is shown. It reports whether the help stays: other keys than those that scroll close it.
func (m *model) scrollHelp(key string) (stays bool) {
	room := m.helpRoom()
	step := map[string]int{"down": 1, "up": -1, "pgdown": room, "space": room, "pgup": -room}[key]
	lines := len(wrap(m.helpText(), m.width))
	if step == 0 || lines+2 <= m.height {
		return false
	}
	m.helpFrom = max(0, min(m.helpFrom+step, lines-room))
	return true
}

// wrap breaks lines that are wider than width between words, or within a word that alone is wider. The continuation of a line begins under
// its second column, if it has one and there is room.
func wrap(text string, width int) (lines []string) {
	width = max(1, width)
	for line := range strings.SplitSeq(text, "\n") {
		indent := ""
		if i := strings.LastIndex(line, "  ") + 2; i > 1 && i <= width/2 {
			indent = strings.Repeat(" ", i)
		}
		for len([]rune(line)) > width {
			runes := []rune(line)
			end := width
			for end > len(indent) && runes[end] != ' ' {
				end--
			}
			if end <= len(indent) || strings.TrimSpace(string(runes[:end])) == "" {
				end = width
			}
			lines = append(lines, strings.TrimRight(string(runes[:end]), " "))
			line = indent + strings.TrimLeft(string(runes[end:]), " ")
		}
		lines = append(lines, line)
	}
	return lines
}
