package net

import (
	"context"
	"fmt"
	"runtime"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/jobs"
)

// Backend evaluates batches with the reference forward pass on the CPU, one position at a time. Tests compare faster backends with it.
type Backend struct {
	net     *Network
	pool    *jobs.Pool[*eval.Batch]
	workers []*worker // nil before a worker's first call, and after one that panicked: its memory may not be sound
}

// NewBackend returns a backend of a network, which must not change while in use. It uses up to GOMAXPROCS goroutines.
func NewBackend(n *Network) *Backend {
	e := &Backend{net: n, workers: make([]*worker, runtime.GOMAXPROCS(0))}
	e.pool = jobs.NewPool(len(e.workers), e.answer)
	return e
}

// Attributes implements eval.Backend.
func (*Backend) Attributes() eval.Attributes { return eval.Attributes{Rows: 1, Invariant: true} }

// Compute implements eval.Backend, with Source eval.CPU. It checks the context between rows. If a row's output is not finite, the error
// names the first such row.
func (e *Backend) Compute(ctx context.Context, b *eval.Batch) error {
	return wrap(e.pool.Do(ctx, b, len(b.Pos), 1), "evaluate")
}

func (e *Backend) answer(k int, b *eval.Batch, i, _ int) error {
	w := e.workers[k]
	if e.workers[k] = nil; w == nil {
		w = new(worker)
	}
	if h, width := b.Board.Rows(), b.Board.Columns(); w.scratch == nil || w.h != h || w.w != width {
		w.scratch, w.planes = newScratch(e.net.config, h, width), make([]float32, PlanesSize(b.Board, 1))
	}
	Planes(b.Board, b.Pos[i:i+1], w.planes)
	e.net.row(w.scratch, w.planes, nil)
	err := w.answerer.Answer(b, i, w.wdl, w.gameover, w.cells)
	e.workers[k] = w
	return wrap(err, "row %d", i)
}

// worker is the scratch memory of one goroutine.
type worker struct {
	*scratch
	planes   []float32 // [5,H,W]
	answerer Answerer
}

// Answerer converts logits to answers. Its scratch memory serves one goroutine at a time. The zero value is ready.
type Answerer struct {
	logits []float32 // [A]
	legal  []bool    // [A]
}

// Answer fills row i of a batch from its logits wdl [3], gameover [4] and cells [H,W], with Source
// eval.CPU. If a logit is not finite, it returns an error that wraps eval.ErrNotFinite and names
// the position and the logit, and leaves the row unchanged.
func (a *Answerer) Answer(b *eval.Batch, i int, wdl, gameover, cells []float32) error {
	for _, out := range [...]struct {
		name   string
		values []float32
	}{{"win-draw-loss", wdl}, {"gameover", gameover}, {"cell", cells}} {
		if at, ok := finite(out.values); !ok {
			return b.NotFinite(i, fmt.Sprintf("%s logit %d is %v", out.name, at, out.values[at]))
		}
	}
	if n := b.Board.Actions(); len(a.logits) != n {
		a.logits, a.legal = make([]float32, n), make([]bool, n)
	}
	Softmax(b.WDLRow(i), wdl)
	actionLogits(b.Board, b.Pos[i], cells, a.logits, a.legal)
	MaskedSoftmax(b.PolicyRow(i), a.logits, a.legal)
	b.Source[i] = eval.CPU
	return nil
}
