package queue_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/queue"
)

// Many callers with few positions each share batches.
func ExampleBatcher() {
	h, err := heuristic.New(eval.Bitsquares)
	if err != nil {
		fmt.Println(err)
		return
	}
	batcher := queue.New(h.Backend(), queue.Config{MaxRows: 64, InFlight: 2})
	defer batcher.Close()
	e := eval.New(batcher, eval.Options{})

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
