// Package library provides evald inside another program's process: evaluators, searches, self-play,
// matches, measurements, records, the solver and the rules, on memory that the caller owns.
// library.go of package main exports the calls to C; the Python package in cmd/evald/client/python
// is built on them.
//
// Read boards.go (boards and positions), options.go, evaluator.go, work.go (long calls),
// function.go (a function of the caller as a network), search.go, forest.go (searches step by
// step), games.go, match.go (with together.go), score.go, solve.go, records.go; then calls.go (the
// calls for other languages), table.go (by their names, from C) and pipe.go (for another process).
//
// # Decisions
//
// The caller's arrays of positions have the memory layout of game.Position: four words of 64 bits (own low and high, all low and high). So
// no call copies or converts positions, on any board.
//
// A long call is a Work: it runs in a goroutine of its own, and the caller polls it with Wait. So even a program with a single thread can be
// interrupted, show progress, and evaluate batches with its own network in between.
package library

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/evald/evald/engine/game"
)

// boards has all boards that were requested, by number. None is ever removed, because a program uses few.
var boards struct {
	sync.Mutex
	all atomic.Pointer[[]*game.Board]
}

// mostBoards is the maximum number of boards, which bounds their memory. There are fewer games than this on boards of up to 64 cells.
const mostBoards = 1 << 14

// Board returns the board of rules such as 7x6x4, and its number, which is the same at each call.
func Board(rules string) (number int, b *game.Board, err error) {
	r, err := game.ParseRules(rules)
	if err != nil {
		return 0, nil, err
	}
	boards.Lock()
	defer boards.Unlock()
	var all []*game.Board
	if p := boards.all.Load(); p != nil {
		all = *p
	}
	if i := slices.IndexFunc(all, func(b *game.Board) bool { return b.Rules() == r }); i >= 0 {
		return i, all[i], nil
	}
	if len(all) == mostBoards {
		return 0, nil, fmt.Errorf("rules %v: %d other boards are in use, more are not kept", r, mostBoards)
	}
	if b, err = game.NewBoard(r); err != nil {
		return 0, nil, err
	}
	all = append(slices.Clip(all), b)
	boards.all.Store(&all)
	return len(all) - 1, b, nil
}

// BoardOf returns the board with a number from Board.
func BoardOf(number int) (*game.Board, error) {
	if all := boards.all.Load(); all != nil && number >= 0 && number < len(*all) {
		return (*all)[number], nil
	}
	return nil, fmt.Errorf("board %d is none of this process", number)
}

// RowError is an error about one position of an array.
type RowError struct {
	Row int
	Err error
}

func (e *RowError) Error() string { return fmt.Sprintf("position %d: %v", e.Row, e.Err) }

// Unwrap returns Err.
func (e *RowError) Unwrap() error { return e.Err }

// Check returns a *RowError for the first position that no game on the board reaches, or nil.
func Check(b *game.Board, positions []game.Position) error {
	if i, err := b.CheckAll(positions, game.InTurn); err != nil {
		return &RowError{i, err}
	}
	return nil
}

// unfinished is Check that also refuses positions whose game is over.
func unfinished(b *game.Board, positions []game.Position) error {
	if err := Check(b, positions); err != nil {
		return err
	}
	for i, p := range positions {
		if r := b.Result(p); r != game.Ongoing {
			return &RowError{i, fmt.Errorf("the game is over (%v)", r)}
		}
	}
	return nil
}

// Parse parses texts in the notations of game.Parser into positions, which has the same length. All must be on board b.
func Parse(b *game.Board, texts []string, positions []game.Position) error {
	var parser game.Parser
	for i, text := range texts {
		s, err := game.State{Board: b}, error(nil)
		if strings.ContainsAny(text, ":{") {
			s, err = parser.Parse(text)
		} else { // text has moves without rules
			s.Position, _, err = b.ParseMoves(text)
		}
		if err == nil && s.Board.Rules() != b.Rules() {
			err = fmt.Errorf("is of %v, and the others are of %v", s.Board.Rules(), b.Rules())
		}
		if err != nil {
			return &RowError{i, err}
		}
		positions[i] = s.Position
	}
	return nil
}

// Cells writes the cells of each position into cells [N,H,W], top row first: 1 is the side to move, -1 the other side, 0 empty.
func Cells(b *game.Board, positions []game.Position, cells []int8) {
	n := b.Cells()
	for i, p := range positions {
		row := cells[i*n : (i+1)*n]
		clear(row)
		for s := p.All; !s.IsZero(); s = s.WithoutFirst() {
			bit := s.First()
			row[b.Flat(bit)] = -1
			if p.Own.Has(bit) {
				row[b.Flat(bit)] = 1
			}
		}
	}
}

// FromCells is the inverse of Cells. With players set, cells are 1 for the first player and 2 for the second one, as in Kaggle's boards, and
// the side to move follows from the numbers of stones.
func FromCells(b *game.Board, cells []int8, players bool, positions []game.Position) error {
	n := b.Cells()
	bits := make([]game.Bits, n)
	for column := range b.Columns() {
		for row := range b.Rows() {
			bit := b.Index(column, row)
			bits[b.Flat(bit)] = game.Bits{Lo: 1}.Shl(uint(bit))
		}
	}
	for i := range positions {
		var one, other game.Bits // 1, and -1 or 2
		for k, c := range cells[i*n : (i+1)*n] {
			switch {
			case c == 0:
			case c == 1:
				one = one.Or(bits[k])
			case c == -1 && !players, c == 2 && players:
				other = other.Or(bits[k])
			default:
				return &RowError{i, fmt.Errorf("cell %d is %d, must be %s", k, c, map[bool]string{true: "0, 1 or 2", false: "0, 1 or -1"}[players])}
			}
		}
		positions[i] = game.Position{Own: one, All: one.Or(other)}
		if players && one.OnesCount() > other.OnesCount() {
			positions[i].Own = other
		}
	}
	return Check(b, positions)
}

// Legal writes 1 for each legal action into mask [N,A] and 0 for the others. All are 0 if the game is over.
func Legal(b *game.Board, positions []game.Position, mask []uint8) {
	n := b.Actions()
	clear(mask)
	for i, p := range positions {
		if b.Result(p) != game.Ongoing {
			continue
		}
		for s := b.Legal(p); !s.IsZero(); s = s.WithoutFirst() {
			mask[i*n+b.Action(s.First())] = 1
		}
	}
}

// Results writes the result of each game for its side to move: 1 won, -1 lost, 0 drawn, 2 not over.
func Results(b *game.Board, positions []game.Position, results []int8) {
	for i, p := range positions {
		if r := b.Result(p); r == game.Ongoing {
			results[i] = 2
		} else {
			results[i] = int8(r.Value())
		}
	}
}

// Step plays an action in each position. It writes into rewards [N] 1 if the action won, else 0,
// and into done [N] 1 if the game is over now, else 0. With reset a position whose game is over
// becomes the empty board. If an action is illegal, Step returns a *RowError and changes nothing.
// Actions have 64 bits, so that a caller's number is refused and never cut to a legal one.
func Step(b *game.Board, positions []game.Position, actions []int64, rewards []float32, done []uint8, reset bool) error {
	for i, a := range actions {
		if a < 0 || a >= int64(b.Actions()) || !b.CanPlay(positions[i], int(a)) || b.Result(positions[i]) != game.Ongoing {
			return &RowError{i, fmt.Errorf("action %d cannot be played: %s", a, unplayable(b, positions[i], a))}
		}
	}
	for i, a := range actions {
		p := b.Play(positions[i], int(a))
		rewards[i], done[i] = 0, 0
		if r := b.Result(p); r != game.Ongoing {
			done[i] = 1
			if r == game.Loss { // for the side that is to move now
				rewards[i] = 1
			}
			if reset {
				p = game.Position{}
			}
		}
		positions[i] = p
	}
	return nil
}

// unplayable says why an action cannot be played.
func unplayable(b *game.Board, p game.Position, a int64) string {
	switch r := b.Result(p); {
	case r != game.Ongoing:
		return fmt.Sprintf("the game is over (%v)", r)
	case a < 0 || a >= int64(b.Actions()):
		return fmt.Sprintf("%v has the actions 0 to %d", b.Rules(), b.Actions()-1)
	case b.Rules().Gravity:
		return "the column is full"
	}
	return "the cell is taken"
}
