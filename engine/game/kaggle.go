package game

import (
	"encoding/json"
	"errors"
	"strconv"
)

// observation is Kaggle's view of a position, with the rules beside it if they are not those of Connect4.
type observation struct {
	Board   []int `json:"board"` // row by row from the top left: 0 empty, 1 and 2 the players
	Mark    *int  `json:"mark"`  // the player to move
	Rows    *int  `json:"rows,omitempty"`
	Columns *int  `json:"columns,omitempty"`
	InARow  *int  `json:"inarow,omitempty"`
	Gravity *bool `json:"gravity,omitempty"`
}

// parseObservation reads a JSON object with board and mark, and optionally rows, columns, inarow and gravity. Other
// fields are ignored, because Kaggle's observations have more. The mark is believed even if the stones do not fit it.
func (p *Parser) parseObservation(s string) (State, error) {
	r := Connect4
	o := observation{Rows: &r.Rows, Columns: &r.Columns, InARow: &r.InARow, Gravity: &r.Gravity}
	if err := DecodeJSON([]byte(s), &o); err != nil {
		return State{}, err
	}
	b, err := p.boards.Get(r)
	if err != nil {
		return State{}, err
	}
	if o.Mark == nil {
		return State{}, &ParseError{Field: "mark", Reason: "is missing; it says who is to move, 1 or 2"}
	}
	return b.FromKaggle(o.Board, *o.Mark)
}

// FromKaggle is the position of a flat board (row by row from the top left; 0 empty, 1 and 2 the players) with player
// mark to move. The position is checked at level Placed: the mark of an observation may disagree with its numbers of
// stones. Errors are of type *ParseError and name the first wrong cell by its number on the flat board.
func (b *Board) FromKaggle(cells []int, mark int) (State, error) {
	fail := func(field string, value int, reason string) (State, error) {
		return State{}, &ParseError{Field: field, Value: strconv.Itoa(value), Reason: reason}
	}
	if mark != 1 && mark != 2 {
		return fail("mark", mark, "must be 1 or 2")
	}
	if len(cells) != b.Cells() {
		return State{}, &ParseError{Field: "board", Value: strconv.Itoa(len(cells)) + " cells", Reason: b.rules.String() + " has " + strconv.Itoa(b.Cells())}
	}
	var p Position
	strange := len(cells) // the first cell that is not 0, 1 or 2; so far none
	for i, v := range cells {
		if v == 0 {
			continue
		}
		stone := bit(b.FlatIndex(i))
		p.All = p.All.Or(stone)
		switch v {
		case mark:
			p.Own = p.Own.Or(stone)
		case 3 - mark:
		default:
			strange = min(strange, i)
		}
	}
	floating := len(cells) // the first cell with a floating stone
	if e, ok := errors.AsType[*StonesError](b.Check(p, Placed)); ok {
		for f := e.Floating; !f.IsZero(); f = f.WithoutFirst() {
			floating = min(floating, b.Flat(f.First()))
		}
	}
	switch field := func(i int) string { return "board[" + strconv.Itoa(i) + "]" }; {
	case floating < strange:
		return fail(field(floating), cells[floating], "floats: the cell below it, "+strconv.Itoa(floating+b.rules.Columns)+", is empty")
	case strange < len(cells):
		return fail(field(strange), cells[strange], "must be 0, 1 or 2")
	}
	return State{Board: b, Position: p, Mark: mark}, nil
}

// Kaggle is the flat board of the state, row by row from the top left: 0 empty, 1 and 2 the players.
func (s State) Kaggle() []int {
	b := s.Board
	cells := make([]int, b.Cells())
	for i := range cells {
		switch at := b.FlatIndex(i); {
		case s.Own.Has(at):
			cells[i] = s.Mark
		case s.All.Has(at):
			cells[i] = 3 - s.Mark
		}
	}
	return cells
}

// Observation is the state as one line of JSON that Parse reads back. The rules are left out if they are Connect4.
func (s State) Observation() string {
	o := observation{Board: s.Kaggle(), Mark: &s.Mark}
	if r := s.Board.rules; r != Connect4 {
		o.Rows, o.Columns, o.InARow, o.Gravity = &r.Rows, &r.Columns, &r.InARow, &r.Gravity
	}
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // ints and bools always marshal
	}
	return string(text)
}
