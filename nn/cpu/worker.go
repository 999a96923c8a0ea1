package cpu

import (
	"fmt"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/nn/net"
)

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

// answer fills the rows from first up to last of a batch, at most as many as the scratch has positions. The error names the
// row that failed.
func (e *Backend) answer(k int, b *eval.Batch, first, last int) error {
	w, n := &e.workers[k], last-first
	w.fit(e.tower, b.Board)
	planes := w.planes[:net.PlanesSize(b.Board, n)]
	net.Planes(b.Board, b.Pos[first:last], planes)
	e.tower.Forward(w.scratch, planes, n)
	for i := first; i < last; i++ {
		if err := w.finish(b, i, i-first); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
	}
	return nil
}

// finish fills row i of the batch from the logits of position k of the block.
func (w *worker) finish(b *eval.Batch, i, k int) error {
	s, cells := w.scratch, b.Board.Cells()
	return w.answerer.Answer(b, i, s.WDL[k*net.WDLs:(k+1)*net.WDLs], s.GameOver[k*net.GameOvers:(k+1)*net.GameOvers], s.Cells[k*cells:(k+1)*cells])
}
