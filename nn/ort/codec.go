package ort

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// Codec converts positions to a network's inputs, and outputs to answers. Fill and Answer are called concurrently.
type Codec struct {
	// Inputs are all inputs of the model; Outputs are only those that Answer needs. New compares both with the model.
	Inputs, Outputs []Tensor

	// Fill writes the inputs of all positions: inputs[i] is Inputs[i], with len(pos) rows. It must write every value, because the memory
	// contains values of an earlier call.
	Fill func(board *game.Board, pos []game.Position, inputs []Buffer)

	// Answer fills WDL and Policy of b from the outputs: outputs[i] is Outputs[i], with len(b.Pos) rows. The Backend sets Source. The error
	// names the row and describes the fault.
	Answer func(b *eval.Batch, outputs []Buffer) error
}

// Tensor is an input or output for a Codec. In the model, its first dimension is the batch.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int // of one position, without the batch; fixed sizes, or sizes of the board (Rows, Columns, Cells, Actions)
}

// Sizes in a Tensor's Shape that depend on the board.
const (
	Rows    = -1 - iota
	Columns // columns of the board
	Cells   // rows times columns
	Actions // possible moves: columns with gravity, else cells
)

// shape returns the tensor's shape for n positions on a board.
func (t Tensor) shape(board *game.Board, n int) []int64 {
	shape := []int64{int64(n)}
	for _, size := range t.Shape {
		switch size {
		case Rows:
			size = board.Rows()
		case Columns:
			size = board.Columns()
		case Cells:
			size = board.Cells()
		case Actions:
			size = board.Actions()
		}
		shape = append(shape, int64(size))
	}
	return shape
}

// String returns a text such as "obs float32 [N,3,rows,columns]".
func (t Tensor) String() string {
	sizes := []string{"N"}
	for _, size := range t.Shape {
		text := strconv.Itoa(size)
		if at := -1 - size; at >= 0 && at < 4 {
			text = [...]string{"rows", "columns", "cells", "actions"}[at]
		}
		sizes = append(sizes, text)
	}
	return fmt.Sprintf("%s %v [%s]", t.Name, t.Type, strings.Join(sizes, ","))
}

// Type is the type of a tensor's elements, numbered as in ONNX (TensorProto.DataType).
type Type int

// The types of Buffers. Tensors of the model that the Codec does not use may have other types.
const (
	Float32 Type = 1
	Uint8   Type = 2
	Int8    Type = 3
	Int32   Type = 6
	Int64   Type = 7
	Bool    Type = 9
	Float16 Type = 10
	Float64 Type = 11
)

var typeNames = map[Type]string{
	Float32: "float32", Uint8: "uint8", Int8: "int8", 4: "uint16", 5: "int16", Int32: "int32", Int64: "int64", 8: "string", Bool: "bool",
	Float16: "float16", Float64: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
}

// String returns a text such as "float32".
func (t Type) String() string {
	if name, ok := typeNames[t]; ok {
		return name
	}
	return "type " + strconv.Itoa(int(t))
}

// size returns the number of bytes of an element; 0 for types that a Buffer cannot have.
func (t Type) size() int {
	switch t {
	case Uint8, Int8, Bool:
		return 1
	case Float16:
		return 2
	case Float32, Int32:
		return 4
	case Int64, Float64:
		return 8
	}
	return 0
}

// Buffer is a tensor of positions, rows first, in the memory on which the library computes. The methods named after types return views of
// that memory: writing to a view writes an input. Views are valid during the call of Fill or Answer that receives the Buffer. The methods
// panic if the tensor has another type.
type Buffer struct {
	kind Type
	at   unsafe.Pointer
	rows int
	row  int // number of elements per row
}

// Type returns the type of the elements.
func (b Buffer) Type() Type { return b.kind }

// Row returns the number of elements of one position.
func (b Buffer) Row() int { return b.row }

// Float32s returns the tensor's elements.
func (b Buffer) Float32s() []float32 { return view[float32](b, Float32) }

// Float64s returns the tensor's elements.
func (b Buffer) Float64s() []float64 { return view[float64](b, Float64) }

// Float16s returns the bits of the tensor's elements.
func (b Buffer) Float16s() []uint16 { return view[uint16](b, Float16) }

// Int64s returns the tensor's elements.
func (b Buffer) Int64s() []int64 { return view[int64](b, Int64) }

// Int32s returns the tensor's elements.
func (b Buffer) Int32s() []int32 { return view[int32](b, Int32) }

// Int8s returns the tensor's elements.
func (b Buffer) Int8s() []int8 { return view[int8](b, Int8) }

// Uint8s returns the tensor's elements. Those of Bool are 0 or 1.
func (b Buffer) Uint8s() []uint8 { return view[uint8](b, Uint8, Bool) }

func view[T any](b Buffer, want ...Type) []T {
	if !slices.Contains(want, b.kind) {
		panic(fmt.Sprintf("ort: a buffer of %v is read as %v", b.kind, want[0]))
	}
	return unsafe.Slice((*T)(b.at), b.rows*b.row)
}
