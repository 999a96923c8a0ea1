package onnx

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/evald/evald/engine/short"
)

// Limits of Read, far above what networks for boards need.
const (
	maxFile       = 1 << 30 // bytes of a file
	maxItems      = 1 << 18 // nodes, tensors, inputs, outputs and properties
	maxNesting    = 32      // graphs within attributes of nodes
	maxDims       = 8       // of an input or output
	maxParameters = 1 << 31 // numbers in all tensors together
)

// Info is a description of an ONNX file, read without running it.
type Info struct {
	IR         int64             // version of the format
	Producer   string            // the program that wrote the file, and its version
	Opsets     map[string]int64  // versions of operator sets by domain; the standard domain is ""
	Metadata   map[string]string // metadata_props
	Inputs     []Value           // the graph's inputs that have no initializer, in order
	Outputs    []Value           // in order
	Nodes      int               // number of nodes of the graph, its nested graphs and functions
	Parameters int64             // number of values in initializers
}

// Value is an input or an output.
type Value struct {
	Name  string
	Type  Type
	Shape []Dim // nil if the file does not give it
}

// Dim is one dimension of a Shape.
type Dim struct {
	Size int64  // -1 if free
	Name string // of a free dimension, if it has a name
}

// Type is the type of a tensor's elements, numbered as TensorProto.DataType of ONNX.
type Type int32

// The types of networks' inputs and outputs.
const (
	Float32 Type = float32Type
	Uint8   Type = 2
	Int8    Type = 3
	Int32   Type = 6
	Int64   Type = int64Type
	Bool    Type = 9
	Float16 Type = float16Type
	Float64 Type = 11
)

func (t Type) String() string {
	names := map[Type]string{Float32: "float32", Uint8: "uint8", Int8: "int8", Int32: "int32", Int64: "int64", Bool: "bool", Float16: "float16", Float64: "float64"}
	if name, ok := names[t]; ok {
		return name
	}
	return "type " + strconv.Itoa(int(t))
}

// Read parses an ONNX file's description. It rejects content that is dangerous in a runtime: references to other files (external data,
// nodes EPContext) and operators that need further libraries. It accepts the standard operators, those of com.microsoft, which ONNX Runtime
// contains, and functions of the file that consist of these. Errors name the node or tensor. Read takes time in proportion to the file's
// size, and little additional memory.
//
// Read does not check that the graph can run. The runtime checks that, in a process that may crash.
func Read(content []byte) (*Info, error) {
	info, err := read(content)
	if err != nil {
		return nil, fmt.Errorf("read ONNX: %w", err)
	}
	return info, nil
}

func read(content []byte) (*Info, error) {
	if len(content) > maxFile {
		return nil, fmt.Errorf("the file has %d bytes, must have at most %d", len(content), maxFile)
	}
	if len(content) >= 8 && bytes.Equal(content[4:8], []byte("ORTM")) {
		return nil, errors.New("the file has ONNX Runtime's own format, which evald does not check: give the original ONNX file")
	}
	w := walk{info: &Info{Opsets: map[string]int64{}, Metadata: map[string]string{}}, functions: map[operator]bool{}}
	if err := w.model(content); err != nil {
		return nil, err
	}
	return w.info, nil
}

type field struct {
	number protowire.Number
	kind   protowire.Type
	varint uint64 // if the kind is VarintType
	bytes  []byte // if the kind is BytesType
}

// each calls visit with each field of a message, in order. It returns visit's error unchanged.
func each(message []byte, visit func(field) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return damaged(protowire.ParseError(n))
		}
		message = message[n:]
		f := field{number: number, kind: kind}
		switch kind {
		case protowire.VarintType:
			f.varint, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(message)
		case protowire.Fixed32Type:
			_, n = protowire.ConsumeFixed32(message)
		case protowire.Fixed64Type:
			_, n = protowire.ConsumeFixed64(message)
		default: // groups, which ONNX does not use
			return damaged(fmt.Errorf("field %d has wire type %d", number, kind))
		}
		if n < 0 {
			return damaged(protowire.ParseError(n))
		}
		message = message[n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// damaged returns the error for bytes that are not a valid message.
func damaged(err error) error { return fmt.Errorf("the file is damaged or no ONNX: %w", err) }

// message returns the content of a field that is a message, a text or bytes.
func (f field) message() ([]byte, error) {
	if f.kind != protowire.BytesType {
		return nil, damaged(fmt.Errorf("field %d has wire type %d, want %d", f.number, f.kind, protowire.BytesType))
	}
	return f.bytes, nil
}

func (f field) text(s *string) error {
	b, err := f.message()
	if err != nil {
		return err
	}
	if !utf8.Valid(b) {
		return damaged(fmt.Errorf("the text %s is no UTF-8", short.Quote(string(b))))
	}
	*s = string(b)
	return nil
}

func (f field) integer(n *int64) error {
	if f.kind != protowire.VarintType {
		return damaged(fmt.Errorf("field %d has wire type %d, want %d", f.number, f.kind, protowire.VarintType))
	}
	*n = int64(f.varint)
	return nil
}

// integers appends the integers of a repeated field, single or packed, and returns an error if there are more than most.
func (f field) integers(all []int64, most int) ([]int64, error) {
	packed := f.bytes
	if f.kind == protowire.VarintType {
		packed = protowire.AppendVarint(nil, f.varint)
	} else if f.kind != protowire.BytesType {
		return nil, damaged(fmt.Errorf("field %d has wire type %d, want numbers", f.number, f.kind))
	}
	for len(packed) > 0 {
		v, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			return nil, damaged(protowire.ParseError(n))
		}
		if len(all) == most {
			return nil, fmt.Errorf("it has more than %d dimensions", most)
		}
		all, packed = append(all, int64(v)), packed[n:]
	}
	return all, nil
}

// String returns a text such as "planes float32 [N,5,H,W]".
func (v Value) String() string {
	text := fmt.Sprintf("%s %v", short.Text(v.Name), v.Type)
	if v.Shape == nil {
		return text
	}
	return text + " " + Dims(v.Shape)
}

// Dims formats a shape: [N,3,6,7].
func Dims(shape []Dim) string {
	sizes := make([]string, len(shape))
	for i, d := range shape {
		switch {
		case d.Size >= 0:
			sizes[i] = strconv.FormatInt(d.Size, 10)
		case d.Name != "":
			sizes[i] = short.To(d.Name, 40)
		default:
			sizes[i] = "?"
		}
	}
	return "[" + strings.Join(sizes, ",") + "]"
}
