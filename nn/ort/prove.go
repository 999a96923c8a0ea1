//go:build cgo && linux && (amd64 || arm64)

package ort

import (
	"context"
	"errors"
	"fmt"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// prove runs an addition with the provider, so that a provider that does not work is detected before the first position. Without a GPU, for
// example, the library fails only when it makes a session.
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
	b := &Backend{library: l, model: Model{Data: oneNode("Add", 2, Float32, n)}, codec: codec, options: o, sizes: []int{n}, slots: 1, threads: 1}
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
