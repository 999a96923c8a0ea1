package cpu

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/nn/net"
)

// job is one batch under evaluation; its memory is reused. Rows are claimed in order, so every row before a failed one has
// been claimed. The error of the lowest row is kept, so it does not depend on timing.
type job struct {
	e     *Backend
	ctx   context.Context
	batch *eval.Batch
	share int // the largest block, in rows, that gives every goroutine some
	help  func()

	others sync.WaitGroup
	next   atomic.Int64 // the first unclaimed row
	stop   atomic.Bool

	mu  sync.Mutex
	row int // of err
	err error
}

func newJob(e *Backend) *job {
	j := &job{e: e}
	j.help = func() { // made once, since a closure per batch would be an allocation
		j.work()
		e.release()
		j.others.Done()
	}
	return j
}

func (j *job) begin(ctx context.Context, b *eval.Batch) {
	j.ctx, j.batch, j.err = ctx, b, nil
	threads := cap(j.e.slots)
	j.share = (len(b.Pos) + threads - 1) / threads
	j.next.Store(0)
	j.stop.Store(false)
}

func (j *job) end() error {
	err := j.err
	j.ctx, j.batch, j.err = nil, nil, nil
	return err
}

func (j *job) fail(row int, err error) {
	j.stop.Store(true)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil || row < j.row {
		j.row, j.err = row, err
	}
}

// unclaimed reports whether rows are left for another goroutine.
func (j *job) unclaimed() bool { return !j.stop.Load() && int(j.next.Load()) < len(j.batch.Pos) }

// work evaluates blocks until none is left.
func (j *job) work() {
	w := j.e.pool.Get().(*worker)
	defer j.e.pool.Put(w)
	w.fit(j.e.tower, j.batch.Board)
	size := min(w.scratch.Positions, j.share)
	for !j.stop.Load() {
		first := int(j.next.Add(int64(size))) - size
		if first >= len(j.batch.Pos) {
			return
		}
		if err := j.ctx.Err(); err != nil {
			j.fail(first, fmt.Errorf("evaluate: %w", err))
			return
		}
		if row, err := w.answer(j.e.tower, j.batch, first, min(first+size, len(j.batch.Pos))); err != nil {
			j.fail(row, fmt.Errorf("evaluate: row %d: %w", row, err))
			return
		}
	}
}

// worker is the scratch memory of one goroutine.
type worker struct {
	scratch  *kernel.Scratch
	planes   []float32 // [scratch.Positions,5,H,W]
	answerer net.Answerer
}

// fit makes the memory fit a board.
func (w *worker) fit(t *kernel.Tower, board *game.Board) {
	if w.scratch == nil || !w.scratch.Fits(board.Rows(), board.Columns()) {
		w.scratch = t.NewScratch(board.Rows(), board.Columns())
		w.planes = make([]float32, net.PlanesSize(board, w.scratch.Positions))
	}
}

// answer fills the rows from first up to last, at most as many as the scratch has positions. With an error it returns the
// row that failed.
func (w *worker) answer(t *kernel.Tower, b *eval.Batch, first, last int) (row int, err error) {
	n := last - first
	planes := w.planes[:net.PlanesSize(b.Board, n)]
	net.Planes(b.Board, b.Pos[first:last], planes)
	t.Forward(w.scratch, planes, n)
	for i := first; i < last; i++ {
		if err := w.finish(b, i, i-first); err != nil {
			return i, err
		}
	}
	return 0, nil
}

// finish fills row i of the batch from the logits of position k of the block.
func (w *worker) finish(b *eval.Batch, i, k int) error {
	s, cells := w.scratch, b.Board.Cells()
	return w.answerer.Answer(b, i, s.WDL[k*net.WDLs:(k+1)*net.WDLs], s.GameOver[k*net.GameOvers:(k+1)*net.GameOvers], s.Cells[k*cells:(k+1)*cells])
}
