//go:build cgo && linux && (amd64 || arm64)

package ort

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// prove computes a model of one addition with the provider, so that one that cannot work is known before the first position: without a
// GPU, for example, the library finds that only when it makes a session.
func (l *Library) prove(o Options) error {
	options, err := l.options(1)
	if err != nil {
		return err
	}
	err = l.addProvider(options, o, "")
	l.freeOptions(options)
	if err != nil {
		return err
	}
	const n = 4
	codec := Codec{
		Inputs:  []Tensor{{Name: "x", Type: Float32}},
		Outputs: []Tensor{{Name: "y", Type: Float32}},
		Fill:    func(_ *game.Board, _ []game.Position, in []Buffer) { copy(in[0].Float32s(), []float32{1, 2, 3, 4}) },
		Answer: func(_ *eval.Batch, out []Buffer) error {
			for i, y := range out[0].Float32s() {
				if want := float32(2 * (i + 1)); y != want {
					return fmt.Errorf("%v plus itself is %v", want/2, y)
				}
			}
			return nil
		},
	}
	b := &Backend{library: l, model: Model{Data: addition(n)}, codec: codec, options: o, sizes: []int{n}, slots: 1, threads: 1}
	defer b.Close()
	if err := b.compute(context.Background(), eval.NewBatch(game.MustBoard(game.Connect4), n)); err != nil {
		log := l.logged()
		if log != "" {
			err = errors.New(log)
		}
		return fmt.Errorf("provider %s of %v does not work: %w", o.provider(), l, err)
	}
	return nil
}

// addition is an ONNX file with y = x + x of n numbers. The numbers of its fields are those of onnx.proto.
func addition(n uint64) []byte {
	number := func(m []byte, field protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), v)
	}
	nest := func(m []byte, field protowire.Number, inner []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), inner)
	}
	text := func(m []byte, field protowire.Number, s string) []byte { return nest(m, field, []byte(s)) }
	port := func(name string) []byte { // ValueInfoProto
		shape := nest(nil, 1, number(nil, 1, n))
		tensor := nest(number(nil, 1, uint64(Float32)), 2, shape)
		return nest(text(nil, 1, name), 2, nest(nil, 1, tensor))
	}
	node := text(text(text(text(nil, 1, "x"), 1, "x"), 2, "y"), 4, "Add")
	graph := nest(nest(text(nest(nil, 1, node), 2, "addition"), 11, port("x")), 12, port("y"))
	return nest(nest(number(nil, 1, 8), 7, graph), 8, number(nil, 2, 17)) // ModelProto: IR version 8, opset 17
}
