// Package game is ConnectX: Connect Four on any board, any number in a row, with or without gravity.
//
// It contains the rules, the bitboards, move generation, the win test, symmetry and every notation for positions. Values, policies and
// searches are in other packages.
//
// Read the files in this order:
//
//	rules.go               Rules of a game; ranges.go: games between bounds
//	mix.go                 several games with shares; mixes.go: those with names
//	bits.go                sets of cells
//	board.go, position.go  Rules prepared for play; the stones of one moment; boards.go: Boards by their Rules
//	symmetry.go            images of a position that its rules do not distinguish
//	result.go, outlook.go  the state of a game, and its result if the next stones decide it
//	check.go               whether a position from outside is possible
//	notation.go            moves and boards as text; kaggle.go: Kaggle's observations; json.go: untrusted JSON
//
// # Decisions
//
// A Position does not contain its Board. Otherwise every node and batch would carry a pointer or 4 more bytes for each position, although
// all positions of a batch are on one board.
//
// Boards of at most 64 bits use plain uint64 code behind one predictable branch, and never touch the upper word. Code that was generic over
// the width ran ten times slower.
package game

import (
	"fmt"
	"strconv"
	"strings"
)

// Rules describe one game of the family.
type Rules struct {
	Rows    int  // cells in a column, from 1
	Columns int  // cells in a row, from 1
	InARow  int  // stones in a line that win, from 1; a board that is too small for such a line cannot be won
	Gravity bool // true: a stone falls to the lowest empty cell of its column; false: it may go into any empty cell
}

// The two games that most users want.
var (
	Connect4  = Rules{Rows: 6, Columns: 7, InARow: 4, Gravity: true}
	TicTacToe = Rules{Rows: 3, Columns: 3, InARow: 3, Gravity: false}
)

// MaxBits is the width of the widest bitboard. A board needs (Rows+1) * Columns bits: each column has a guard bit on top.
const MaxBits = 128

// maxInARow bounds InARow; no line on a board of MaxBits is longer.
const maxInARow = MaxBits

// Cells is the number of cells of the board.
func (r Rules) Cells() int { return r.Rows * r.Columns }

// Actions is the number of different moves, legal or not: the columns with gravity, the cells without. Actions are numbered from 0: columns
// from the left; cells row by row from the top left, as in Kaggle.
func (r Rules) Actions() int {
	if r.Gravity {
		return r.Columns
	}
	return r.Cells()
}

// Validate returns nil, or an error that names the field that is out of range.
func (r Rules) Validate() error {
	switch {
	case r.Rows < 1:
		return &ParseError{Field: "rows", Value: strconv.Itoa(r.Rows), Reason: "must be 1 or more"}
	case r.Columns < 1:
		return &ParseError{Field: "columns", Value: strconv.Itoa(r.Columns), Reason: "must be 1 or more"}
	case r.InARow < 1 || r.InARow > maxInARow:
		return &ParseError{Field: "inarow", Value: strconv.Itoa(r.InARow), Reason: fmt.Sprintf("must be 1 to %d", maxInARow)}
	case r.Rows >= MaxBits || r.Columns >= MaxBits || (r.Rows+1)*r.Columns > MaxBits:
		return &ParseError{
			Field: "rules", Value: r.String(),
			Reason: fmt.Sprintf("needs more than %d bits: (rows + 1) * columns may be at most %d", MaxBits, MaxBits),
		}
	}
	return nil
}

// freeSuffix marks rules without gravity in text: "3x3x3free".
const freeSuffix = "free"

// String gives the rules as columns x rows x in-a-row: "7x6x4", and "3x3x3free" without gravity.
func (r Rules) String() string {
	s := strconv.Itoa(r.Columns) + "x" + strconv.Itoa(r.Rows) + "x" + strconv.Itoa(r.InARow)
	if !r.Gravity {
		s += freeSuffix
	}
	return s
}

// ParseRules parses and validates the form of String. It also rejects rules under which no player can win, because such rules are probably
// two swapped numbers. Kaggle's referee accepts such rules.
func ParseRules(s string) (Rules, error) {
	body, free := strings.CutSuffix(s, freeSuffix)
	fields := strings.Split(body, "x")
	if len(fields) != 3 {
		return Rules{}, &ParseError{Field: "rules", Value: s, Reason: "want columns x rows x in-a-row, such as 7x6x4 or 3x3x3free"}
	}
	var n [3]int
	for i, name := range []string{"columns", "rows", "inarow"} {
		v, err := strconv.Atoi(fields[i])
		if err != nil || fields[i][0] == '+' {
			return Rules{}, &ParseError{Field: name, Value: fields[i], Reason: "is not a whole number in rules " + quote(s)}
		}
		n[i] = v
	}
	r := Rules{Columns: n[0], Rows: n[1], InARow: n[2], Gravity: !free}
	if err := r.Validate(); err != nil {
		return r, err
	}
	if longest := max(r.Columns, r.Rows); r.InARow > longest {
		return r, &ParseError{Field: "inarow", Value: fields[2], Reason: fmt.Sprintf("nobody can win in rules %s: must be at most %d", quote(s), longest)}
	}
	return r, nil
}
