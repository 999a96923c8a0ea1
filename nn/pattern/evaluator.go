package pattern

import (
	"context"
	"fmt"
	"runtime"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
)

// Backend evaluates batches of 7x6x4 with a network, with Source eval.Fast.
type Backend struct {
	net     *kernel.Net
	pool    *jobs.Pool[*eval.Batch]
	workers []worker
}

// NewBackend packs a network, which must not change while in use, for the fastest path of this machine.
func NewBackend(n *Network) *Backend {
	e, err := NewBackendPath(n, kernel.Best())
	if err != nil {
		panic(err) // cannot happen: the best path is one of this machine
	}
	return e
}

// NewBackendPath packs a network for a path. The error lists the paths of this machine.
func NewBackendPath(n *Network, p kernel.Path) (*Backend, error) {
	packed, err := kernel.New(&n.Weights, p)
	if err != nil {
		return nil, err
	}
	e := &Backend{net: packed, workers: make([]worker, runtime.GOMAXPROCS(0))}
	e.pool = jobs.NewPool(len(e.workers), func(k int, b *eval.Batch, first, last int) error {
		e.workers[k].answer(e.net, b, first, last)
		return nil
	})
	return e, nil
}

// Attributes implements eval.Backend. It prefers single rows: computing several together saves little time per row.
func (*Backend) Attributes() eval.Attributes { return eval.Attributes{Rows: 1, Invariant: true} }

// Path is the path that the backend uses.
func (e *Backend) Path() kernel.Path { return e.net.Path() }

// block is the number of positions per call, large enough to make the cost of a call of C negligible.
const block = 128

// Compute implements eval.Backend. Up to GOMAXPROCS goroutines share the rows, at least one block each. It checks the context between
// blocks. Boards other than 7x6x4 are an error.
func (e *Backend) Compute(ctx context.Context, b *eval.Batch) error {
	if b.Board.Rules() != game.Connect4 {
		return fmt.Errorf("evaluate: a pattern network knows %v alone, not %v: use a convolutional network or a heuristic", game.Connect4, b.Board.Rules())
	}
	if err := e.pool.Do(ctx, b, len(b.Pos), block); err != nil {
		return fmt.Errorf("evaluate: %w", err)
	}
	return nil
}

// worker is the scratch memory of one goroutine.
type worker struct {
	rows [block * Each]int32
	out  [block * kernel.Outputs]int32
}

// answer fills rows first to last-1 of the batch, at most one block.
func (w *worker) answer(n *kernel.Net, b *eval.Batch, first, last int) {
	rows := w.rows[:0]
	for _, p := range b.Pos[first:last] {
		rows = AppendRows(rows, p)
	}
	n.Forward(rows, Each, w.out[:(last-first)*kernel.Outputs])
	for i := first; i < last; i++ {
		answer(b, i, w.out[(i-first)*kernel.Outputs:])
	}
}

// answer fills row i of a batch from out, the network's results.
func answer(b *eval.Batch, i int, out []int32) {
	all := b.Pos[i].All.Lo
	Softmax(b.WDLRow(i), out[:3], 1<<3-1)
	Softmax(b.PolicyRow(i), out[3:10], legal(all))
	b.Source[i] = eval.Fast
}

// legal has bit c set if column c has room.
func legal(all uint64) (columns uint32) {
	for c := range 7 {
		columns |= uint32(^all>>(7*c+5)&1) << c
	}
	return columns
}
