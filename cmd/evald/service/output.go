package service

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// The outputs, which the package's doc describes.
const (
	wdlOutput      = "wdl"
	valueOutput    = "value"
	policyOutput   = "policy"
	gameoverOutput = "gameover"
	sourceOutput   = "source"
	visitsOutput   = "visits"
	qOutput        = "q"
)

// outputTypes are the outputs' datatypes.
var outputTypes = map[string]string{
	wdlOutput: floatType, valueOutput: floatType, policyOutput: floatType, gameoverOutput: uint8Type, sourceOutput: bytesType,
	visitsOutput: int32Type, qOutput: floatType,
}

var evaluatedOutputs = []string{wdlOutput, valueOutput, policyOutput, gameoverOutput, sourceOutput}

var searchedOutputs = append(slices.Clone(evaluatedOutputs), visitsOutput, qOutput)

// width is how many values a row of an output has.
func width(name string, board *game.Board) int {
	switch name {
	case wdlOutput:
		return 3
	case policyOutput, visitsOutput, qOutput:
		return board.Actions()
	}
	return 1
}

// found is what a search found for the moves of each row; each field is [N,A].
type found struct {
	visits []int32
	q      []float32
}

var founds = sync.Pool{New: func() any { return new(found) }}

// reset makes room for n moves, without visits.
func (f *found) reset(n int) {
	f.visits, f.q = slices.Grow(f.visits[:0], n)[:n], slices.Grow(f.q[:0], n)[:n]
	clear(f.visits)
	clear(f.q)
}

// room is about how many bytes an output of n rows takes.
func room(name string, board *game.Board, n int) int {
	if name == sourceOutput {
		return 16 * n
	}
	return 4 * n * width(name, board)
}

// appendOutput writes an output's values.
func appendOutput(to []byte, name string, b *eval.Batch, f *found) []byte {
	switch name {
	case wdlOutput:
		return appendFloats(to, b.WDL)
	case valueOutput:
		for i := range b.Pos {
			to = binary.LittleEndian.AppendUint32(to, math.Float32bits(b.Value(i)))
		}
	case policyOutput:
		return appendFloats(to, b.Policy)
	case gameoverOutput:
		for i, p := range b.Pos {
			// If the game is over, the evaluator has answered by the rules.
			code := uint8(game.NotOver)
			if b.Source[i] == eval.Terminal {
				code = b.Board.Result(p).GameOver()
			}
			to = append(to, code)
		}
	case sourceOutput:
		for _, s := range b.Source {
			to = appendBytes(to, s.String())
		}
	case visitsOutput:
		for _, v := range f.visits {
			to = binary.LittleEndian.AppendUint32(to, uint32(v))
		}
	case qOutput:
		return appendFloats(to, f.q)
	}
	return to
}
