package game

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// observation is Kaggle's form of a position, with the rules if they are not those of Connect4.
type observation struct {
	Board   []int `json:"board"` // row by row from the top left: 0 empty, 1 and 2 the players
	Mark    *int  `json:"mark"`  // the player to move
	Rows    *int  `json:"rows,omitempty"`
	Columns *int  `json:"columns,omitempty"`
	InARow  *int  `json:"inarow,omitempty"`
	Gravity *bool `json:"gravity,omitempty"`
}

// parseObservation reads a JSON object with board and mark, and optionally rows, columns, inarow and gravity. It ignores other fields,
// because Kaggle's observations have more.
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
	state, err := b.FromKaggle(o.Board, *o.Mark)
	if err == nil && !p.AnyPosition {
		if odd := state.InTurn(); odd != nil {
			odd.Reason += " (--any-position or any_position accepts it)"
			err = odd
		}
	}
	return state, err
}

// InTurn returns nil if the state passes Check at level InTurn and player 1 moved first. Otherwise the error names the likeliest mistake.
func (s State) InTurn() *ParseError {
	if s.inTurn() {
		return nil
	}
	swapped := Position{Own: s.Other(), All: s.All}
	one, two := s.Own.OnesCount(), swapped.Own.OnesCount()
	if s.Mark == 2 {
		one, two = two, one
	}
	e := &ParseError{Field: "board", Value: s.Board.rules.String()}
	e.Reason = fmt.Sprintf("%s of player 1, %s of player 2, and player %d is to move: no game reaches this", stones(one), stones(two), s.Mark)
	if one-two == s.Mark-1 {
		e.Reason = fmt.Sprintf("player %d is to move and has a line already: the game was over before the last stone", s.Mark)
	}
	switch {
	case State{s.Board, swapped, 3 - s.Mark}.inTurn():
		e.Field, e.Value = "mark", strconv.Itoa(s.Mark)
		e.Reason += "; is mark swapped?"
	case State{s.Board, swapped, s.Mark}.inTurn():
		e.Reason += "; are 1 and 2 swapped?"
	}
	return e
}

func (s State) inTurn() bool { return s.Mark == s.Mover() && s.Board.Check(s.Position, InTurn) == nil }

// FromKaggle returns the position of a flat board (row by row from the top left; 0 empty, 1 and 2 the players) with player mark to move. It
// checks the position at level Placed; State.InTurn is stricter. Errors are of type *ParseError and contain the number of the first wrong
// cell on the flat board.
func (b *Board) FromKaggle(cells []int, mark int) (State, error) {
	fail := func(field string, value int, reason string) (State, error) {
		return State{}, &ParseError{Field: field, Value: strconv.Itoa(value), Reason: reason}
	}
	if mark != 1 && mark != 2 {
		return fail("mark", mark, "must be 1 or 2")
	}
	if len(cells) != b.Cells() {
		return State{}, &ParseError{Field: "board", Value: strconv.Itoa(len(cells)) + " cells", Reason: fmt.Sprintf("%v has %d; rows and columns name another board", b.rules, b.Cells())}
	}
	var p Position
	strange := len(cells) // index of the first cell that is not 0, 1 or 2; len(cells) if there is none
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
	floating := len(cells) // index of the first cell with a floating stone
	if e, ok := errors.AsType[*StonesError](b.Check(p, Placed)); ok {
		for f := e.Floating; !f.IsZero(); f = f.WithoutFirst() {
			floating = min(floating, b.Flat(f.First()))
		}
	}
	switch field := func(i int) string { return "board[" + strconv.Itoa(i) + "]" }; {
	case floating < strange:
		reason := "floats: the cell below it, " + strconv.Itoa(floating+b.rules.Columns) + ", is empty"
		if b.hang(cells) {
			reason += "; is the board upside down? its first row is the top one"
		}
		return fail(field(floating), cells[floating], reason)
	case strange < len(cells):
		return fail(field(strange), cells[strange], "must be 0, 1 or 2")
	}
	return State{Board: b, Position: p, Mark: mark}, nil
}

// hang reports whether no stone of a flat board floats once the board is turned upside down.
func (b *Board) hang(cells []int) bool {
	for i, v := range cells[b.rules.Columns:] {
		if v != 0 && cells[i] == 0 {
			return false
		}
	}
	return true
}

// Kaggle returns the flat board of the state, row by row from the top left: 0 empty, 1 and 2 the players.
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

// Observation returns the state as one line of JSON, which Parse can read. It omits the rules if they are Connect4.
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
