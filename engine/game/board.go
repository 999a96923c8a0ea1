package game

import "math/bits"

// Board is Rules prepared for play: the masks and shifts for moves and win tests. It is immutable and safe to share. Two boards with equal
// Rules are the same game.
//
// The layout is column-major with one guard bit, always empty, on top of each column. On 7x6:
//
//	6 13 20 27 34 41 48   <- guard bits
//	5 12 19 26 33 40 47
//	4 11 18 25 32 39 46
//	3 10 17 24 31 38 45
//	2  9 16 23 30 37 44
//	1  8 15 22 29 36 43
//	0  7 14 21 28 35 42   <- row 0
//
// The guard bit prevents a run of stones from continuing at the bottom of the next column. So one shift for each direction finds every
// line: 1 (up), Rows+1 (right), Rows (right and down), Rows+2 (right and up).
type Board struct {
	rules  Rules
	wide   bool    // needs more than 64 bits
	four   bool    // InARow == 4 on at most 64 bits: the fast win test
	stride uint    // Rows + 1
	shifts [4]uint // up, right, right-down, right-up

	full   Bits // every cell
	bottom Bits // the lowest cell of each column
	column Bits // the leftmost column
	ground Bits // the cells in which a stone needs none below it: bottom, or all cells without gravity

	// For action a, cells[a] is the set of cells in which its stone may land: a column, or one cell without gravity. drop[a] is the lowest
	// cell of the column; it is unused without gravity. The arrays of the 64-bit path have 64 elements: an index masked to 6 bits is always
	// in range, so the compiler omits the bounds check.
	cells   []Bits
	drop    []Bits
	cells64 [64]uint64
	drop64  [64]uint64

	actionOf [MaxBits]int8 // cell -> the action that reaches it

	// Mirroring first rounds the number of columns up to a power of two. It swaps the halves of the columns, then the quarters within each
	// half, and so on. Then it shifts the extra columns out: mirrorPad bits. swaps is empty if the rounded number of columns does not fit
	// 64 bits.
	swaps     []swap
	mirrorPad uint
}

type swap struct {
	shift uint
	mask  uint64 // the columns that move down by shift, at their positions after the move
}

// NewBoard prepares rules for play. The error names the field that is out of range.
func NewBoard(r Rules) (*Board, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	h := r.Rows + 1
	b := &Board{
		rules:  r,
		wide:   h*r.Columns > 64,
		stride: uint(h),
		shifts: [4]uint{1, uint(h), uint(r.Rows), uint(h + 1)},
	}
	b.four = !b.wide && r.InARow == 4 && 2*(h+1) < 64 // won4 masks its shifts to 6 bits
	for c := range r.Columns {
		b.bottom = b.bottom.Or(bit(c * h))
		for row := range r.Rows {
			b.full = b.full.Or(bit(c*h + row))
			if c == 0 {
				b.column = b.full
			}
		}
	}
	if b.ground = b.bottom; !r.Gravity {
		b.ground = b.full
	}
	b.cells = make([]Bits, r.Actions())
	b.drop = make([]Bits, r.Actions())
	for c := range r.Columns {
		for row := range r.Rows {
			a := b.CellAction(c, row)
			b.cells[a] = b.cells[a].Or(bit(c*h + row))
			b.actionOf[c*h+row] = int8(a)
		}
	}
	if r.Gravity {
		for c := range r.Columns {
			b.drop[c] = bit(c * h)
		}
	}
	if !b.wide {
		for a := range b.cells {
			b.cells64[a], b.drop64[a] = b.cells[a].Lo, b.drop[a].Lo
		}
	}
	b.planMirror()
	return b, nil
}

// MustBoard is NewBoard for rules that are known to be valid. It panics if they are not.
func MustBoard(r Rules) *Board {
	b, err := NewBoard(r)
	if err != nil {
		panic(err)
	}
	return b
}

// planMirror fills swaps if the columns, rounded up to a power of two, fit 64 bits.
func (b *Board) planMirror() {
	slots := 1 << bits.Len(uint(b.rules.Columns-1))
	if slots*int(b.stride) > 64 {
		return
	}
	b.mirrorPad = uint(slots-b.rules.Columns) * b.stride
	for half := slots / 2; half >= 1; half /= 2 {
		s := swap{shift: uint(half) * b.stride}
		for c := range slots {
			if c&half == 0 {
				s.mask |= (1<<b.stride - 1) << (uint(c) * b.stride)
			}
		}
		b.swaps = append(b.swaps, s)
	}
}

// Rules are the rules that the board was made from.
func (b *Board) Rules() Rules { return b.rules }

// Rows, Columns, InARow, Cells and Actions are those of the rules.
func (b *Board) Rows() int    { return b.rules.Rows }
func (b *Board) Columns() int { return b.rules.Columns }
func (b *Board) InARow() int  { return b.rules.InARow }
func (b *Board) Cells() int   { return b.rules.Cells() }
func (b *Board) Actions() int { return len(b.cells) }

// Wide reports whether positions need more than 64 bits.
func (b *Board) Wide() bool { return b.wide }

// Full is the set of all cells.
func (b *Board) Full() Bits { return b.full }

// Shifts are the distances in bits between neighbours: up, right, right-down, right-up.
func (b *Board) Shifts() [4]uint { return b.shifts }

// Index is the bit of the cell in a column (0 at the left) and row (0 at the bottom).
func (b *Board) Index(column, row int) int { return column*int(b.stride) + row }

// ColumnRow is the inverse of Index: the column and row of the cell that is bit i.
func (b *Board) ColumnRow(i int) (column, row int) { return i / int(b.stride), i % int(b.stride) }

// Flat is the number of bit i's cell on a flat board: row by row from the top left, counted from 0, as on Kaggle's boards and in networks'
// planes.
func (b *Board) Flat(i int) int {
	column, row := b.ColumnRow(i)
	return (b.rules.Rows-1-row)*b.rules.Columns + column
}

// FlatIndex is the inverse of Flat.
func (b *Board) FlatIndex(cell int) int {
	row := cell / b.rules.Columns // from the top
	return b.Index(cell-row*b.rules.Columns, b.rules.Rows-1-row)
}

// CellAction is the action that puts a stone into a cell: its column or, without gravity, its number on a flat board.
func (b *Board) CellAction(column, row int) int {
	if b.rules.Gravity {
		return column
	}
	return b.Flat(b.Index(column, row))
}

// Action is the action that puts a stone on bit i of a bitboard.
func (b *Board) Action(i int) int { return int(b.actionOf[i]) }

// Lines lists every winning line as a set of cells: 69 on 7x6x4. It is a direct, slow definition; tests compare the shifts and the
// heuristics with it.
func (b *Board) Lines() []Bits {
	r := b.rules
	directions := [][2]int{{0, 1}, {1, 0}, {1, -1}, {1, 1}}
	if r.InARow == 1 {
		directions = directions[:1] // one stone is a line; count it once
	}
	var lines []Bits
	for c := range r.Columns {
		for row := range r.Rows {
			for _, d := range directions {
				var line Bits
				for i := range r.InARow {
					if x, y := c+i*d[0], row+i*d[1]; x < r.Columns && y >= 0 && y < r.Rows {
						line = line.Or(bit(b.Index(x, y)))
					}
				}
				if line.OnesCount() == r.InARow {
					lines = append(lines, line)
				}
			}
		}
	}
	return lines
}
