package eval_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
)

// lost is a device that does not answer any more.
type lost struct{}

func (lost) Attributes() eval.Attributes { return eval.Attributes{Rows: 1, Invariant: true} }

func (lost) Compute(context.Context, *eval.Batch) error { return errors.New("device lost") }

func bitsquares() eval.Backend {
	h, err := heuristic.New(eval.Bitsquares)
	if err != nil {
		panic(err)
	}
	return h.Backend()
}

// If a device fails, a heuristic answers, and each row says so.
func ExampleFallback() {
	e := eval.New(eval.Fallback{
		{Name: "gpu", Backend: lost{}},
		{Name: "bitsquares", Backend: bitsquares()},
	}, eval.Options{})
	b := eval.NewBatch(game.MustBoard(game.Connect4), 1) // one row, of the empty board
	if err := e.Evaluate(context.Background(), b); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("win, draw, loss %v by %v\n", b.WDLRow(0), b.Source[0])
	// Output:
	// win, draw, loss [0.5 0 0.5] by bitsquares
}

// Many callers with few positions each share batches.
func ExampleEvaluator_batch() {
	e := eval.New(bitsquares(), eval.Options{Batch: &eval.BatcherConfig{MaxRows: 64, InFlight: 2}})
	defer e.Close()

	board := game.MustBoard(game.Connect4)
	values := make([]float32, board.Actions())
	var wait sync.WaitGroup
	for column := range values {
		wait.Go(func() {
			b := eval.NewBatch(board, 1)
			b.Pos[0] = board.Play(game.Position{}, column)
			if err := e.Evaluate(context.Background(), b); err != nil {
				fmt.Println(err)
				return
			}
			values[column] = -b.Value(0) // the row's value is that of the other side, who moves next
		})
	}
	wait.Wait()
	for column, v := range values {
		fmt.Printf("column %d: %.3f\n", column+1, v)
	}
	// Output:
	// column 1: 0.211
	// column 2: 0.278
	// column 3: 0.343
	// column 4: 0.462
	// column 5: 0.343
	// column 6: 0.278
	// column 7: 0.211
}
