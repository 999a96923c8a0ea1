package game_test

import (
	"testing"

	"github.com/evald/evald/engine/game"
)

// On every board that there is, ColumnRow undoes Index and FlatIndex undoes Flat; no two cells share a number, and all
// numbers are those of cells.
func TestCellNumbers(t *testing.T) {
	boards := 0
	for rows := 1; rows < game.MaxBits; rows++ {
		for columns := 1; (rows+1)*columns <= game.MaxBits; columns++ {
			b := game.MustBoard(game.Rules{Rows: rows, Columns: columns, InARow: 4, Gravity: columns%2 == 0})
			var cells game.Bits
			flat := 0
			for row := rows - 1; row >= 0; row-- {
				for column := range columns {
					i := b.Index(column, row)
					if c, r := b.ColumnRow(i); c != column || r != row {
						t.Fatalf("%v: bit %d is at column %d, row %d; want %d, %d", b.Rules(), i, c, r, column, row)
					}
					if b.Flat(i) != flat || b.FlatIndex(flat) != i {
						t.Fatalf("%v: bit %d is cell %d, whose bit is %d; want cell %d", b.Rules(), i, b.Flat(i), b.FlatIndex(flat), flat)
					}
					if cells.Has(i) {
						t.Fatalf("%v: bit %d is two cells", b.Rules(), i)
					}
					cells = cells.Or(game.Bits{Lo: 1}.Shl(uint(i)))
					flat++
				}
			}
			if cells != b.Full() {
				t.Fatalf("%v: bits %x are cells, want %x", b.Rules(), cells, b.Full())
			}
			boards++
		}
	}
	if boards < 400 {
		t.Errorf("only %d boards", boards)
	}
}
