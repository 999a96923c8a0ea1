package pattern

import (
	"math/bits"

	"github.com/evald/evald/engine/game"
)

// Each is the number of rows of the table that a position has.
const Each = 33

// board is the only board of these tables.
var board = game.MustBoard(game.Connect4)

// line is a row or a diagonal: its cells are the bits start, start+stride and so on, from left to right.
type line struct {
	start, stride, length int

	// For board bits x, the line's bits in order are x >> start & mask * magic >> gatherBit.
	mask, magic uint64
}

// Kind says which bitboards the patterns of a group are made of.
type Kind int

const (
	LineKind   Kind = iota // a row of the board or a diagonal: own stones or playable cells, and the other side's or playable cells
	ColumnKind             // own stones and all stones of a column
	ThreatKind             // the cells of a column in which an own stone wins, and in which one of the other side does
)

// Group is how the bits of a pattern are found in a bitboard x: x >> Start & Mask * Magic >> 36 has Length of them, in order.
type Group struct {
	Mask, Magic   uint64
	Start, Length int
	First         int32 // its first row of the table
	Kind          Kind
}

// Groups returns all groups of rows of the table but for the last, which is the number of stones (FirstStones).
func Groups() (all []Group) {
	for i, l := range lines {
		all = append(all, Group{l.mask, l.magic, l.start, l.length, groups[i], LineKind})
	}
	const whole = 127
	for _, kind := range []Kind{ColumnKind, ThreatKind} {
		for c := range board.Columns() {
			all = append(all, Group{whole, 1 << gatherBit, 7 * c, 7, groups[len(all)], kind})
		}
	}
	return all
}

// FirstStones is the row of the table for no stones. The rows for more stones follow.
func FirstStones() int32 { return groups[Each-1] }

// gatherBit is the position of the gathered bits in the product. It is at least (stride-1) * (length-1), so that all bits of magic have
// positions of at least 0.
const gatherBit = 36

var (
	lines  = makeLines()
	groups = makeGroups()        // the first row of each group, then the number of rows
	spread = makeSpread()        // bit i of the index becomes bit 2i of the value
	above  = makeAbove()         // by number of stones in a column: the column's first pattern of threats
	full   = board.Full().Lo     // all cells
	bottom = full &^ (full << 1) // the lowest cell of each column
)

func makeLines() (all []line) {
	add := func(column, row, stride, length int) {
		l := line{start: board.Index(column, row), stride: stride, length: length}
		for i := range length {
			l.mask |= 1 << (stride * i)
			l.magic |= 1 << (gatherBit - (stride-1)*i)
		}
		all = append(all, l)
	}
	columns, rows := board.Columns(), board.Rows()
	for row := range rows {
		add(0, row, rows+1, columns)
	}
	// The diagonals by their first cells, from the left edge and then along the bottom or the top.
	for row := rows - board.InARow(); row >= 0; row-- {
		add(0, row, rows+2, rows-row)
	}
	for column := 1; column <= columns-board.InARow(); column++ {
		add(column, 0, rows+2, min(rows, columns-column))
	}
	for row := board.InARow() - 1; row < rows; row++ {
		add(0, row, rows, row+1)
	}
	for column := 1; column <= columns-board.InARow(); column++ {
		add(column, rows-1, rows, min(rows, columns-column))
	}
	return all
}

func makeGroups() []int32 {
	var sizes []int32
	for _, l := range makeLines() {
		sizes = append(sizes, 1<<(2*l.length))
	}
	for range board.Columns() {
		sizes = append(sizes, 128)
	}
	patterns := int32(0)
	for h := range board.Rows() + 1 {
		patterns += 1 << (2 * (board.Rows() - h))
	}
	for range board.Columns() {
		sizes = append(sizes, patterns)
	}
	sizes = append(sizes, int32(board.Cells()+1))
	first := []int32{0}
	for i, n := range sizes {
		first = append(first, first[i]+n)
	}
	return first
}

func makeSpread() (s [128]int32) {
	for i := range s {
		for b := range 7 {
			s[i] |= int32(i>>b&1) << (2 * b)
		}
	}
	return s
}

func makeAbove() (first [8]int32) {
	for h := range 7 {
		first[h+1] = first[h] + 1<<(2*(6-h))
	}
	return first
}

// AppendRows appends the table rows of a position of 7x6x4, one from each group. The game must not be over.
func AppendRows(rows []int32, p game.Position) []int32 {
	own, all := p.Own.Lo, p.All.Lo
	other, playable := all^own, (all+bottom)&full
	g := 0
	for i := range lines {
		l := &lines[i]
		gather := func(x uint64) uint64 {
			return (x >> (l.start & 63) & l.mask) * l.magic >> gatherBit & (1<<l.length - 1)
		}
		next := gather(playable)
		rows = append(rows, groups[g]+spread[(gather(own)|next)&127]+2*spread[(gather(other)|next)&127])
		g++
	}
	for c := range 7 {
		rows = append(rows, groups[g]+int32(own>>(7*c)&127+all>>(7*c)&127))
		g++
	}
	wins, losses := game.CompletesFour(own, 7)&full&^all, game.CompletesFour(other, 7)&full&^all
	for c := range 7 {
		h := bits.OnesCount64(all >> (7 * c) & 127)
		rows = append(rows, groups[g]+above[h]+spread[wins>>(7*c+h)&(1<<(6-h)-1)]+2*spread[losses>>(7*c+h)&(1<<(6-h)-1)])
		g++
	}
	return append(rows, groups[g]+int32(bits.OnesCount64(all)))
}
