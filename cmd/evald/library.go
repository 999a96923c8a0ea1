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
	"os"
	"strings"
	"unsafe"

	"github.com/evald/evald/cmd/evald/internal/library"
)

// The functions below export library.Calls to C, for -buildmode=c-shared. Each returns fine or a library.Status; a function with a result
// of its own returns a status as a negative number. After an error the text at err describes it, in at most errSize bytes including the
// final zero. The caller allocates all arrays; package library gives their sizes.
const (
	fine    = 0
	errSize = 2048
)

var calls = library.Calls{Version: version()}

// say writes an error to the caller's memory and returns its status.
func say(err error, into *C.char) C.int {
	if err == nil {
		return fine
	}
	text := err.Error()
	if len(text) >= errSize {
		text = strings.ToValidUTF8(text[:errSize-1], "")
	}
	if into != nil {
		to := unsafe.Slice((*byte)(unsafe.Pointer(into)), errSize)
		to[copy(to, text)] = 0
	}
	return C.int(library.Status(err))
}

// guarded makes a call and returns its status, number its result or, if it failed, minus its
// status. All functions below use one of the two, because a panic must not end the caller's
// process.
func guarded(err *C.char, call func() error) C.int {
	_, problem := calls.Try(func() (int64, error) { return 0, call() })
	return say(problem, err)
}

func number(err *C.char, call func() (int64, error)) C.longlong {
	n, problem := calls.Try(call)
	if problem != nil {
		return C.longlong(-say(problem, err))
	}
	return C.longlong(n)
}

func at(p unsafe.Pointer) library.Memory { return library.At(p) }

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
func evald_about(into *C.char, size C.longlong, err *C.char) C.longlong {
	return number(err, func() (int64, error) {
		return calls.About(at(unsafe.Pointer(into)), int64(size)), nil
	})
}

//export evald_board
func evald_board(rules *C.char, shape *C.longlong, err *C.char) C.longlong {
	return number(err, func() (int64, error) {
		return calls.Board(C.GoString(rules), at(unsafe.Pointer(shape)))
	})
}

//export evald_parse
func evald_parse(board, n C.longlong, lines *C.char, size C.longlong, positions unsafe.Pointer, err *C.char) C.int {
	return guarded(err, func() error {
		text, err := library.Text(unsafe.Pointer(lines), int64(size))
		if err != nil {
			return err
		}
		return calls.Parse(int64(board), int64(n), text, at(positions))
	})
}

//export evald_check
func evald_check(board, n C.longlong, positions unsafe.Pointer, err *C.char) C.int {
	return guarded(err, func() error {
		return calls.Check(int64(board), int64(n), at(positions))
	})
}

//export evald_from_cells
func evald_from_cells(board, n C.longlong, cells unsafe.Pointer, players C.int, positions unsafe.Pointer, err *C.char) C.int {
	return guarded(err, func() error {
		return calls.FromCells(int64(board), int64(n), at(cells), int64(players), at(positions))
	})
}

//export evald_cells
func evald_cells(board, n C.longlong, positions, cells unsafe.Pointer, err *C.char) C.int {
	return guarded(err, func() error {
		return calls.Cells(int64(board), int64(n), at(positions), at(cells))
	})
}

//export evald_planes
func evald_planes(board, n C.longlong, description *C.char, positions, planes unsafe.Pointer, err *C.char) C.int {
	return guarded(err, func() error {
		return calls.Planes(int64(board), int64(n), C.GoString(description), at(positions), at(planes))
	})
}

//export evald_legal
func evald_legal(board, n C.longlong, positions, mask unsafe.Pointer, err *C.char) C.int {
	return guarded(err, func() error {
		return calls.Legal(int64(board), int64(n), at(positions), at(mask))
	})
}

//export evald_results
func evald_results(board, n C.longlong, positions, results unsafe.Pointer, err *C.char) C.int {
	return guarded(err, func() error {
		return calls.Results(int64(board), int64(n), at(positions), at(results))
	})
}

//export evald_step
func evald_step(board, n C.longlong, positions, actions, rewards, done unsafe.Pointer, reset C.int, err *C.char) C.int {
	return guarded(err, func() error {
		return calls.Step(int64(board), int64(n), at(positions), at(actions), at(rewards), at(done), int64(reset))
	})
}

//export evald_open
func evald_open(options, err *C.char) C.longlong {
	return number(err, func() (int64, error) {
		return calls.Open(C.GoString(options))
	})
}

//export evald_evaluator
func evald_evaluator(evaluator C.longlong, into *C.char, size C.longlong, err *C.char) C.longlong {
	return number(err, func() (int64, error) {
		return calls.Evaluator(int64(evaluator), at(unsafe.Pointer(into)), int64(size))
	})
}

//export evald_close
func evald_close(evaluator C.longlong, err *C.char) C.int {
	return guarded(err, func() error {
		return calls.Close(int64(evaluator))
	})
}

//export evald_evaluate
func evald_evaluate(evaluator, board, n C.longlong, positions, wdl, policy, who unsafe.Pointer, err *C.char) C.int {
	return guarded(err, func() error {
		return calls.Evaluate(int64(evaluator), int64(board), int64(n), at(positions), at(wdl), at(policy), at(who))
	})
}

//export evald_search
func evald_search(evaluator, board, n C.longlong, positions unsafe.Pointer, options *C.char, visits, policy, q, wdl, best, proved unsafe.Pointer, err *C.char) C.longlong {
	return number(err, func() (int64, error) {
		return calls.Search(int64(evaluator), int64(board), int64(n), at(positions), C.GoString(options), at(visits), at(policy), at(q), at(wdl), at(best), at(proved))
	})
}

//export evald_solve
func evald_solve(board, n C.longlong, positions unsafe.Pointer, options *C.char, scores unsafe.Pointer, err *C.char) C.longlong {
	return number(err, func() (int64, error) {
		return calls.Solve(int64(board), int64(n), at(positions), C.GoString(options), at(scores))
	})
}

//export evald_selfplay
func evald_selfplay(evaluator, board C.longlong, options, err *C.char) C.longlong {
	return number(err, func() (int64, error) {
		return calls.Play(int64(evaluator), int64(board), C.GoString(options))
	})
}

//export evald_records
func evald_records(files, rules *C.char, size C.longlong, err *C.char) C.longlong {
	return number(err, func() (int64, error) {
		return calls.Records(C.GoString(files), at(unsafe.Pointer(rules)), int64(size))
	})
}

//export evald_read
func evald_read(board, n C.longlong, files *C.char, other C.int, positions, visits, q, weight, z, over, ply, move, game, who unsafe.Pointer, err *C.char) C.longlong {
	return number(err, func() (int64, error) {
		return calls.Read(int64(board), int64(n), C.GoString(files), int64(other), at(positions), at(visits), at(q), at(weight), at(z), at(over), at(ply), at(move), at(game), at(who))
	})
}

//export evald_wait
func evald_wait(call, ms C.longlong, event *C.evald_event, err *C.char) C.int {
	return C.int(number(err, func() (int64, error) {
		what, err := calls.Wait(int64(call), int64(ms), at(unsafe.Pointer(event)))
		return int64(what), err
	}))
}

//export evald_batch
func evald_batch(call, rows C.longlong, positions unsafe.Pointer, err *C.char) C.int {
	return guarded(err, func() error {
		return calls.Batch(int64(call), int64(rows), at(positions))
	})
}

//export evald_answer
func evald_answer(call, rows C.longlong, wdl, policy unsafe.Pointer, failed, err *C.char) C.int {
	return guarded(err, func() error {
		return calls.Answer(int64(call), int64(rows), at(wdl), at(policy), C.GoString(failed))
	})
}

//export evald_game
func evald_game(call C.longlong, positions, visits, q, who, moves unsafe.Pointer, err *C.char) C.int {
	return guarded(err, func() error {
		return calls.Game(int64(call), at(positions), at(visits), at(q), at(who), at(moves))
	})
}

//export evald_release
func evald_release(call C.longlong, err *C.char) C.int {
	return guarded(err, func() error {
		return calls.Release(int64(call))
	})
}
