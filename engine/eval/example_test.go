package eval_test

import (
	"context"
	"errors"
	"fmt"

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
