package service

import (
	"errors"
	"slices"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
)

// With the parameter "partial" an invalid row does not fail the whole request. The batch contains only the valid rows, without gaps; their
// answers are moved to their places when they are written. The values of an invalid row are 0, its source is refusedRow, and the output
// "error" has the reason.

// refusedRow is the source of invalid rows.
const refusedRow = "refused"

// readRows reads the valid rows of the input into b.Pos, without gaps, and the reasons of invalid ones into r.wrong. It returns the board
// of the first valid row, or the request's if there is none. An error concerns the input as a whole.
func (r *request) readRows(b *eval.Batch) (*game.Board, error) {
	board, good, one, rest := r.board, b.Pos[:0], r.input, r.input.raw
	one.parser = &game.Parser{AnyPosition: r.anyPosition} // one parser for all rows, because it caches boards
	one.shape = append([]int64{1}, r.input.shape[1:]...)
	r.wrong = make([]string, r.rows)
	for i := range r.wrong {
		size := len(r.input.raw) / r.rows
		if r.input.datatype == bytesType {
			value, _, ok := cutBytes(rest)
			if !ok {
				return nil, invalid("input %q: row %d: %d bytes are left, which is less than its length says", one.name, i, len(rest))
			}
			size = 4 + len(value)
		}
		one.raw, rest = rest[:size], rest[size:]
		pos := b.Pos[i : i+1]
		on, err := one.positions(r.board, pos, r.anyPosition)
		if err == nil && len(good) > 0 && on.Rules() != board.Rules() {
			err = one.wrong(0, "is on board %v, those before it on %v: a request has one board", on.Rules(), board.Rules())
		}
		if row := (eval.Batch{Board: on, Pos: pos}); err == nil && r.raw {
			err = row.Unfinished()
		}
		if why, ok := errors.AsType[*eval.RowError](err); ok {
			r.wrong[i] = short.Text(why.Reason)
		} else if err != nil {
			return nil, err
		} else {
			board, good = on, append(good, pos[0])
		}
	}
	if len(rest) > 0 {
		return nil, invalid("input %q: %d bytes follow the last of %d rows", one.name, len(rest), r.rows)
	}
	b.Pos = good
	return board, nil
}

// appendPartial appends an output for all rows of a partial request, from the answers to the valid ones.
func appendPartial(to []byte, name string, b *eval.Batch, f *found, wrong []string) []byte {
	switch name {
	case errorOutput:
		for _, why := range wrong {
			to = appendBytes(to, why)
		}
		return to
	case sourceOutput:
		good := 0
		for _, why := range wrong {
			if why != "" {
				to = appendBytes(to, refusedRow)
			} else {
				to = appendBytes(to, b.Source[good].String())
				good++
			}
		}
		return to
	}
	return spread(outputs[name].write(to, b, f), len(to), outputs[name].room(b.Board), wrong)
}

// spread moves the answers to valid rows to the rows' places, and fills the places of invalid rows with zeros. The answers have size bytes
// each and are the end of memory, from byte at on.
func spread(memory []byte, at, size int, wrong []string) []byte {
	good := (len(memory) - at) / size
	memory = slices.Grow(memory, (len(wrong)-good)*size)[:at+len(wrong)*size]
	for i := len(wrong) - 1; i >= 0; i-- {
		row := memory[at+i*size:][:size]
		if wrong[i] != "" {
			clear(row)
		} else {
			good--
			copy(row, memory[at+good*size:])
		}
	}
	return memory
}
