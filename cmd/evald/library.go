//go:build library

package main

// #include <stdint.h>
// typedef struct {
//   int64_t rows;               // of a batch or of a game
//   int64_t number, first;      // of a game: its number, and the result for the first player
//   int64_t done, all;          // how many things the call has done and has to do
// } evald_event;
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/evald/evald/cmd/evald/internal/library"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/net"
)

// The calls below are those of package library in C, for a program that is built with -buildmode=c-shared. Their statuses are fine, wrong and
// lost; calls with another result return such a status as a negative number. The text at err, of at most errSize bytes with its end, says what
// is wrong. Arrays are the caller's and of the sizes that package library says.
const (
	fine  = 0
	wrong = 1 // what the caller gave
	lost  = 2 // no evaluator or call has this number: it was closed, or never was

	errSize = 2048
)

// handles are evaluators and calls by numbers, which callers keep.
var handles struct {
	sync.Map
	last atomic.Int64
}

func keep(of any) C.longlong {
	n := handles.last.Add(1)
	handles.Store(n, of)
	return C.longlong(n)
}

func kept[T any](n C.longlong) (of T, ok bool) {
	v, _ := handles.Load(int64(n))
	of, ok = v.(T)
	return of, ok
}

// say writes an error for the caller.
func say(err error, into *C.char) C.int {
	if err == nil {
		return fine
	}
	text := err.Error()
	if len(text) >= errSize {
		text = strings.ToValidUTF8(text[:errSize-1], "")
	}
	to := unsafe.Slice((*byte)(unsafe.Pointer(into)), errSize)
	to[copy(to, text)] = 0
	if errors.Is(err, errLost) || errors.Is(err, library.ErrClosed) {
		return lost
	}
	return wrong
}

var errLost = errors.New("there is no such evaluator or call: it is closed")

// slice is an array of the caller's.
func slice[T any](p unsafe.Pointer, n int) []T {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(p), n)
}

// text writes a text of ours into memory of size bytes, with a zero at its end, and returns the size that it needs.
func text(s string, into *C.char, size C.longlong) C.longlong {
	if len(s) < int(size) {
		to := unsafe.Slice((*byte)(unsafe.Pointer(into)), len(s)+1)
		to[copy(to, s)] = 0
	}
	return C.longlong(len(s) + 1)
}

//export evald_main
func evald_main(argc C.int, argv **C.char) C.int {
	os.Args = nil
	for _, arg := range unsafe.Slice(argv, int(argc)) {
		os.Args = append(os.Args, C.GoString(arg))
	}
	main() // which exits
	return 0
}

//export evald_about
func evald_about(into *C.char, size C.longlong) C.longlong {
	about, err := json.Marshal(struct {
		Version string   `json:"version"`
		Sources []string `json:"sources"`
		Planes  int      `json:"planes"`
	}{version(), library.Sources(), net.PlaneCount})
	if err != nil {
		panic(err) // texts can be written
	}
	return text(string(about), into, size)
}

//export evald_board
func evald_board(rules *C.char, shape *C.longlong, err *C.char) C.longlong {
	number, b, problem := library.Board(C.GoString(rules))
	if problem != nil {
		return C.longlong(-say(problem, err))
	}
	copy(unsafe.Slice(shape, 5), []C.longlong{C.longlong(b.Columns()), C.longlong(b.Rows()), C.longlong(b.InARow()), C.longlong(b.Actions()), C.longlong(b.Cells())})
	return C.longlong(number)
}

// on calls f with a board and positions.
func on(board, n C.longlong, positions unsafe.Pointer, err *C.char, f func(b *game.Board, positions []game.Position) error) C.int {
	b, problem := library.BoardOf(int(board))
	if problem == nil {
		problem = f(b, slice[game.Position](positions, int(n)))
	}
	return say(problem, err)
}

//export evald_parse
func evald_parse(board, n C.longlong, lines *C.char, size C.longlong, positions unsafe.Pointer, err *C.char) C.int {
	return on(board, n, positions, err, func(b *game.Board, positions []game.Position) error {
		return library.Parse(b, strings.Split(C.GoStringN(lines, C.int(size)), "\n"), positions)
	})
}

//export evald_check
func evald_check(board, n C.longlong, positions unsafe.Pointer, err *C.char) C.int {
	return on(board, n, positions, err, library.Check)
}

//export evald_from_cells
func evald_from_cells(board, n C.longlong, cells unsafe.Pointer, players C.int, positions unsafe.Pointer, err *C.char) C.int {
	return on(board, n, positions, err, func(b *game.Board, positions []game.Position) error {
		return library.FromCells(b, slice[int8](cells, int(n)*b.Cells()), players != 0, positions)
	})
}

//export evald_cells
func evald_cells(board, n C.longlong, positions, cells unsafe.Pointer, err *C.char) C.int {
	return on(board, n, positions, err, func(b *game.Board, positions []game.Position) error {
		library.Cells(b, positions, slice[int8](cells, int(n)*b.Cells()))
		return nil
	})
}

//export evald_planes
func evald_planes(board, n C.longlong, positions, planes unsafe.Pointer, err *C.char) C.int {
	return on(board, n, positions, err, func(b *game.Board, positions []game.Position) error {
		net.Planes(b, positions, slice[float32](planes, net.PlanesSize(b, int(n))))
		return nil
	})
}

//export evald_legal
func evald_legal(board, n C.longlong, positions, mask unsafe.Pointer, err *C.char) C.int {
	return on(board, n, positions, err, func(b *game.Board, positions []game.Position) error {
		library.Legal(b, positions, slice[uint8](mask, int(n)*b.Actions()))
		return nil
	})
}

//export evald_results
func evald_results(board, n C.longlong, positions, results unsafe.Pointer, err *C.char) C.int {
	return on(board, n, positions, err, func(b *game.Board, positions []game.Position) error {
		library.Results(b, positions, slice[int8](results, int(n)))
		return nil
	})
}

//export evald_step
func evald_step(board, n C.longlong, positions, actions, rewards, done unsafe.Pointer, reset C.int, err *C.char) C.int {
	return on(board, n, positions, err, func(b *game.Board, positions []game.Position) error {
		return library.Step(b, positions, slice[int32](actions, int(n)), slice[float32](rewards, int(n)), slice[uint8](done, int(n)), reset != 0)
	})
}

//export evald_open
func evald_open(options, err *C.char) C.longlong {
	e, problem := library.Open(C.GoString(options))
	if problem != nil {
		return C.longlong(-say(problem, err))
	}
	return keep(e)
}

//export evald_evaluator
func evald_evaluator(evaluator C.longlong, into *C.char, size C.longlong) C.longlong {
	e, ok := kept[*library.Evaluator](evaluator)
	if !ok {
		return 0
	}
	return text(e.About(), into, size)
}

//export evald_close
func evald_close(evaluator C.longlong, err *C.char) C.int {
	e, ok := kept[*library.Evaluator](evaluator)
	if !ok {
		return say(errLost, err)
	}
	handles.Delete(int64(evaluator))
	return say(e.Close(), err)
}

//export evald_evaluate
func evald_evaluate(evaluator, board, n C.longlong, positions, wdl, policy, who unsafe.Pointer, err *C.char) C.int {
	e, ok := kept[*library.Evaluator](evaluator)
	if !ok {
		return say(errLost, err)
	}
	return on(board, n, positions, err, func(b *game.Board, positions []game.Position) error {
		return e.Evaluate(context.Background(), b, positions, slice[float32](wdl, 3*len(positions)), slice[float32](policy, b.Actions()*len(positions)), slice[uint8](who, len(positions)))
	})
}

// call is a Work and the batch that its caller computes.
type call struct {
	*library.Work
	board *game.Board
	found library.Result
}

// start begins a call that an evaluator answers, or the caller's function if its number is 0.
func start(evaluator, board, n C.longlong, positions unsafe.Pointer, err *C.char, f func(e *library.Evaluator, b *game.Board, positions []game.Position) (*library.Work, error)) C.longlong {
	var e *library.Evaluator
	if evaluator != 0 {
		var ok bool
		if e, ok = kept[*library.Evaluator](evaluator); !ok {
			return C.longlong(-say(errLost, err))
		}
	}
	var w *library.Work
	var of *game.Board
	status := on(board, n, positions, err, func(b *game.Board, positions []game.Position) (problem error) {
		of = b
		w, problem = f(e, b, positions)
		return problem
	})
	if status != fine {
		return C.longlong(-status)
	}
	return keep(&call{Work: w, board: of})
}

//export evald_search
func evald_search(evaluator, board, n C.longlong, positions unsafe.Pointer, options *C.char, visits, policy, q, wdl, best, proved unsafe.Pointer, err *C.char) C.longlong {
	return start(evaluator, board, n, positions, err, func(e *library.Evaluator, b *game.Board, positions []game.Position) (*library.Work, error) {
		rows, moves := len(positions), len(positions)*b.Actions()
		return library.Search(e, b, positions, C.GoString(options), library.Found{
			Visits: slice[uint32](visits, moves), Policy: slice[float32](policy, moves), Q: slice[float32](q, moves),
			WDL: slice[float32](wdl, 3*rows), Best: slice[int32](best, rows), Proved: slice[int8](proved, rows),
		})
	})
}

//export evald_solve
func evald_solve(board, n C.longlong, positions unsafe.Pointer, options *C.char, scores unsafe.Pointer, err *C.char) C.longlong {
	return start(0, board, n, positions, err, func(_ *library.Evaluator, b *game.Board, positions []game.Position) (*library.Work, error) {
		return library.Solve(b, positions, C.GoString(options), slice[int32](scores, len(positions)*b.Actions()))
	})
}

//export evald_selfplay
func evald_selfplay(evaluator, board C.longlong, options, err *C.char) C.longlong {
	return start(evaluator, board, 0, nil, err, func(e *library.Evaluator, b *game.Board, _ []game.Position) (*library.Work, error) {
		return library.Play(e, b, C.GoString(options))
	})
}

//export evald_records
func evald_records(files, rules *C.char, size C.longlong, err *C.char) C.longlong {
	rows, of, problem := library.Records(C.GoString(files))
	if problem != nil {
		return C.longlong(-say(problem, err))
	}
	text(of, rules, size)
	return C.longlong(rows)
}

//export evald_read
func evald_read(board, n C.longlong, files *C.char, other C.int, positions, visits, q, weight, z, over, ply, move, number, who unsafe.Pointer, err *C.char) C.longlong {
	return start(0, board, n, positions, err, func(_ *library.Evaluator, b *game.Board, positions []game.Position) (*library.Work, error) {
		rows := int(n)
		return library.Read(b, C.GoString(files), other != 0, library.RecordRows{
			Positions: positions, Visits: slice[uint32](visits, rows*b.Actions()), Q: slice[float32](q, rows), Weight: slice[float32](weight, rows),
			Z: slice[int8](z, rows), GameOver: slice[uint8](over, rows), Ply: slice[int32](ply, rows), Move: slice[int32](move, rows),
			Game: slice[int64](number, rows), Who: slice[uint8](who, rows),
		})
	})
}

//export evald_wait
func evald_wait(number, ms C.longlong, event *C.evald_event, err *C.char) C.int {
	c, ok := kept[*call](number)
	if !ok {
		return -say(errLost, err)
	}
	r, problem := c.Wait(time.Duration(ms) * time.Millisecond)
	done, all := c.Progress()
	event.done, event.all = C.int64_t(done), C.int64_t(all)
	if problem != nil {
		return -say(problem, err)
	}
	c.found = r
	switch r.Event {
	case library.Asked:
		event.rows = 0
		r.Ask.Use(func(b *eval.Batch) { event.rows = C.int64_t(len(b.Pos)) })
	case library.Played:
		event.rows, event.number, event.first = C.int64_t(len(r.Game.Plies)), C.int64_t(r.Game.Number), C.int64_t(r.Game.Result)
	}
	return C.int(r.Event)
}

//export evald_batch
func evald_batch(number, rows C.longlong, positions unsafe.Pointer) C.int {
	c, ok := kept[*call](number)
	if !ok || c.found.Ask == nil {
		return lost
	}
	c.found.Ask.Use(func(b *eval.Batch) { copy(slice[game.Position](positions, int(rows)), b.Pos) })
	return fine
}

//export evald_answer
func evald_answer(number, rows C.longlong, wdl, policy unsafe.Pointer, failed, err *C.char) C.int {
	c, ok := kept[*call](number)
	if !ok || c.found.Ask == nil {
		return say(errLost, err)
	}
	ask := c.found.Ask
	c.found.Ask = nil
	if failed != nil {
		ask.Answer(errors.New(C.GoString(failed)))
		return fine
	}
	ask.Use(func(b *eval.Batch) {
		copy(b.WDL, slice[float32](wdl, 3*int(rows)))
		copy(b.Policy, slice[float32](policy, int(rows)*b.Board.Actions()))
	})
	return say(ask.Answer(nil), err)
}

//export evald_game
func evald_game(number C.longlong, positions, visits, q, who unsafe.Pointer, moves unsafe.Pointer) C.int {
	c, ok := kept[*call](number)
	if !ok || c.found.Game == nil {
		return lost
	}
	n := len(c.found.Game.Plies)
	rows := library.GameRows{
		Positions: slice[game.Position](positions, n), Visits: slice[uint32](visits, n*c.board.Actions()),
		Q: slice[float32](q, n), Who: slice[uint8](who, n), Moves: slice[int32](moves, n),
	}
	rows.Write(c.board, c.found.Game)
	return fine
}

//export evald_release
func evald_release(number C.longlong) {
	if c, ok := kept[*call](number); ok {
		handles.Delete(int64(number))
		c.Release()
	}
}
