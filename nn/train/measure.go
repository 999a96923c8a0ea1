package train

import (
	"context"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/kernels/cpu/conv"
	"github.com/evald/evald/nn/net"
)

// measureBatch is the number of positions measured at once.
const measureBatch = 1024

// Measure computes the losses and accuracies of a network on the given number of examples of the source, rounded up to whole batches of
// 1024. progress, if not nil, is called with the number of examples so far.
func Measure(ctx context.Context, n *net.Network, b *game.Board, source Source, examples int, w Weights, progress func(done int)) (Losses, error) {
	g, err := newGraph(n, b, measureBatch, w, false, conv.NewPool(0))
	if err != nil {
		return Losses{}, err
	}
	defer g.close()
	return MeasureBy(ctx, g.measure, source, examples, progress)
}

// MeasureBy is Measure with a function that computes a batch's losses.
func MeasureBy(ctx context.Context, losses func([]Example) (*Losses, error), source Source, examples int, progress func(done int)) (all Losses, err error) {
	batch := make([]Example, measureBatch)
	for step := 0; step*measureBatch < examples; step++ {
		if err := ctx.Err(); err != nil {
			return all, err
		}
		if err := source(step, batch); err != nil {
			return all, err
		}
		seen, err := losses(batch)
		if err != nil {
			return all, err
		}
		all.add(seen)
		if progress != nil {
			progress((step + 1) * measureBatch)
		}
	}
	return all, nil
}

func (l *Losses) add(other *Losses) {
	l.WDL, l.Policy, l.GameOver = l.WDL.add(other.WDL), l.Policy.add(other.Policy), l.GameOver.add(other.GameOver)
}
