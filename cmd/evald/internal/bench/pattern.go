package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/evald/evald/engine/game"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/nn/pattern"
)

// patternBatch is the number of rows that the evaluator of pattern tables computes at once on one core.
const patternBatch = 128

// patterns measures a network of pattern tables on one core, with every path of the CPU. The ceiling is its tables and layers alone. Each
// round takes about d.
func patterns(ctx context.Context, d time.Duration, n *pattern.Network, name string, progress Progress) ([]Figure, error) {
	board := game.MustBoard(game.Connect4)
	positions := playedPositions(board, 64*patternBatch)
	b := newBatch(board, positions, len(positions))
	var rows []int32
	for _, p := range positions {
		rows = pattern.AppendRows(rows, p)
	}
	out := make([]int32, patternBatch*kernel.Outputs)

	var contenders []*contender
	for _, p := range kernel.Paths() {
		e, err := pattern.NewBackendPath(n, p)
		if err != nil {
			return nil, err
		}
		alone, err := kernel.New(&n.Weights, p)
		if err != nil {
			return nil, err
		}
		c := &contender{name: fmt.Sprintf("network %s, %s, 1 core", name, p), why: "its tables and layers alone"}
		c.round = func() (float64, error) {
			from := 0
			t, err := count(1, d, func(int) (int, error) {
				part := b.Slice(from, from+patternBatch)
				from = (from + patternBatch) % len(positions)
				return patternBatch, e.Compute(ctx, &part)
			})
			return t.rate(), err
		}
		c.ceiling = func(d time.Duration) float64 {
			from := 0
			t, _ := count(1, d, func(int) (int, error) {
				alone.Forward(rows[from*pattern.Each:][:patternBatch*pattern.Each], pattern.Each, out)
				from = (from + patternBatch) % len(positions)
				return patternBatch, nil
			})
			return t.rate()
		}
		contenders = append(contenders, c)
	}
	plain := contenders[len(contenders)-1]
	if err := race(ctx, contenders, d, progress); err != nil {
		return nil, err
	}
	var figures []Figure
	for _, c := range contenders {
		figures = append(figures, c.figure(plain))
	}
	return figures, nil
}
