package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/kernels/cuda"
	"github.com/evald/evald/nn/gpu"
	"github.com/evald/evald/nn/pattern"
)

// patternBatch is the number of rows that the evaluator of pattern tables computes at once on one core.
const patternBatch = 128

// tables is limited by the rows of its tables, wherever these are.
type tables struct{ *pattern.Network }

func (t tables) onGPU(o gpu.Options) (*gpu.Backend, []error, error) {
	return gpu.NewTables(t.Network, o)
}

func (tables) distinct() bool { return true }

func (tables) work(row *GPURow, _ *game.Board) { row.Bytes = row.Launch * tableBytes(row.Kernel) }

func (tables) startPeer(_ context.Context, p *Torch, _ *eval.Batch) error {
	return fmt.Errorf("--peer %s computes networks of convolutions, and this is one of pattern tables", p.Way)
}

// onCPU measures one core. The ceiling is the tables and layers alone.
func (t tables) onCPU(ctx context.Context, d time.Duration, name string, progress Progress) ([]Figure, error) {
	n := t.Network
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

// tableBytes returns the bytes of the rows that a kernel for pattern tables reads for a position.
func tableBytes(kernel string) float64 {
	for _, k := range cuda.TablesKernels() {
		if k.Name == kernel {
			return float64(pattern.Each * k.RowBytes())
		}
	}
	return 0
}
