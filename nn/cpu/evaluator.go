// Package cpu evaluates networks on the CPU with the kernels of kernels/cpu. It computes what nn/net defines, many times
// faster than the reference.
//
// Rows are computed in blocks of a few positions, which all cores share. On the float32 paths, logits are within 1e-4 of the reference's.
// On the paths with bfloat16 or 8 bits (see kernels/cpu), the probabilities of win, draw and loss are within 0.02 for 99 of 100 positions,
// and 995 of 1000 positions have the same best move. Tests check both.
//
// Each network is computed by one path. Choose selects it by the network's shape (choice.go) and by rates that are measured once
// (rates.go).
package cpu

import (
	"context"
	"fmt"
	"runtime"
	"strconv"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/nn/net"
)

// Backend answers batches with a network, with Source eval.CPU.
type Backend struct {
	tower   *kernel.Tower
	pool    *jobs.Pool[*eval.Batch]
	workers []*worker // nil before a worker's first call, and after one that panicked: its memory may not be sound
}

// New packs a network for the path that Choose selects. It does not retain the network.
func New(n *net.Network) (*Backend, Choice) {
	c := Choose(n.Config(), hasRanges(n))
	e, err := NewPath(n, c.Path)
	if err != nil {
		panic(err) // cannot happen: it is one of the network's paths
	}
	return e, c
}

// NewPath packs a network for one path. It does not retain the network. The error lists the paths of this machine.
func NewPath(n *net.Network, p kernel.Path) (*Backend, error) {
	w, err := weights(n)
	if err != nil {
		return nil, fmt.Errorf("pack network: %w", err)
	}
	tower, err := kernel.New(w, p)
	if err != nil {
		return nil, err
	}
	e := &Backend{tower: tower, workers: make([]*worker, runtime.GOMAXPROCS(0))}
	e.pool = jobs.NewPool(len(e.workers), e.answer)
	return e, nil
}

// Path is the path that the backend uses.
func (e *Backend) Path() kernel.Path { return e.tower.Path() }

// Attributes implements eval.Backend. Its number of rows is enough to give all cores blocks.
func (e *Backend) Attributes() eval.Attributes { return eval.Attributes{Rows: 256, Invariant: true} }

// Threads is the maximum number of goroutines that compute at once, for all callers together.
func (e *Backend) Threads() int { return e.pool.Workers() }

// weights returns a network's tensors in the form that the kernels take.
func weights(n *net.Network) (w kernel.Network, err error) {
	layer := func(name string) kernel.Affine {
		return kernel.Affine{Weight: n.Weight(name + ".weight").Float32s(), Bias: n.Weight(name + ".bias").Float32s()}
	}
	w = kernel.Network{
		Stem:      layer("stem"),
		ValueConv: layer("value.conv"), FC: layer("value.fc"), WDL: layer("value.wdl"), GameOver: layer("value.gameover"),
		PolicyConv: layer("policy.conv"), PolicyLogit: layer("policy.logit"),
	}
	for i := range n.Config().Blocks {
		name := "blocks." + strconv.Itoa(i)
		w.Blocks = append(w.Blocks, [2]kernel.Affine{layer(name + ".conv1"), layer(name + ".conv2")})
	}
	w.Ranges, err = n.Ranges()
	return w, err
}

// Compute implements eval.Backend. At most Threads goroutines compute at once; further callers wait. It checks the context between blocks.
// If a row's output is not finite, the error names the first such row.
func (e *Backend) Compute(ctx context.Context, b *eval.Batch) error {
	block := min(e.tower.Block(b.Board.Rows(), b.Board.Columns()), (len(b.Pos)+e.Threads()-1)/e.Threads()) // so that every goroutine gets rows
	if err := e.pool.Do(ctx, b, len(b.Pos), max(1, block)); err != nil {
		return fmt.Errorf("evaluate: %w", err)
	}
	return nil
}

// worker is the scratch memory of one goroutine.
type worker struct {
	scratch  *kernel.Scratch
	planes   []float32 // [scratch.Positions,5,H,W]
	answerer net.Answerer
}

// fit allocates the memory for a board, unless the present memory fits.
func (w *worker) fit(t *kernel.Tower, board *game.Board) {
	if w.scratch == nil || !w.scratch.Fits(board.Rows(), board.Columns()) {
		w.scratch = t.NewScratch(board.Rows(), board.Columns())
		w.planes = make([]float32, net.PlanesSize(board, w.scratch.Positions))
	}
}

// answer fills rows first to last-1 of a batch, at most scratch.Positions. The error names the row that failed.
func (e *Backend) answer(k int, b *eval.Batch, first, last int) error {
	w, n := e.workers[k], last-first
	if e.workers[k] = nil; w == nil {
		w = new(worker)
	}
	w.fit(e.tower, b.Board)
	planes := w.planes[:net.PlanesSize(b.Board, n)]
	net.Planes(b.Board, b.Pos[first:last], planes)
	e.tower.Forward(w.scratch, planes, n)
	var err error
	for i := first; i < last && err == nil; i++ {
		if err = w.finish(b, i, i-first); err != nil {
			err = fmt.Errorf("row %d: %w", i, err)
		}
	}
	e.workers[k] = w
	return err
}

// finish fills row i of the batch from the logits of position k of the block.
func (w *worker) finish(b *eval.Batch, i, k int) error {
	s, cells := w.scratch, b.Board.Cells()
	return w.answerer.Answer(b, i, s.WDL[k*net.WDLs:(k+1)*net.WDLs], s.GameOver[k*net.GameOvers:(k+1)*net.GameOvers], s.Cells[k*cells:(k+1)*cells])
}
