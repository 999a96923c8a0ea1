package kaggle

import (
	"fmt"
	"strconv"

	"github.com/evald/evald/engine/game"
)

// large is a position on a board that game.Board cannot hold, as an array of cells. Kaggle's
// referee plays on boards of any size.
type large struct {
	game.Rules
	cells []int // row by row from the top left: 0 empty, 1 and 2 the players
	mark  int   // the player to move
}

// newLarge checks a board as game.Board.FromKaggle does. prefix is the path of the observation's
// fields, for errors. odd is an error if no game reaches the position.
func newLarge(prefix string, r game.Rules, cells []int, mark int) (l *large, odd, err error) {
	l = &large{r, cells, mark}
	columns, rows := r.Columns, r.Rows
	if len(cells)%columns != 0 || len(cells)/columns != rows {
		return nil, nil, wrong(prefix+"board", fmt.Sprint(len(cells), " cells"), fmt.Sprintf("%v has %d columns of %d; rows and columns name another board", r, columns, rows))
	}
	if mark != 1 && mark != 2 {
		return nil, nil, wrong(prefix+"mark", strconv.Itoa(mark), "must be 1 or 2")
	}
	var stones [3]int
	for i, v := range cells {
		field := fmt.Sprintf("%sboard[%d]", prefix, i)
		if v < 0 || v > 2 {
			return nil, nil, wrong(field, strconv.Itoa(v), "must be 0, 1 or 2")
		}
		if below := i + columns; v != 0 && below < len(cells) && cells[below] == 0 {
			return nil, nil, wrong(field, strconv.Itoa(v), fmt.Sprintf("floats: the cell below it, %d, is empty", below))
		}
		stones[v]++
	}
	for i, v := range cells {
		if v != 0 && l.completes(i%columns, i/columns, v) {
			return nil, nil, wrong(prefix+"board", map[bool]string{true: "win", false: "loss"}[v == mark], over)
		}
	}
	if stones[0] == 0 {
		return nil, nil, wrong(prefix+"board", game.Draw.String(), over)
	}
	if stones[1]-stones[2] != mark-1 {
		odd = wrong(prefix+"board", r.String(), fmt.Sprintf("%d stones of player 1, %d of player 2, and player %d is to move: no game reaches this", stones[1], stones[2], mark))
	}
	return l, odd, nil
}

// top returns the row in which a stone in the column lands, from the top; -1 if the column is full.
func (l *large) top(column int) int {
	row := -1
	for row+1 < l.Rows && l.cells[(row+1)*l.Columns+column] == 0 {
		row++
	}
	return row
}

// completes reports whether a stone of the player in a cell is or would be part of a line. Rows
// count from the top. A row of -1 is no cell.
func (l *large) completes(column, row, player int) bool {
	if row < 0 {
		return false
	}
	run := func(right, down int) (n int) {
		for c, r := column+right, row+down; c >= 0 && c < l.Columns && r >= 0 && r < l.Rows && l.cells[r*l.Columns+c] == player; c, r = c+right, r+down {
			n++
		}
		return n
	}
	for _, d := range [][2]int{{1, 0}, {0, 1}, {1, 1}, {1, -1}} {
		if run(d[0], d[1])+1+run(-d[0], -d[1]) >= l.InARow {
			return true
		}
	}
	return false
}

// move returns a column by rules of thumb: it wins at once, else it prevents the other side from
// winning with its next stone, else it does not put a stone below a cell in which the other side
// wins. Of the columns left it chooses the one nearest to the centre.
func (l *large) move() int {
	var legal, wins, blocks, safe []int
	for c := range l.Columns {
		row := l.top(c)
		if row < 0 {
			continue
		}
		legal = append(legal, c)
		if l.completes(c, row, l.mark) {
			wins = append(wins, c)
		}
		if l.completes(c, row, 3-l.mark) {
			blocks = append(blocks, c)
		}
		if !l.completes(c, row-1, 3-l.mark) {
			safe = append(safe, c)
		}
	}
	switch {
	case len(wins) > 0:
		return l.central(wins)
	case len(blocks) > 0:
		return l.central(blocks)
	case len(safe) > 0:
		return l.central(safe)
	}
	return l.central(legal)
}

// central returns the column nearest to the centre, the left one of two.
func (l *large) central(columns []int) (best int) {
	far := func(c int) int { return max(2*c-l.Columns+1, l.Columns-1-2*c) }
	best = columns[0]
	for _, c := range columns {
		if far(c) < far(best) {
			best = c
		}
	}
	return best
}
