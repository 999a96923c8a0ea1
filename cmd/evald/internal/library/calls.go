package library

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/encoding"
	"github.com/evald/evald/nn/net"
)

// Memory is an array of the caller.
type Memory struct {
	at   unsafe.Pointer
	size int // in bytes; anySize: unknown, the caller guarantees that it is large enough
}

const anySize = -1

// At returns the memory at an address, which must be as large as the call needs.
func At(p unsafe.Pointer) Memory { return Memory{p, anySize} }

// most is the maximum number of positions of a call and of bytes of a text, so that no size
// overflows.
const most = 1 << 32

// mostWords is the maximum number of numbers in a call's arrays of trees.
const mostWords = 1 << 40

// Text returns the text of size bytes at an address.
func Text(p unsafe.Pointer, size int64) (string, error) {
	if size < 0 || size > most || p == nil && size > 0 {
		return "", fmt.Errorf("a text of %d bytes at %p: the Python package and the library are of different versions", size, p)
	}
	return string(unsafe.Slice((*byte)(p), size)), nil
}

// wrongMemory is the panic of slice, which Try makes an error.
type wrongMemory struct{ error }

// slice returns memory as an array of n elements. It panics with wrongMemory if the memory is
// missing, or its size is known and wrong, which only a caller of another version causes.
func slice[T any](m Memory, n int) []T {
	var one T
	if size := n * int(unsafe.Sizeof(one)); m.size != anySize && m.size != size || m.at == nil && size > 0 {
		panic(wrongMemory{fmt.Errorf("an array has %d bytes (%d: any number) at %p, want %d: the Python package and the program are of different versions", m.size, anySize, m.at, size)})
	}
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(m.at), n)
}

// text writes a text and a final zero into memory of size bytes if it fits, and returns the size that it needs.
func text(s string, into Memory, size int64) int64 {
	if into.at != nil && int64(len(s)) < size {
		if into.size == anySize {
			size = int64(len(s) + 1)
		}
		to := slice[byte](into, int(size))
		to[copy(to, s)] = 0
	}
	return int64(len(s) + 1)
}

// Calls has the functions of this package for callers in other languages, which refer to boards, evaluators and Works by numbers. library.go
// of package main exports them to C, and pipe.go to another process. n is a number of positions; the sizes of positions, actions and other
// memory are those that the functions of this package document. Each call is made through Try.
type Calls struct {
	Version string
	kept    sync.Map // *Evaluator, *Forest and *call, by their numbers
	last    atomic.Int64
}

// Try makes a call. A panic in it, or in a goroutine that it has started, is an error that asks for
// a report, because a panic would end the process of another program. Its stack goes to standard
// error.
func (c *Calls) Try(call func() (int64, error)) (result int64, err error) {
	defer func() {
		switch value := recover().(type) {
		case nil:
		case wrongMemory:
			result, err = 0, value
		default:
			result, err = 0, fault.New(value)
		}
		if f := fault.In(err); f != nil {
			f.Tell(os.Stderr, c.Version)
			err = fmt.Errorf("%w: this is a mistake in evald %s, not in the call; please report it with this text", err, c.Version)
		}
	}()
	return call()
}

// ErrLost is the error for a number that no open evaluator or Work has.
var ErrLost = errors.New("there is no such evaluator or call: it is closed")

func (c *Calls) keep(of any) int64 {
	n := c.last.Add(1)
	c.kept.Store(n, of)
	return n
}

func kept[T any](c *Calls, number int64) (T, error) {
	v, _ := c.kept.Load(number)
	of, ok := v.(T)
	if !ok {
		return of, ErrLost
	}
	return of, nil
}

// About writes the version, the names of sources and the number of planes as JSON, and returns the size that the text needs.
func (c *Calls) About(into Memory, size int64) int64 {
	about, err := json.Marshal(struct {
		Version string   `json:"version"`
		Sources []string `json:"sources"`
		Planes  int      `json:"planes"`
	}{c.Version, Sources(), net.PlaneCount})
	if err != nil {
		panic(err) // cannot happen: strings and a number always marshal
	}
	return text(string(about), into, size)
}

// Board returns the number of a board, and writes its columns, rows, stones in a row, actions and cells into shape.
func (c *Calls) Board(rules string, shape Memory) (int64, error) {
	number, b, err := Board(rules)
	if err != nil {
		return 0, err
	}
	copy(slice[int64](shape, 5), []int64{int64(b.Columns()), int64(b.Rows()), int64(b.InARow()), int64(b.Actions()), int64(b.Cells())})
	return int64(number), nil
}

// on calls f with a board and positions.
func on(board, n int64, positions Memory, f func(b *game.Board, positions []game.Position) error) error {
	b, err := BoardOf(int(board))
	if err != nil {
		return err
	}
	if n < 0 || n > most {
		return fmt.Errorf("%d positions: must be 0 to %d, unless the Python package and the program are of different versions", n, most)
	}
	return f(b, slice[game.Position](positions, int(n)))
}

// checked is on for positions that the caller may have changed: those that no game reaches are an
// error, because functions of package game expect valid ones.
func checked(board, n int64, positions Memory, f func(b *game.Board, positions []game.Position) error) error {
	return on(board, n, positions, func(b *game.Board, positions []game.Position) error {
		if err := Check(b, positions); err != nil {
			return err
		}
		return f(b, positions)
	})
}

// Parse reads positions from lines of text.
func (c *Calls) Parse(board, n int64, lines string, positions Memory) error {
	return on(board, n, positions, func(b *game.Board, positions []game.Position) error {
		if n == 0 && lines == "" {
			return nil
		}
		texts := strings.Split(lines, "\n")
		if len(texts) != len(positions) {
			return fmt.Errorf("%d lines of text, want %d, one for each position", len(texts), len(positions))
		}
		return Parse(b, texts, positions)
	})
}

// Check calls Check.
func (c *Calls) Check(board, n int64, positions Memory) error { return on(board, n, positions, Check) }

// FromCells calls FromCells; players is 0 for false.
func (c *Calls) FromCells(board, n int64, cells Memory, players int64, positions Memory) error {
	return on(board, n, positions, func(b *game.Board, positions []game.Position) error {
		return FromCells(b, slice[int8](cells, int(n)*b.Cells()), players != 0, positions)
	})
}

// Cells calls Cells.
func (c *Calls) Cells(board, n int64, positions, cells Memory) error {
	return checked(board, n, positions, func(b *game.Board, positions []game.Position) error {
		Cells(b, positions, slice[int8](cells, int(n)*b.Cells()))
		return nil
	})
}

// Planes writes inputs of networks: evald's own planes (package net) or, unless description is empty, the input that it describes in YAML
// (package encoding).
func (c *Calls) Planes(board, n int64, description string, positions, planes Memory) error {
	return checked(board, n, positions, func(b *game.Board, positions []game.Position) error {
		if description == "" {
			net.Planes(b, positions, slice[float32](planes, net.PlanesSize(b, int(n))))
			return nil
		}
		d, err := encoding.Parse([]byte(description))
		if err != nil {
			return err
		}
		codec, err := encoding.ForPlanes(d, b)
		if err != nil {
			return err
		}
		encoding.Fill(codec, 0, positions, slice[float32](planes, int(n)*codec.Inputs[0].Size))
		return nil
	})
}

// Legal calls Legal.
func (c *Calls) Legal(board, n int64, positions, mask Memory) error {
	return checked(board, n, positions, func(b *game.Board, positions []game.Position) error {
		Legal(b, positions, slice[uint8](mask, int(n)*b.Actions()))
		return nil
	})
}

// Results calls Results.
func (c *Calls) Results(board, n int64, positions, results Memory) error {
	return checked(board, n, positions, func(b *game.Board, positions []game.Position) error {
		Results(b, positions, slice[int8](results, int(n)))
		return nil
	})
}

// Step calls Step; reset is 0 for false. It does not check the positions, which are usually those
// of the last Step: a check would take a sixth of its time. Callers check others by Check.
func (c *Calls) Step(board, n int64, positions, actions, rewards, done Memory, reset int64) error {
	return on(board, n, positions, func(b *game.Board, positions []game.Position) error {
		return Step(b, positions, slice[int64](actions, int(n)), slice[float32](rewards, int(n)), slice[uint8](done, int(n)), reset != 0)
	})
}

// Open opens an evaluator and returns its number.
func (c *Calls) Open(options string) (int64, error) {
	e, err := Open(options)
	if err != nil {
		return 0, err
	}
	return c.keep(e), nil
}

// Evaluator writes the description of an evaluator as JSON, and returns the size that the text
// needs.
func (c *Calls) Evaluator(evaluator int64, into Memory, size int64) (int64, error) {
	e, err := kept[*Evaluator](c, evaluator)
	if err != nil {
		return 0, err
	}
	return text(e.About(), into, size), nil
}

// Close closes an evaluator or drops a forest, whose number is then invalid. A call that uses the
// forest is not interrupted.
func (c *Calls) Close(number int64) error {
	if _, err := kept[*Forest](c, number); err == nil {
		c.kept.Delete(number)
		return nil
	}
	e, err := kept[*Evaluator](c, number)
	if err != nil {
		return err
	}
	c.kept.Delete(number)
	return e.Close()
}

// Evaluate calls Evaluator.Evaluate; raw is 0 for false.
func (c *Calls) Evaluate(evaluator, board, n int64, positions Memory, raw int64, wdl, policy, who Memory) error {
	e, err := kept[*Evaluator](c, evaluator)
	if err != nil {
		return err
	}
	return on(board, n, positions, func(b *game.Board, positions []game.Position) error {
		rows := len(positions)
		return e.Evaluate(context.Background(), b, positions, raw != 0, slice[float32](wdl, 3*rows), slice[float32](policy, b.Actions()*rows), slice[uint8](who, rows))
	})
}

// call is a Work and the last result of its Wait.
type call struct {
	*Work
	board   *game.Board
	waiting sync.Mutex // held by the only Wait

	mu    sync.Mutex
	found Result
}

// evaluator returns the evaluator of a number, nil for 0, which is the caller's function.
func (c *Calls) evaluator(number int64) (*Evaluator, error) {
	if number == 0 {
		return nil, nil
	}
	return kept[*Evaluator](c, number)
}

// start starts a Work with an evaluator or, if its number is 0, with the caller's function, and returns the Work's number.
func (c *Calls) start(evaluator, board, n int64, positions Memory, f func(e *Evaluator, b *game.Board, positions []game.Position) (*Work, error)) (int64, error) {
	e, err := c.evaluator(evaluator)
	if err != nil {
		return 0, err
	}
	started := &call{}
	err = on(board, n, positions, func(b *game.Board, positions []game.Position) (err error) {
		started.board = b
		started.Work, err = f(e, b, positions)
		return err
	})
	if err != nil {
		return 0, err
	}
	return c.keep(started), nil
}

// Search starts a Search and returns its number.
func (c *Calls) Search(evaluator, board, n int64, positions Memory, options string, visits, policy, q, wdl, best, proved, prior, raw Memory, most int64, tree Memory) (int64, error) {
	return c.start(evaluator, board, n, positions, func(e *Evaluator, b *game.Board, positions []game.Position) (*Work, error) {
		found, err := findings(b, len(positions), visits, policy, q, wdl, best, proved, prior, raw, most, tree)
		if err != nil {
			return nil, err
		}
		return Search(e, b, positions, options, found)
	})
}

// findings are the arrays of searches of rows positions. most is the room of each tree.
func findings(b *game.Board, rows int, visits, policy, q, wdl, best, proved, prior, raw Memory, most int64, tree Memory) (Found, error) {
	moves := rows * b.Actions()
	if most < 0 || most > ask.MostVisits || most > mostWords/int64(max(1, treeWords(b, rows, 1))) {
		return Found{}, fmt.Errorf("tree: %d trees of %d visits are too large: must have less than 2^40 numbers", rows, most)
	}
	return Found{
		Prior: slice[float32](prior, moves), Raw: slice[float32](raw, rows), Tree: slice[int32](tree, treeWords(b, rows, int(most))),
		Visits: slice[uint32](visits, moves), Policy: slice[float32](policy, moves), Q: slice[float32](q, moves),
		WDL: slice[float32](wdl, 3*rows), Best: slice[int32](best, rows), Proved: slice[int8](proved, rows),
	}, nil
}

// Plant calls Plant and returns the forest's number. evaluator 0 is the caller's function.
func (c *Calls) Plant(evaluator, board, n int64, positions Memory, options string) (int64, error) {
	e, err := c.evaluator(evaluator)
	if err != nil {
		return 0, err
	}
	var f *Forest
	err = on(board, n, positions, func(b *game.Board, positions []game.Position) (err error) {
		f, err = Plant(e, b, positions, options)
		return err
	})
	if err != nil {
		return 0, err
	}
	return c.keep(f), nil
}

// Grown calls Forest.Visits.
func (c *Calls) Grown(forest int64) (int64, error) {
	f, err := kept[*Forest](c, forest)
	if err != nil {
		return 0, err
	}
	if !f.using.TryLock() {
		return 0, errBusy
	}
	defer f.using.Unlock()
	return int64(f.Visits()), nil
}

// Grow starts a Run of a forest and returns its number. most is the room of each tree in positions, 0
// for no trees.
func (c *Calls) Grow(forest, adds int64, visits, policy, q, wdl, best, proved, prior, raw Memory, most int64, tree Memory) (int64, error) {
	f, err := kept[*Forest](c, forest)
	if err != nil {
		return 0, err
	}
	found, err := findings(f.board, len(f.trees), visits, policy, q, wdl, best, proved, prior, raw, most, tree)
	if err != nil {
		return 0, err
	}
	started := &call{board: f.board}
	if started.Work, err = f.Run(int(min(max(adds, -1), ask.MostVisits+1)), found); err != nil {
		return 0, err
	}
	return c.keep(started), nil
}

// Priors calls Forest.SetPriors.
func (c *Calls) Priors(forest int64, policy Memory) error {
	f, err := kept[*Forest](c, forest)
	if err != nil {
		return err
	}
	return f.SetPriors(slice[float32](policy, len(f.trees)*f.board.Actions()))
}

// Advance calls Forest.Advance.
func (c *Calls) Advance(forest int64, actions Memory) error {
	f, err := kept[*Forest](c, forest)
	if err != nil {
		return err
	}
	return f.Advance(slice[int64](actions, len(f.trees)))
}

// Rule writes Rule as JSON, and returns the size that the text needs. evaluator 0 is the caller's
// function.
func (c *Calls) Rule(evaluator, board int64, options string, into Memory, size int64) (int64, error) {
	e, err := c.evaluator(evaluator)
	if err != nil {
		return 0, err
	}
	b, err := BoardOf(int(board))
	if err != nil {
		return 0, err
	}
	rule, err := Rule(e, b, options)
	if err != nil {
		return 0, err
	}
	return text(strconv.Quote(rule), into, size), nil
}

// Solve starts a Solve and returns its number.
func (c *Calls) Solve(board, n int64, positions Memory, options string, scores Memory) (int64, error) {
	return c.start(0, board, n, positions, func(_ *Evaluator, b *game.Board, positions []game.Position) (*Work, error) {
		return Solve(b, positions, options, slice[int32](scores, len(positions)*b.Actions()))
	})
}

// Play starts a Play and returns its number.
func (c *Calls) Play(evaluator, board int64, options string) (int64, error) {
	return c.start(evaluator, board, 0, Memory{}, func(e *Evaluator, b *game.Board, _ []game.Position) (*Work, error) {
		return Play(e, b, options, c.evaluator)
	})
}

// Match starts a Match and returns its number.
func (c *Calls) Match(board int64, options string) (int64, error) {
	return c.start(0, board, 0, Memory{}, func(_ *Evaluator, b *game.Board, _ []game.Position) (*Work, error) {
		return Match(b, options, c.evaluator)
	})
}

// Score starts a Score and returns its number.
func (c *Calls) Score(evaluator, board, n int64, positions Memory, options string, scores Memory) (int64, error) {
	return c.start(evaluator, board, n, positions, func(e *Evaluator, b *game.Board, positions []game.Position) (*Work, error) {
		return Score(e, b, positions, options, slice[int32](scores, len(positions)*b.Actions()))
	})
}

// ScoreRules writes the rules of the first position of a file that Score reads, and returns the size
// that the text needs.
func (c *Calls) ScoreRules(file string, into Memory, size int64) (int64, error) {
	rules, err := ScoreRules(file)
	if err != nil {
		return 0, err
	}
	return text(rules, into, size), nil
}

// recordRows returns the caller's memory for records.
func recordRows(b *game.Board, positions []game.Position, visits, q, weight, z, over, ply, move, number, policy, by, who Memory) RecordRows {
	rows := len(positions)
	return RecordRows{
		Positions: positions, Visits: slice[uint32](visits, rows*b.Actions()), Q: slice[float32](q, rows), Weight: slice[float32](weight, rows),
		Z: slice[int8](z, rows), GameOver: slice[uint8](over, rows), Ply: slice[int32](ply, rows), Move: slice[int32](move, rows),
		Game: slice[int64](number, rows), Policy: slice[float32](policy, rows*b.Actions()), By: slice[uint16](by, rows), Who: slice[uint8](who, rows),
	}
}

// Write starts a Write and returns its number. names is RecordNames as JSON.
func (c *Calls) Write(board, n int64, file, names string, positions, visits, q, weight, z, over, ply, move, number, policy, by, who Memory) (int64, error) {
	var of RecordNames
	if err := decode(names, &of); err != nil {
		return 0, fmt.Errorf("names of networks: %w", err)
	}
	return c.start(0, board, n, positions, func(_ *Evaluator, b *game.Board, positions []game.Position) (*Work, error) {
		return Write(b, file, of.Networks, recordRows(b, positions, visits, q, weight, z, over, ply, move, number, policy, by, who)), nil
	})
}

// Records returns the number of records in files, and writes the rules of the first one if there is room for them.
func (c *Calls) Records(files string, rules Memory, size int64) (int64, error) {
	rows, of, err := Records(files)
	if err != nil {
		return 0, err
	}
	text(of, rules, size)
	return rows, nil
}

// Read starts a Read and returns its number; other is 0 for false.
func (c *Calls) Read(board, n int64, files string, other int64, positions, visits, q, weight, z, over, ply, move, number, policy, by, who Memory) (int64, error) {
	return c.start(0, board, n, positions, func(_ *Evaluator, b *game.Board, positions []game.Position) (*Work, error) {
		return Read(b, files, other != 0, recordRows(b, positions, visits, q, weight, z, over, ply, move, number, policy, by, who))
	})
}

// report is the result of Wait in the caller's memory.
type report struct {
	rows          int64 // number of rows of a batch or a game
	number, first int64 // of a game: its number, and its result for the first player; of a batch: the number of the function
	done, all     int64 // Work.Progress
	one, two      int64 // of a game: the indexes of the first and the second player's networks
}

// longest is the longest wait in milliseconds: a day.
const longest = 24 * 60 * 60 * 1000

// Wait waits for an event of a Work, for ms milliseconds at most, and writes a report. Until a
// batch is answered, it is the event again.
func (c *Calls) Wait(number, ms int64, into Memory) (Event, error) {
	w, err := kept[*call](c, number)
	if err != nil {
		return 0, err
	}
	r := &slice[report](into, 1)[0]
	if !w.waiting.TryLock() {
		return 0, errors.New("another thread waits for this call")
	}
	defer w.waiting.Unlock()
	defer func() { r.done, r.all = w.Progress() }()
	if again := w.unanswered(r); again {
		return Asked, nil
	}
	found, err := w.Wait(time.Duration(min(max(ms, 0), longest)) * time.Millisecond)
	if err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found = found
	switch found.Event {
	case Asked:
		r.rows, r.number = 0, int64(found.Ask.Function)
		found.Ask.Use(func(b *eval.Batch) { r.rows = int64(len(b.Pos)) })
	case Played:
		r.rows, r.number, r.first = int64(len(found.Game.Plies)), int64(found.Game.Number), int64(found.Game.Result)
		r.one, r.two = int64(found.Game.Networks[0]), int64(found.Game.Networks[1])
	}
	return found.Event, nil
}

// unanswered reports whether the last Wait has returned a batch without answers that a search still
// wants, and writes its rows into r. It is one step: another thread may answer the batch just then,
// and the search would use its memory again.
func (w *call) unanswered(r *report) (again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.found.Ask != nil {
		w.found.Ask.Use(func(b *eval.Batch) { again, r.rows, r.number = true, int64(len(b.Pos)), int64(w.found.Ask.Function) })
	}
	return again
}

// fits is an error if a caller's number of rows is not that of a batch.
func fits(rows int64, b *eval.Batch) error {
	if rows != int64(len(b.Pos)) {
		return fmt.Errorf("%d rows, and the batch has %d", rows, len(b.Pos))
	}
	return nil
}

// asked calls f with the Work of this number, locked, and the batch that its last Wait has
// returned, unless that is answered.
func (c *Calls) asked(number int64, f func(*call, *Ask) error) error {
	w, err := kept[*call](c, number)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.found.Ask == nil {
		return errors.New("the call has not asked for answers, or has got them: call wait")
	}
	return f(w, w.found.Ask)
}

// Batch writes the positions of the batch that a Work has asked for. If the search has ended
// meanwhile, the error is ErrLost, and the next Wait returns the reason.
func (c *Calls) Batch(number, rows int64, positions Memory) error {
	return c.asked(number, func(_ *call, ask *Ask) error {
		err := ErrLost
		ask.Use(func(b *eval.Batch) {
			if err = fits(rows, b); err == nil {
				copy(slice[game.Position](positions, len(b.Pos)), b.Pos)
			}
		})
		return err
	})
}

// Answer answers the batch of a Work. If failed is not empty, the caller's function has failed with
// this error. After the end of the search it does nothing.
func (c *Calls) Answer(number, rows int64, wdl, policy Memory, failed string) error {
	return c.asked(number, func(w *call, ask *Ask) (err error) {
		if failed != "" {
			w.found.Ask = nil
			ask.Answer(errors.New(failed)) // returns the same error
			return nil
		}
		ask.Use(func(b *eval.Batch) {
			if err = fits(rows, b); err == nil {
				copy(b.WDL, slice[float32](wdl, 3*len(b.Pos)))
				copy(b.Policy, slice[float32](policy, len(b.Pos)*b.Board.Actions()))
			}
		})
		if err != nil {
			return err
		}
		w.found.Ask = nil
		return ask.Answer(nil)
	})
}

// Game writes the game that the last Wait returned; see GameRows.
func (c *Calls) Game(number int64, positions, visits, q, who, moves, policy, prior, raw Memory) error {
	w, err := kept[*call](c, number)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.found.Game == nil {
		return errors.New("no game is over since the last one: call wait")
	}
	n := len(w.found.Game.Plies)
	rows := GameRows{
		Positions: slice[game.Position](positions, n), Visits: slice[uint32](visits, n*w.board.Actions()),
		Q: slice[float32](q, n), Who: slice[uint8](who, n), Moves: slice[int32](moves, n),
		Policy: slice[float32](policy, n*w.board.Actions()), Prior: slice[float32](prior, n*w.board.Actions()), Raw: slice[float32](raw, n),
	}
	rows.Write(w.board, w.found.Game)
	return nil
}

// Result writes the result of a Work that has ended as JSON, and returns the size that the text
// needs.
func (c *Calls) Result(number int64, into Memory, size int64) (int64, error) {
	w, err := kept[*call](c, number)
	if err != nil {
		return 0, err
	}
	found, err := w.Result()
	if err != nil {
		return 0, err
	}
	return text(found, into, size), nil
}

// Release ends a Work, whose number is then invalid.
func (c *Calls) Release(number int64) error {
	w, err := kept[*call](c, number)
	if err != nil {
		return err
	}
	c.kept.Delete(number)
	w.Release()
	return nil
}
