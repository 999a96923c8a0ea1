//go:build cgo && linux && (amd64 || arm64)

package ort

import (
	"context"
	"os"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// adder is a Backend of one addition, for batches of one.
func adder(t testing.TB) *Backend {
	t.Helper()
	if os.Getenv("EVALD_PYTHON") == "" && os.Getenv("EVALD_ORT_LIBRARY") == "" {
		t.Skip("EVALD_PYTHON names no Python with onnxruntime (see .ci/requirements.txt)")
	}
	if _, err := Open(Options{}); err != nil {
		t.Skip(err) // and ort_test.go fails if it must not be missing
	}
	b := gametest.Must(New(Model{"adder", addition(1)}, Codec{
		Inputs:  []Tensor{{Name: "x", Type: Float32}},
		Outputs: []Tensor{{Name: "y", Type: Float32}},
		Fill:    func(_ *game.Board, _ []game.Position, in []Buffer) { in[0].Float32s()[0] = 0.25 },
		Answer: func(b *eval.Batch, out []Buffer) error {
			y := out[0].Float32s()[0]
			b.WDL[0], b.WDL[1], b.WDL[2] = y, 0, 1-y
			clear(b.Policy)
			return nil
		},
	}, Options{Threads: 1}))(t)
	t.Cleanup(func() { gametest.OK(t, b.Close()) })
	return b
}

// A call allocates nothing in Go, whether its context can end or not.
func TestAllocations(t *testing.T) {
	b := adder(t)
	batch := eval.NewBatch(game.MustBoard(game.Connect4), 1)
	for name, ctx := range map[string]context.Context{"background": context.Background(), "watched": t.Context()} {
		if n := testing.AllocsPerRun(100, func() { gametest.OK(t, b.Compute(ctx, batch)) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if batch.WDL[0] != 0.5 {
		t.Errorf("a quarter plus a quarter is %v", batch.WDL[0])
	}
}

// BenchmarkCall is one row through a graph of one addition: all of a call, the same with a context that can end, and the library's part of it.
func BenchmarkCall(b *testing.B) {
	backend := adder(b)
	board := game.MustBoard(game.Connect4)
	batch := eval.NewBatch(board, 1)
	gametest.OK(b, backend.Compute(context.Background(), batch))
	b.Run("call", func(b *testing.B) {
		for b.Loop() {
			gametest.OK(b, backend.Compute(context.Background(), batch))
		}
	})
	b.Run("watched", func(b *testing.B) {
		for b.Loop() {
			gametest.OK(b, backend.Compute(b.Context(), batch))
		}
	})
	b.Run("library", func(b *testing.B) {
		s := backend.boards[0].sessions[0]
		p := gametest.Must(s.take(context.Background()))(b)
		defer func() { s.free <- p }()
		for b.Loop() {
			gametest.OK(b, s.runSlot(context.Background(), p))
		}
	})
}
