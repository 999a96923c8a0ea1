// Package record reads and writes training records as Parquet files: positions with the results of their searches and games. Writer writes
// one file, Reader reads any number of files as one stream, and SolvedReader makes records from exact scores.
//
// # Columns
//
// No column contains nulls. Values are for the side to move.
//
//	rules     string        the game: columns x rows x in-a-row, "7x6x4"; "3x3x3free" without gravity
//	own_lo    uint64        stones of the side to move, bits 0 to 63
//	own_hi    uint64        and 64 to 127; 0 on boards of at most 64 bits, such as 7x6
//	all_lo    uint64        stones of both sides
//	all_hi    uint64
//	visits    list<uint32>  visits of each action in the search, or 1 for each of the best if the rules or a solver decide; empty if there was no search
//	q         float         value of the search's root, -1 to 1
//	z         int8          result of the game: 1 won, 0 drawn, -1 lost
//	gameover  uint8         the position itself: 0 not over, 2 the other side has won, 3 drawn
//	ply       int32         stones on the board
//	source    string        who evaluated: gpu, cpu, fast, ort-cpu, ort-cuda, ort-tensorrt, ort, function (a network of the program's user), cache, rules, terminal, bitsquares .. solver; none if nothing did
//	network   string        the network's name, or empty
//	weight    float         of the record in the loss, from 0
//	game      int64         number of the game in its run, from 0, the same for all its positions; -1 if there is none
//	move      uint8         the move that was played here, an action counted from 1; 0 if none was, because the game was over, resigned or proved, or if it is unknown
//	policy    list<float>   optional: the search's policy by action, which sums to 1, such as Gumbel's improved policy; empty if there is none, and networks learn the shares of the visits
//
// Bit (rows + 1) * column + row is the cell in a column (0 at the left) and row (0 at the bottom), so that on 7x6 the
// cell in column c and row r holds a stone of the side to move if own_lo >> (7*c + r) & 1 is 1. Actions are columns from
// the left; without gravity they are cells, row by row from the top left. So visits[move - 1] is the visits of the move.
//
// Files are compressed with zstd. Their metadata has evald.records = 2, the version of this format, and evald.crc32, the checksum of the
// file (engine/durable), which files of other programs may lack.
//
// # Decisions
//
// guard.go checks the sizes that a Parquet file claims before the library uses them: a wrong bit in a footer can make the library allocate
// gigabytes.
package record

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
)

// Record is a position as a training example. All values are for the side to move.
type Record struct {
	Rules    game.Rules
	Position game.Position
	Visits   []uint32 // by action, 0 if illegal, and not all 0; empty if there was no search or the game is over
	Q        float32  // value of the search's root, -1 to 1
	Z        int8     // outcome of the game: 1 won, 0 drawn, -1 lost
	GameOver uint8    // game.NotOver, OwnWin, OtherWin or Drawn
	Ply      int      // stones on the board
	Source   eval.Source
	Network  string    // name of the network that evaluated, valid UTF-8 of at most 255 bytes; empty if none did
	Weight   float32   // in the loss, from 0
	Game     int64     // number of the game in its run, from 0, or NoGame
	Move     uint8     // the action that was played here, counted from 1; 0 if none was or it is unknown
	Policy   []float32 // the search's policy, by action; sums to 1, 0 if illegal; empty if there is none, or the game is over
}

// NoGame is the Game of a record that belongs to no game, or to a game without a known number.
const NoGame = -1

// Continues reports whether one move leads from before's position to r's. Callers use it to separate consecutive games in files without
// numbers of games.
func (r *Record) Continues(before *Record) bool {
	moved := r.Position.All.AndNot(before.Position.All)
	return r.Rules == before.Rules && before.GameOver == game.NotOver && moved.OnesCount() == 1 && r.Ply == before.Ply+1 &&
		r.Position.Own == before.Position.Other()
}

// maxNetwork is the maximum length of a network's name in bytes.
const maxNetwork = 255

// ColumnError is a mistake in one value of a record.
type ColumnError struct {
	Column string
	Value  any
	Reason string
}

// plain is a text that a ColumnError shows without quotes.
type plain string

func (e *ColumnError) Error() string {
	if text, ok := e.Value.(string); ok {
		return fmt.Sprintf("column %s is %.40q, %s", e.Column, text, e.Reason)
	}
	return fmt.Sprintf("column %s is %v, %s", e.Column, e.Value, e.Reason)
}

// Check returns a *ColumnError that names a column whose value Writer and Reader reject, or nil.
func (r *Record) Check(boards *game.Boards) error {
	board, err := boards.Get(r.Rules)
	if err != nil {
		return &ColumnError{"rules", r.Rules.String(), err.Error()}
	}
	if err := checkPosition(board, r.Position); err != nil {
		return err
	}
	if err := r.checkVisits(board); err != nil {
		return err
	}
	if err := r.checkPolicy(board); err != nil {
		return err
	}
	_, known := heuristic.ParseSource(r.Source.String())
	switch {
	case !(r.Q >= -1 && r.Q <= 1):
		return &ColumnError{"q", r.Q, "must be -1 to 1"}
	case r.Z < -1 || r.Z > 1:
		return &ColumnError{"z", r.Z, "must be 1, 0 or -1"}
	case r.Ply != r.Position.Plies():
		return &ColumnError{"ply", r.Ply, fmt.Sprintf("but %d stones are on the board", r.Position.Plies())}
	case !known:
		return &ColumnError{"source", r.Source.String(), "which is unknown"}
	case len(r.Network) > maxNetwork || !utf8.ValidString(r.Network):
		return &ColumnError{"network", r.Network, fmt.Sprintf("must be UTF-8 of at most %d bytes", maxNetwork)}
	case !(r.Weight >= 0 && r.Weight <= math.MaxFloat32):
		return &ColumnError{"weight", r.Weight, "must be a finite number from 0"}
	case r.Game < NoGame:
		return &ColumnError{"game", r.Game, "must be a number from 0, or -1 where there is none"}
	case r.Move != 0 && (int(r.Move) > board.Actions() || !board.CanPlay(r.Position, int(r.Move)-1)):
		return &ColumnError{"move", r.Move, "which is illegal here: moves count from 1, and 0 is none"}
	}
	return r.checkEnd(board)
}

// checkEnd compares gameover and z with the board.
func (r *Record) checkEnd(board *game.Board) error {
	result := board.Result(r.Position)
	if want := result.GameOver(); r.GameOver != want {
		return &ColumnError{"gameover", r.GameOver, fmt.Sprintf("but the position's class is %d (%v)", want, result)}
	}
	switch {
	case result == game.Ongoing:
		return nil
	case r.Move != 0:
		return &ColumnError{"move", r.Move, fmt.Sprintf("but the game is over (%v): want 0", result)}
	case r.Z != int8(result.Value()):
		return &ColumnError{"z", r.Z, fmt.Sprintf("but the game is over (%v)", result)}
	}
	return nil
}

func checkPosition(board *game.Board, p game.Position) error {
	wrong := func(column string, b game.Bits, reason string) error {
		if b.Hi != 0 {
			return &ColumnError{column + "_hi, " + column + "_lo", plain(fmt.Sprintf("%#x, %#x", b.Hi, b.Lo)), reason}
		}
		return &ColumnError{column + "_lo", plain(fmt.Sprintf("%#x", b.Lo)), reason}
	}
	e, ok := errors.AsType[*game.StonesError](board.Check(p, game.InTurn))
	switch {
	case !ok:
		return nil
	case !e.Outside.IsZero():
		return wrong("all", p.All, fmt.Sprintf("but bit %d is no cell of %v", e.Outside.First(), board.Rules()))
	case !e.Alone.IsZero():
		return wrong("own", p.Own, fmt.Sprintf("but bit %d is not among all stones", e.Alone.First()))
	case e.Uneven:
		return wrong("own", p.Own, fmt.Sprintf("but %d stones against %d cannot come of moves in turn", e.Own, e.Other))
	case e.Won:
		return wrong("own", p.Own, "but the side to move has a line, and the game was over before")
	}
	return wrong("all", p.All, fmt.Sprintf("but the stone of bit %d floats", e.Floating.First()))
}

func (r *Record) checkVisits(board *game.Board) error {
	if len(r.Visits) == 0 {
		return nil
	}
	if err := r.checkActions(board, "visits", r.Visits, len(r.Visits)); err != nil {
		return err
	}
	searched := false
	for a, n := range r.Visits {
		searched = searched || n > 0
		if n > 0 && !board.CanPlay(r.Position, a) {
			return &ColumnError{"visits", r.Visits, fmt.Sprintf("but action %d is illegal", a)}
		}
	}
	if !searched {
		return &ColumnError{"visits", r.Visits, "which is no policy; leave them empty"}
	}
	return nil
}

// checkActions checks a column with n values, one for each action.
func (r *Record) checkActions(board *game.Board, column string, values any, n int) error {
	if n != board.Actions() {
		return &ColumnError{column, plain(fmt.Sprintf("of %d actions", n)), fmt.Sprintf("but %v has %d", board.Rules(), board.Actions())}
	}
	if result := board.Result(r.Position); result != game.Ongoing {
		return &ColumnError{column, values, fmt.Sprintf("but the game is over (%v); leave it empty", result)}
	}
	return nil
}

// sumError is the largest difference between the sum of a policy and 1. Programs add float32 in
// different orders.
const sumError = 1e-3

func (r *Record) checkPolicy(board *game.Board) error {
	if len(r.Policy) == 0 {
		return nil
	}
	if err := r.checkActions(board, "policy", r.Policy, len(r.Policy)); err != nil {
		return err
	}
	sum := 0.0
	for a, p := range r.Policy {
		switch {
		case !(p >= 0 && p <= 1+sumError):
			return &ColumnError{"policy", r.Policy, fmt.Sprintf("but action %d has %v: must be 0 to 1", a, p)}
		case p > 0 && !board.CanPlay(r.Position, a):
			return &ColumnError{"policy", r.Policy, fmt.Sprintf("but action %d is illegal", a)}
		}
		sum += float64(p)
	}
	if math.Abs(sum-1) > sumError {
		return &ColumnError{"policy", r.Policy, fmt.Sprintf("which sums to %.4g, must be 1", sum)}
	}
	return nil
}
