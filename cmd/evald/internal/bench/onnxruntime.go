package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/open"
)

// runtimeBatches are the batch sizes that Runtime measures.
var runtimeBatches = []int{1, 8, 64, 256, 1024, 4096}

// Runtime measures a network with ONNX Runtime (theirs) and, unless ours is nil, in turns with the backend that evald would choose, for
// several batch sizes. Each round takes about d.
func Runtime(ctx context.Context, d time.Duration, name string, theirs, ours *open.Opened, progress Progress) ([]Figure, error) {
	rules := game.Connect4
	if len(theirs.Games) > 0 {
		rules = theirs.Games[0]
	}
	board := game.MustBoard(rules)
	positions := playedPositions(board, slices.Max(runtimeBatches))
	var figures []Figure
	for _, size := range runtimeBatches {
		compute := func(e *open.Opened, how string) *contender {
			b := newBatch(board, positions, size)
			return &contender{name: fmt.Sprintf("network %s by %s, batches of %d", name, how, size), round: timed(ctx, e.Backend().Compute, b, d)}
		}
		all := []*contender{compute(theirs, string(sourceOf(ctx, theirs, board)))}
		if ours != nil {
			all = append(all, compute(ours, string(sourceOf(ctx, ours, board))))
		}
		if err := race(ctx, all, d, progress); err != nil {
			return nil, err
		}
		for _, c := range all {
			figures = append(figures, c.figure(all[len(all)-1]))
		}
	}
	return figures, nil
}

// sourceOf returns the source of an evaluator's answers.
func sourceOf(ctx context.Context, e *open.Opened, board *game.Board) eval.Source {
	b := eval.NewBatch(board, 1)
	clear(b.Pos)
	if err := e.Backend().Compute(ctx, b); err != nil {
		return eval.None // the measurement will report the error
	}
	return b.Source[0]
}
