//go:build cgo && linux && (amd64 || arm64)

package ort

import (
	"context"
	"slices"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// adder is a Backend of one addition, for batches of one.
func adder(t testing.TB) *Backend {
	t.Helper()
	if _, err := Open(Options{}); err != nil {
		t.Skip(err) // and ort_test.go fails if it must not be missing
	}
	b := gametest.Must(New(Model{"adder", oneNode("Add", 2, Float32, 1)}, Codec{
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

// BenchmarkCall measures one row through a graph of one addition: the whole call, the call with a context that can end, and the library's part.
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

// Values of every type go in and come out as they are.
func TestTypes(t *testing.T) {
	adder(t) // or skip
	board := game.MustBoard(game.Connect4)
	try := func(kind Type, fill func(Buffer), same func(Buffer) bool) {
		t.Helper()
		b := gametest.Must(New(Model{kind.String(), oneNode("Identity", 1, kind, 4)}, Codec{
			Inputs:  []Tensor{{Name: "x", Type: kind}},
			Outputs: []Tensor{{Name: "y", Type: kind}},
			Fill:    func(_ *game.Board, _ []game.Position, in []Buffer) { fill(in[0]) },
			Answer: func(_ *eval.Batch, out []Buffer) error {
				if !same(out[0]) || out[0].Type() != kind || out[0].Row() != 1 {
					t.Errorf("%v: other values came out", kind)
				}
				return nil
			},
		}, Options{Threads: 1}))(t)
		defer b.Close()
		gametest.OK(t, b.Compute(t.Context(), eval.NewBatch(board, 3))) // padded to 4
	}
	check(try, Float32, Buffer.Float32s, 1, -2.5, 3e38)
	check(try, Float64, Buffer.Float64s, 1, -2.5, 3e300)
	check(try, Float16, Buffer.Float16s, 1, 0x3c00, 0xffff)
	check(try, Int64, Buffer.Int64s, 1, -2, 1<<60)
	check(try, Int32, Buffer.Int32s, 1, -2, 1<<30)
	check(try, Uint8, Buffer.Uint8s, 1, 2, 255)
	check(try, Bool, Buffer.Uint8s, 1, 0, 1)
	check(try, Int8, Buffer.Int8s, 1, -2, 127)
	defer func() {
		if want := "ort: a buffer of bool is read as float32"; recover() != want {
			t.Errorf("a wrong view did not panic with %s", want)
		}
	}()
	Buffer{kind: Bool}.Float32s()
}

func check[T comparable](try func(Type, func(Buffer), func(Buffer) bool), kind Type, view func(Buffer) []T, values ...T) {
	try(kind, func(b Buffer) { copy(view(b), values) }, func(b Buffer) bool { return slices.Equal(view(b), values) })
}
