package ort

import "google.golang.org/protobuf/encoding/protowire"

// oneNode returns an ONNX file that computes y = op(x), or op(x, x), for tensors of n elements. Numbers of fields are those of onnx.proto.
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
