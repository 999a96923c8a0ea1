package service

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/nn/net"
)

// Datatypes of the protocol.
const (
	uint8Type  = "UINT8"
	int32Type  = "INT32"
	uint64Type = "UINT64"
	floatType  = "FP32"
	bytesType  = "BYTES"
)

// tensor is an input or an output. Its values are little-endian and in row-major order. A value of BYTES is preceded by its length in four
// bytes.
type tensor struct {
	name     string
	datatype string
	shape    []int64
	raw      []byte
	parser   *game.Parser // for the input "moves"; nil: a new one
}

// values returns the number of values of the shape, and an error if they are more than max.
func (t *tensor) values(max int) (int, error) {
	n := 1
	for _, d := range t.shape {
		if d < 0 {
			return 0, invalid("input %q: shape %v: sizes must not be negative", t.name, t.shape)
		}
		if d > int64(max) || n*int(d) > max {
			return 0, invalid("input %q: shape %v has more than %d values", t.name, t.shape, max)
		}
		n *= int(d)
	}
	return n, nil
}

// fromContents converts the values of a typed list, gRPC's alternative to raw_input_contents, to raw.
func (t *tensor) fromContents(c *kserve.InferTensorContents) error {
	if c == nil {
		return invalid("input %q: neither contents nor raw_input_contents", t.name)
	}
	n, err := t.values(math.MaxInt32)
	if err != nil {
		return err
	}
	have := 0
	switch t.datatype {
	case floatType:
		have, t.raw = len(c.Fp32Contents), appendNumbers(nil, c.Fp32Contents)
	case uint64Type:
		have, t.raw = len(c.Uint64Contents), appendNumbers(nil, c.Uint64Contents)
	case bytesType:
		have = len(c.BytesContents)
		for _, x := range c.BytesContents {
			t.raw = appendBytes(t.raw, x)
		}
	default:
		return nil // rows returns the error
	}
	if have != n {
		return invalid("input %q: %d values of %s for shape %v, want %d", t.name, have, t.datatype, t.shape, n)
	}
	return nil
}

// appendNumbers appends the values of a slice of numbers of a fixed size.
func appendNumbers(to []byte, values any) []byte {
	to, err := binary.Append(to, binary.LittleEndian, values)
	if err != nil {
		panic(err) // values is not such a slice
	}
	return to
}

func appendBytes[T string | []byte](to []byte, value T) []byte {
	return append(binary.LittleEndian.AppendUint32(to, uint32(len(value))), value...)
}

// cutBytes splits off the first of some raw values of BYTES. ok is false if raw is too short.
func cutBytes(raw []byte) (value, rest []byte, ok bool) {
	if len(raw) < 4 {
		return nil, nil, false
	}
	n := uint64(binary.LittleEndian.Uint32(raw))
	if n > uint64(len(raw)-4) {
		return nil, nil, false
	}
	return raw[4 : 4+n], raw[4+n:], true
}

// Inputs, described in kserve/README.md.
const (
	bitboardsInput = "bitboards"
	planesInput    = "planes"
	movesInput     = "moves"
)

// inputTypes are the inputs' datatypes.
var inputTypes = map[string]string{bitboardsInput: uint64Type, planesInput: floatType, movesInput: bytesType}

// rows checks the shape, datatype and length before anything is decoded, and returns the number of positions.
func (t *tensor) rows(board *game.Board, most int) (int, error) {
	datatype, ok := inputTypes[t.name]
	if !ok {
		return 0, invalid("input %q: must be bitboards, planes or moves", t.name)
	}
	if t.datatype != datatype {
		return 0, invalid("input %q: datatype %q, must be %s", t.name, t.datatype, datatype)
	}
	if len(t.shape) == 0 {
		return 0, invalid("input %q: shape [] has no row", t.name)
	}
	if err := t.few(most); err != nil {
		return 0, err
	}
	n := t.shape[0]
	size := 0
	switch rest := t.shape[1:]; t.name {
	case bitboardsInput:
		size = 16 * words(board)
		if len(rest) != 1 || rest[0] != int64(2*words(board)) {
			return 0, invalid("input %q: shape %v, must be [N,%d] for board %v", t.name, t.shape, 2*words(board), board.Rules())
		}
	case planesInput:
		h, w := int64(board.Rows()), int64(board.Columns())
		if len(rest) != 3 || rest[0] != 2 && rest[0] != net.PlaneCount || rest[1] != h || rest[2] != w {
			return 0, invalid("input %q: shape %v, must be [N,2,%d,%d] or [N,%d,%d,%d] for board %v; parameter \"board\" names another", t.name, t.shape, h, w, net.PlaneCount, h, w, board.Rules())
		}
		size = int(4 * rest[0] * h * w)
	case movesInput:
		if len(rest) > 1 || len(rest) == 1 && rest[0] != 1 {
			return 0, invalid("input %q: shape %v, must be [N] or [N,1]", t.name, t.shape)
		}
		return int(n), nil
	}
	if len(t.raw) != size*int(n) {
		return 0, invalid("input %q: %d bytes for shape %v of %s, must be %d", t.name, len(t.raw), t.shape, t.datatype, size*int(n))
	}
	return int(n), nil
}

// few checks that the number of positions, the shape's first dimension, is 1 to most.
func (t *tensor) few(most int) error {
	if n := t.shape[0]; n < 1 || n > int64(most) {
		return invalid("input %q: %d positions, must be 1 to %d", t.name, n, most)
	}
	return nil
}

// words returns the number of 64-bit words of a set of cells.
func words(board *game.Board) int {
	if board.Wide() {
		return 2
	}
	return 1
}

// positions decodes row i into pos[i] for all rows. It returns the board of the rows: the given one, unless the moves name another. Without
// anyPosition it refuses positions that no game reaches.
func (t *tensor) positions(board *game.Board, pos []game.Position, anyPosition bool) (*game.Board, error) {
	level := game.InTurn
	if anyPosition {
		level = game.Placed
	}
	switch t.name {
	case movesInput:
		return t.moves(board, pos, anyPosition)
	case bitboardsInput:
		t.bitboards(board, pos)
	default:
		if err := t.planes(board, pos); err != nil {
			return nil, err
		}
	}
	if i, err := board.CheckAll(pos, level); err != nil {
		bits, way := "", ""
		if t.name == bitboardsInput {
			bits = fmt.Sprintf("own %#x, all %#x: ", pos[i].Own, pos[i].All)
		}
		if e, ok := errors.AsType[*game.StonesError](err); ok && e.Placed() {
			way = " (any_position accepts it)"
		}
		return nil, t.wrong(i, "%s%s%s", bits, err, way)
	}
	if t.name == planesInput && t.shape[1] == net.PlaneCount {
		return board, t.comparePlanes(board, pos)
	}
	return board, nil
}

// wrong returns the error of an invalid row. It clips texts among the arguments.
func (t *tensor) wrong(row int, format string, args ...any) error {
	return &rowError{t.name, eval.RowError{Row: row, Reason: clipped(format, args)}}
}

func (t *tensor) bitboards(board *game.Board, pos []game.Position) {
	raw, wide := t.raw, board.Wide()
	for i := range pos {
		if wide {
			pos[i] = game.Position{Own: bitsAt(raw), All: bitsAt(raw[16:])}
			raw = raw[32:]
		} else {
			own, all := binary.LittleEndian.Uint64(raw), binary.LittleEndian.Uint64(raw[8:])
			pos[i] = game.Position{Own: game.Bits{Lo: own}, All: game.Bits{Lo: all}}
			raw = raw[16:]
		}
	}
}

func bitsAt(raw []byte) game.Bits {
	return game.Bits{Lo: binary.LittleEndian.Uint64(raw), Hi: binary.LittleEndian.Uint64(raw[8:])}
}

// planes decodes the stones, which are in the first two planes.
func (t *tensor) planes(board *game.Board, pos []game.Position) error {
	size := board.Cells()
	for i := range pos {
		raw := t.raw[i*4*int(t.shape[1])*size:][:4*2*size]
		var sides [2]game.Bits // own, other
		for k := range 2 * size {
			x := float(raw, k)
			if x != 0 && x != 1 {
				return t.wrong(i, "cell %d of plane %d is %v, must be 0 or 1: plane 0 is the side to move, plane 1 the other", k%size, k/size, x)
			}
			if x == 1 {
				sides[k/size] = sides[k/size].Or(game.Bits{Lo: 1}.Shl(uint(board.FlatIndex(k % size))))
			}
		}
		pos[i] = game.Position{Own: sides[0], All: sides[0].Or(sides[1])}
		if !sides[0].And(sides[1]).IsZero() {
			return t.wrong(i, "a cell has stones of both sides: plane 0 is the side to move, plane 1 the other")
		}
	}
	return nil
}

// comparePlanes checks that all other planes of a network fit the stones.
func (t *tensor) comparePlanes(board *game.Board, pos []game.Position) error {
	want, size := make([]float32, net.PlanesSize(board, 1)), board.Cells()
	for i := range pos {
		net.Planes(board, pos[i:i+1], want)
		for k, x := range want {
			if got := float(t.raw, i*len(want)+k); got != x {
				return t.wrong(i, "cell %d of plane %d is %v, but the stones make it %v on board %v", k%size, k/size, got, x, board.Rules())
			}
		}
	}
	return nil
}

// float returns value i of raw values of FP32.
func float(raw []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
}

func (t *tensor) moves(board *game.Board, pos []game.Position, anyPosition bool) (*game.Board, error) {
	parser := cmp.Or(t.parser, &game.Parser{AnyPosition: anyPosition})
	given := board // for rows that name no board, even after rows that name another
	raw := t.raw
	for i := range pos {
		value, rest, ok := cutBytes(raw)
		if !ok {
			return nil, t.wrong(i, "%d bytes are left, which is less than its length says", len(raw))
		}
		raw = rest
		text := strings.TrimSpace(string(value))
		on := given
		var err error
		if strings.ContainsAny(text, ":{") {
			var state game.State
			if state, err = parser.Parse(text); err == nil {
				pos[i], on = state.Position, state.Board
			}
		} else {
			pos[i], _, err = given.ParseMoves(text)
		}
		if err != nil {
			return nil, t.wrong(i, "%s", err)
		}
		if on.Rules() != board.Rules() {
			if i > 0 {
				return nil, invalid("input %q: row %d is on board %v, those before it on %v: a request has one board", t.name, i, on.Rules(), board.Rules())
			}
			board = on
		}
	}
	if len(raw) > 0 {
		return nil, invalid("input %q: %d bytes follow the last of %d rows", t.name, len(raw), len(pos))
	}
	return board, nil
}

// Outputs, described in kserve/README.md.
const (
	wdlOutput      = "wdl"
	valueOutput    = "value"
	policyOutput   = "policy"
	gameoverOutput = "gameover"
	sourceOutput   = "source"
	visitsOutput   = "visits"
	qOutput        = "q"
	lowOutput      = "low"
	highOutput     = "high"
	solvedOutput   = "solved"
	nodesOutput    = "nodes"
	errorOutput    = "error" // only with the parameter "partial"
)

var (
	evaluatedOutputs = []string{wdlOutput, valueOutput, policyOutput, gameoverOutput, sourceOutput}
	searchedOutputs  = append(slices.Clone(evaluatedOutputs), visitsOutput, qOutput)
	solvedOutputs    = append(slices.Clone(evaluatedOutputs), lowOutput, highOutput, solvedOutput, nodesOutput)
)

// output describes how an output is encoded.
type output struct {
	datatype string
	width    int // values per row; 0: one for each move
	size     int // bytes of a value; for BYTES an estimate of the maximum
	write    func(to []byte, b *eval.Batch, f *found) []byte
}

var outputs = map[string]output{
	wdlOutput:    {floatType, 3, 4, func(to []byte, b *eval.Batch, _ *found) []byte { return appendNumbers(to, b.WDL) }},
	policyOutput: {floatType, 0, 4, func(to []byte, b *eval.Batch, _ *found) []byte { return appendNumbers(to, b.Policy) }},
	visitsOutput: {int32Type, 0, 4, func(to []byte, _ *eval.Batch, f *found) []byte { return appendNumbers(to, f.visits) }},
	qOutput:      {floatType, 0, 4, func(to []byte, _ *eval.Batch, f *found) []byte { return appendNumbers(to, f.q) }},
	lowOutput:    {int32Type, 0, 4, func(to []byte, _ *eval.Batch, f *found) []byte { return appendNumbers(to, f.low) }},
	highOutput:   {int32Type, 0, 4, func(to []byte, _ *eval.Batch, f *found) []byte { return appendNumbers(to, f.high) }},
	nodesOutput:  {uint64Type, 1, 8, func(to []byte, _ *eval.Batch, f *found) []byte { return appendNumbers(to, f.nodes) }},
	errorOutput:  {bytesType, 1, 4 + 2*short.Most, nil}, // written by appendPartial; the size counts the text twice, because readRows keeps it too
	valueOutput: {floatType, 1, 4, func(to []byte, b *eval.Batch, _ *found) []byte {
		for i := range b.Pos {
			to = binary.LittleEndian.AppendUint32(to, math.Float32bits(b.Value(i)))
		}
		return to
	}},
	gameoverOutput: {uint8Type, 1, 1, func(to []byte, b *eval.Batch, _ *found) []byte {
		for i, p := range b.Pos { // if the game is over, the source is Terminal
			code := uint8(game.NotOver)
			if b.Source[i] == eval.Terminal {
				code = b.Board.Result(p).GameOver()
			}
			to = append(to, code)
		}
		return to
	}},
	sourceOutput: {bytesType, 1, 16, func(to []byte, b *eval.Batch, _ *found) []byte {
		for _, s := range b.Source {
			to = appendBytes(to, s.String())
		}
		return to
	}},
	solvedOutput: {uint8Type, 1, 1, func(to []byte, b *eval.Batch, f *found) []byte {
		for i, a := 0, b.Board.Actions(); i < len(f.low); i += a {
			to = append(to, map[bool]byte{true: 1}[slices.Equal(f.low[i:i+a], f.high[i:i+a])])
		}
		return to
	}},
}

// columns returns the number of values of a row, and room the approximate number of its bytes.
func (o output) columns(board *game.Board) int { return cmp.Or(o.width, board.Actions()) }
func (o output) room(board *game.Board) int    { return o.size * o.columns(board) }

// found has the results of a search or the solver that a batch has no room for.
type found struct {
	visits    []int32   // [N,A] of a search
	q         []float32 // [N,A]
	low, high []int32   // [N,A] of the solver
	nodes     []uint64  // [N]
}

var founds = sync.Pool{New: func() any { return new(found) }}

// zeros returns s with length n and all values 0.
func zeros[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}
