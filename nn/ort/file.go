package ort

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// checkFile is an error if the file is no ONNX, or has weights in other files: ONNX Runtime would open any file that such a model names.
func checkFile(data []byte) error {
	if len(data) == 0 {
		return errors.New("the file is empty")
	}
	return walk(data, modelProto, 0)
}

// message is a message of onnx.proto, with the fields that can lead to a tensor, by number. That table is facts of the format.
type message struct {
	name   string
	fields map[protowire.Number]*message
}

var (
	tensorProto    = &message{name: "TensorProto"}
	sparseProto    = &message{"SparseTensorProto", map[protowire.Number]*message{1: tensorProto, 2: tensorProto}}
	attributeProto = &message{name: "AttributeProto"}
	nodeProto      = &message{"NodeProto", map[protowire.Number]*message{5: attributeProto}}
	graphProto     = &message{"GraphProto", map[protowire.Number]*message{1: nodeProto, 5: tensorProto, 15: sparseProto}}
	functionProto  = &message{"FunctionProto", map[protowire.Number]*message{7: nodeProto, 11: attributeProto}}
	trainingProto  = &message{"TrainingInfoProto", map[protowire.Number]*message{1: graphProto, 2: graphProto}}
	modelProto     = &message{"ModelProto", map[protowire.Number]*message{7: graphProto, 20: trainingProto, 25: functionProto}}
)

// attributeFields closes the circle: the attribute of a node may have a graph.
var attributeFields = map[protowire.Number]*message{5: tensorProto, 6: graphProto, 10: tensorProto, 11: graphProto, 22: sparseProto, 23: sparseProto}

// Fields of TensorProto that say that its values are in another file.
const (
	externalData = 13
	dataLocation = 14
)

// maxDepth is more than the messages within messages that the library itself accepts.
const maxDepth = 200

func walk(data []byte, m *message, depth int) error {
	if depth > maxDepth {
		return errors.New("it is no ONNX file that can be read: its parts are too deep in each other")
	}
	fields := m.fields
	if m == attributeProto {
		fields = attributeFields
	}
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return fmt.Errorf("it is no ONNX file, or a damaged one: %s: %w", m.name, protowire.ParseError(n))
		}
		length := protowire.ConsumeFieldValue(number, kind, data[n:])
		if length < 0 {
			return fmt.Errorf("it is no ONNX file, or a damaged one: %s: %w", m.name, protowire.ParseError(length))
		}
		value := data[n : n+length]
		data = data[n+length:]
		if m == tensorProto && (number == externalData || number == dataLocation && string(value) != "\x00") {
			return errors.New("it has weights in other files, which is refused: save it as one file (onnx.save with save_as_external_data=False)")
		}
		if inner := fields[number]; inner != nil && kind == protowire.BytesType {
			inside, _ := protowire.ConsumeBytes(value)
			if err := walk(inside, inner, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// oneNode is an ONNX file with y = op(x), or op(x, x), for tensors of n elements. The numbers of its fields are those of onnx.proto.
func oneNode(op string, inputs int, kind Type, n uint64) []byte {
	number := func(m []byte, field protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), v)
	}
	nest := func(m []byte, field protowire.Number, inner []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), inner)
	}
	text := func(m []byte, field protowire.Number, s string) []byte { return nest(m, field, []byte(s)) }
	port := func(name string) []byte { // ValueInfoProto
		shape := nest(nil, 1, number(nil, 1, n))
		tensor := nest(number(nil, 1, uint64(kind)), 2, shape)
		return nest(text(nil, 1, name), 2, nest(nil, 1, tensor))
	}
	var node []byte
	for range inputs {
		node = text(node, 1, "x")
	}
	node = text(text(node, 2, "y"), 4, op)
	graph := nest(nest(text(nest(nil, 1, node), 2, op), 11, port("x")), 12, port("y"))
	return nest(nest(number(nil, 1, 8), 7, graph), 8, number(nil, 2, 17)) // ModelProto: IR version 8, opset 17
}
