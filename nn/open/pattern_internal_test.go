package open

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// Batches of few rows go to one backend and all others to the other, and its errors are not hidden.
func TestBySize(t *testing.T) {
	board := game.MustBoard(game.Connect4)
	broken := errors.New("lost")
	few, many := &evaltest.Stub{Source: eval.Fast}, &evaltest.Stub{Source: eval.GPU}
	s := bySize{few, many, 4}
	for rows, want := range map[int]eval.Source{1: eval.Fast, 3: eval.Fast, 4: eval.GPU, 9: eval.GPU} {
		b := eval.NewBatch(board, rows)
		gametest.OK(t, s.Compute(t.Context(), b))
		if !slices.Equal(b.Source, slices.Repeat([]eval.Source{want}, rows)) {
			t.Errorf("%d rows are by %v, want %s", rows, b.Source, want)
		}
	}
	many.Before = func(context.Context, *eval.Batch) error { return broken }
	if err := s.Compute(t.Context(), eval.NewBatch(board, 4)); !errors.Is(err, broken) {
		t.Errorf("4 rows: %v, want %v", err, broken)
	}
	gametest.OK(t, s.Compute(t.Context(), eval.NewBatch(board, 3)))
	if a := s.Attributes(); a.Rows != 64 || !a.Invariant {
		t.Errorf("attributes %+v", s.Attributes())
	}
}

// The crossing is at least one row and, of a GPU whose calls fail, the most.
func TestCrossing(t *testing.T) {
	stub := new(evaltest.Stub)
	failing := &evaltest.Stub{Before: func(context.Context, *eval.Batch) error { return errors.New("lost") }}
	if n := crossing(stub, failing); n != mostCrossing {
		t.Errorf("with a GPU that fails: %d rows, want %d", n, mostCrossing)
	}
	if n := crossing(failing, stub); n != 1 {
		t.Errorf("with a CPU that fails: %d rows, want 1", n)
	}
	if n := crossing(stub, stub); n < 1 || n > mostCrossing || stub.Rows.Load() < crossingRows {
		t.Errorf("%d rows, after %d rows", n, stub.Rows.Load())
	}
	if sizes := stub.Sizes(); !slices.Contains(sizes, 1) || !slices.Contains(sizes, crossingRows) {
		t.Errorf("batches of %v", sizes)
	}
}
