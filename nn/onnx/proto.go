package onnx

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// The part of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto that a network needs: messages, numbers of fields and element types.

// message is an encoded protocol buffer message that can be extended.
type message []byte

func (m *message) number(field protowire.Number, v int64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), uint64(v))
}

func (m *message) bytes(field protowire.Number, v []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), v)
}

func (m *message) text(field protowire.Number, v string) { m.bytes(field, []byte(v)) }

func (m *message) nest(field protowire.Number, fill func(*message)) {
	var inner message
	fill(&inner)
	m.bytes(field, inner)
}

// TensorProto.DataType
const (
	float32Type = 1
	int16Type   = 5
	int64Type   = 7
	float16Type = 10
)

// graph is a GraphProto under construction. Nodes must be added in an order in which they can run.
type graph struct{ nodes, tensors, inputs, outputs message }

func (g *graph) marshal(name string) []byte {
	m := append(message(nil), g.nodes...)
	m.text(2, name)
	m = append(m, g.tensors...)
	m = append(m, g.inputs...)
	return append(m, g.outputs...)
}

// attribute returns an AttributeProto of the given kind, with its values in the given field.
func attribute(name string, field protowire.Number, kind int64, vs ...int64) (m message) {
	m.text(1, name)
	for _, v := range vs {
		m.number(field, v)
	}
	m.number(20, kind)
	return m
}

func integer(name string, v int64) message  { return attribute(name, 3, 2, v) }     // INT
func ints(name string, vs ...int64) message { return attribute(name, 8, 7, vs...) } // INTS

// node adds a NodeProto with one output, and returns the output's name.
func (g *graph) node(op, output string, inputs []string, attributes ...message) string {
	g.nodes.nest(1, func(m *message) {
		for _, input := range inputs {
			m.text(1, input)
		}
		m.text(2, output)
		m.text(3, output)
		m.text(4, op)
		for _, a := range attributes {
			m.bytes(5, a)
		}
	})
	return output
}

// tensor adds a constant TensorProto. values is a slice of numbers; a nil shape means a scalar.
func (g *graph) tensor(name string, kind int64, shape []int, values any) {
	raw, err := binary.Append(nil, binary.LittleEndian, values)
	if err != nil {
		panic(err) // values is not a slice of numbers of fixed size
	}
	g.tensors.nest(5, func(m *message) {
		for _, d := range shape {
			m.number(1, int64(d))
		}
		m.number(2, kind)
		m.text(8, name)
		m.bytes(9, raw)
	})
}

func (g *graph) floats(name string, shape []int, values []float32) {
	g.tensor(name, float32Type, shape, values)
}

func (g *graph) int64s(name string, shape []int, values ...int64) {
	g.tensor(name, int64Type, shape, values)
}

func (g *graph) input(name string, kind int64, shape ...any) {
	g.inputs.nest(11, value(name, kind, shape))
}

func (g *graph) output(name string, shape ...any) {
	g.outputs.nest(12, value(name, float32Type, shape))
}

// value returns the ValueInfoProto of a tensor. Fixed dimensions are numbers, free ones names.
func value(name string, kind int64, shape []any) func(*message) {
	return func(m *message) {
		m.text(1, name)
		m.nest(2, func(m *message) { // TypeProto
			m.nest(1, func(m *message) { // Tensor
				m.number(1, kind)
				m.nest(2, func(m *message) { // TensorShapeProto
					for _, d := range shape {
						m.nest(1, func(m *message) {
							if size, ok := d.(int); ok {
								m.number(1, int64(size))
							} else {
								m.text(2, d.(string))
							}
						})
					}
				})
			})
		})
	}
}
