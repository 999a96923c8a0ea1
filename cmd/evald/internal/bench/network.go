package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/nn/cpu"
	"github.com/evald/evald/nn/gpu"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/open"
)

// networkBatch is the number of rows per batch in measurements of networks.
const networkBatch = 256

// contender is one way to evaluate a network. Contenders are measured in turns, so that other load on the machine affects all of them
// equally.
type contender struct {
	name    string
	round   func() (float64, error) // runs a round and returns positions per second
	ceiling func(d time.Duration) float64
	why     string
	rates   []float64
	perCPU  []float64 // positions per second of this process's processor time
	peaks   []float64
}

// race measures the contenders in turns.
func race(ctx context.Context, contenders []*contender, d time.Duration, progress Progress) error {
	for i := range rounds + 1 { // the first warms up
		for _, c := range contenders {
			if err := ctx.Err(); err != nil {
				return err
			}
			progress.show("%s, round %d of %d", c.name, i, rounds)
			start, used := time.Now(), processorTime()
			rate, err := c.round()
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if i == 0 {
				c.rates, c.perCPU, c.peaks = nil, nil, nil
				continue
			}
			c.rates = append(c.rates, rate)
			c.perCPU = append(c.perCPU, rate*time.Since(start).Seconds()/(processorTime()-used).Seconds())
			if c.ceiling != nil {
				c.peaks = append(c.peaks, c.ceiling(d/4))
			}
		}
	}
	return nil
}

// figure returns the contender's median rate, and as its ratio to another contender the median of the rounds' ratios.
func (c *contender) figure(to *contender) Figure {
	f := Figure{Name: c.name, Unit: "positions"}
	if len(c.peaks) > 0 {
		f.Ceiling, f.Why = median(c.peaks), c.why
	}
	if to != c {
		f.Ratio, f.To = median(c.ratios(to)), to.name
	}
	f.Rate = median(c.rates)
	return f
}

// ratios returns the contender's rate divided by another's for each round.
func (c *contender) ratios(to *contender) (all []float64) {
	for i, r := range c.rates {
		all = append(all, r/to.rates[i])
	}
	return all
}

// pathContender returns a contender that evaluates with the kernels of one path on all threads.
func pathContender(ctx context.Context, n *net.Network, name string, p kernel.Path, b *eval.Batch, d time.Duration) (*contender, error) {
	e, err := cpu.NewPath(n, p)
	if err != nil {
		return nil, err
	}
	c := &contender{name: fmt.Sprintf("network %s, %s", name, p), round: timed(ctx, e.Compute, b, d)}
	if p.Peak(1) > 0 {
		first, rest := macs(n, b.Board, p)
		c.ceiling = func(d time.Duration) float64 {
			return 1 / (first/peak(p.PeakFirst, e.Threads(), d/2) + rest/peak(p.Peak, e.Threads(), d/2))
		}
		c.why = fmt.Sprintf("%.1f M multiply-adds each, zeros too, in registers", (first+rest)/1e6)
	}
	return c, nil
}

// timed returns a round that computes b repeatedly for about d.
func timed(ctx context.Context, compute func(context.Context, *eval.Batch) error, b *eval.Batch, d time.Duration) func() (float64, error) {
	return func() (float64, error) {
		t, err := count(1, d, func(int) (int, error) { return len(b.Pos), compute(ctx, b) })
		return t.rate(), err
	}
}

// together returns the rate, in positions per second, of n concurrent callers that each evaluate the positions repeatedly for about d.
func together(ctx context.Context, compute func(context.Context, *eval.Batch) error, board *game.Board, positions []game.Position, n int, d time.Duration) (float64, error) {
	batches := make([]*eval.Batch, n)
	for i := range batches {
		batches[i] = newBatch(board, positions, len(positions))
	}
	t, err := count(n, d, func(i int) (int, error) { return len(positions), compute(ctx, batches[i]) })
	return t.rate(), err
}

// macs returns the number of multiply-adds of a path for the 3x3 convolutions of one position, without those outside the board: in the
// blocks' first convolutions, and in the others. They are about 99% of the network's. A path that skips zeros in the input makes fewer, and
// so may exceed its ceiling.
func macs(n *net.Network, b *game.Board, p kernel.Path) (first, rest float64) {
	c := n.Config()
	one, two := p.Products(b.Rows(), b.Columns())
	stem := c.Channels * net.PlaneCount * (3*b.Rows() - 2) * (3*b.Columns() - 2)
	blocks := c.Blocks * c.Channels * c.Channels
	return float64(blocks * one), float64(stem + blocks*two)
}

// peak returns the multiply-adds per second that threads threads reach with all operands in registers. run runs n rounds of instructions and
// returns the number of their multiply-adds.
func peak(run func(n int) int, threads int, d time.Duration) float64 {
	t, _ := count(threads, d, func(int) (int, error) { return run(50_000), nil })
	return t.rate()
}

// kind is a network as measurements see it. Kinds of networks differ in what limits their speed.
type kind interface {
	// onCPU measures the network with every path of the CPU. Each round takes about d.
	onCPU(ctx context.Context, d time.Duration, name string, progress Progress) ([]Figure, error)
	onGPU(o gpu.Options) (e *gpu.Backend, notes []error, err error)
	distinct() bool                      // the speed depends on how many different positions there are
	work(row *GPURow, board *game.Board) // fills in the work of the row's launches
	startPeer(ctx context.Context, p *Torch, b *eval.Batch) error
}

// kindOf returns the network that evald's own kernels compute.
func kindOf(name string, n open.Network) (kind, error) {
	if t, ok := n.Tables(); ok {
		return tables{t}, nil
	}
	c, err := n.Convolutions()
	if err != nil {
		return nil, fmt.Errorf("model %s %w", name, err)
	}
	return convolutions{c}, nil
}

// convolutions is limited by multiply-adds.
type convolutions struct{ *net.Network }

func (c convolutions) onGPU(o gpu.Options) (*gpu.Backend, []error, error) {
	return gpu.New(c.Network, o)
}

func (convolutions) distinct() bool { return false }

func (c convolutions) work(row *GPURow, b *game.Board) { row.FLOPs = row.Launch * flops(c.Config(), b) }

func (c convolutions) startPeer(ctx context.Context, p *Torch, b *eval.Batch) error {
	return p.start(ctx, c.Network, b)
}

// onCPU measures the reference too.
func (c convolutions) onCPU(ctx context.Context, d time.Duration, name string, progress Progress) ([]Figure, error) {
	n := c.Network
	board := game.MustBoard(game.Connect4)
	b := newBatch(board, playedPositions(board, networkBatch), networkBatch)
	var paths []*contender
	for _, p := range cpu.Paths(n) {
		c, err := pathContender(ctx, n, name, p, b, d)
		if err != nil {
			return nil, err
		}
		paths = append(paths, c)
	}
	few := newBatch(board, b.Pos, 32)
	to := &contender{name: "network " + name + ", pure-Go reference", round: timed(ctx, net.NewBackend(n).Compute, few, d)}
	if err := race(ctx, append(slices.Clone(paths), to), d, progress); err != nil {
		return nil, err
	}
	var figures []Figure
	for _, c := range paths {
		f := c.figure(to)
		f.To = "pure-Go reference"
		figures = append(figures, f)
	}
	return append(figures, to.figure(to)), nil
}

// remote measures a model of a service in batches of 256 rows, with one caller and with eight concurrent ones. Each round takes about d.
func remote(ctx context.Context, d time.Duration, e *eval.Evaluator, name string, progress Progress) ([]Figure, error) {
	board := game.MustBoard(game.Connect4)
	positions := playedPositions(board, networkBatch)
	contenders := []*contender{
		{name: "model " + name + ", 1 caller", round: func() (float64, error) { return together(ctx, e.Evaluate, board, positions, 1, d) }},
		{name: "model " + name + ", 8 callers", round: func() (float64, error) { return together(ctx, e.Evaluate, board, positions, 8, d) }},
	}
	if err := race(ctx, contenders, d, progress); err != nil {
		return nil, err
	}
	return []Figure{contenders[0].figure(contenders[0]), contenders[1].figure(contenders[0])}, nil
}
