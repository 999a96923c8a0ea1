package diagram

import "strings"

// Text returns the board as characters, and the title below it. X is a stone of the first player, (X) the last move, [X] a stone of a winning
// line.
func (d *Diagram) Text() string {
	_, last := d.order()
	won := d.winning()
	var out strings.Builder
	for row := d.Board.Rows() - 1; row >= 0; row-- {
		for column := range d.Board.Columns() {
			at := d.Board.Index(column, row)
			side, ok := d.stone(at)
			around := "  "
			switch {
			case !ok:
				out.WriteString(" . ")
				continue
			case won.Has(at):
				around = "[]"
			case at == last:
				around = "()"
			}
			out.WriteString(around[:1] + "XO"[side:side+1] + around[1:])
		}
		out.WriteByte('\n')
	}
	if d.labelled() {
		for column := range d.Board.Columns() {
			out.WriteString(" " + digits[column:column+1] + " ")
		}
		out.WriteByte('\n')
	}
	return out.String() + d.title([2]string{"X", "O"}) + "\n"
}
