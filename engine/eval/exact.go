package eval

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
	"github.com/evald/evald/engine/solver"
)

// The exact step answers a position by Solved if it has proved its result and a move that keeps it. The answer is a certain result, with
// the policy shared by the moves known to keep it. A lost position shares the policy among the moves that do not lose at once. As in the
// rules step, forced moves are followed first; then no other move needs to be known. All other positions are left to the backend unchanged:
// a proved value beside a policy that may give the result away would not be exact.

// Exact is the backend that proves positions, on several processors. Positions whose result it finds get Source Solved; their policy is all
// 0 if it knows no move that keeps the result. The others get Source None and no answer.
type Exact struct {
	nodes solver.Nodes
	pool  *jobs.Pool[proving]
}

// proving is a batch whose rows are probed.
type proving struct {
	prober *solver.Prober
	batch  *Batch
}

// NewExact proves positions by probes, each bounded by nodes (at least 1): one to find the result, and one for each move to see whether it keeps
// the result. First plies whose results ship (solver.Prober.Known) need no probes.
func NewExact(nodes solver.Nodes) *Exact {
	return &Exact{max(nodes, 1), jobs.NewPool(runtime.GOMAXPROCS(0), prove)}
}

// Attributes implements Backend.
func (*Exact) Attributes() Attributes { return Attributes{Rows: 1, Invariant: true} }

// Compute implements Backend. If ctx ends, it returns after the probes in progress.
func (x *Exact) Compute(ctx context.Context, b *Batch) error {
	if err := x.pool.Do(ctx, proving{x.nodes.For(b.Board), b}, len(b.Pos), 1); err != nil {
		return fmt.Errorf("prove: %w", err)
	}
	return nil
}

func prove(_ int, of proving, first, last int) error {
	for i := first; i < last; i++ {
		result, moves := of.prober.Moves(of.batch.Pos[i], true)
		if of.batch.Source[i] = None; result == game.Ongoing {
			continue
		}
		of.batch.decide(i, result, moves, Solved)
	}
	return nil
}

// prove answers the rows of b that the backend proves, and keeps the others in w.
func (w *undecided) prove(ctx context.Context, exact Backend, b *Batch) error {
	if exact == nil || len(w.rows) == 0 {
		return nil
	}
	if err := exact.Compute(ctx, &w.batch); err != nil {
		return err
	}
	n := 0
	for j, i := range w.rows {
		o := w.outlooks[j]
		if w.batch.Source[j] == None || o.Plies == 0 && slices.Max(w.batch.PolicyRow(j)) == 0 {
			w.rows[n], w.outlooks[n], w.batch.Pos[n] = i, o, o.Next
			n++
			continue
		}
		b.answerOpen(i, o, &w.batch, j) // a lost row's policy omits moves that lose at once
		b.Source[i] = Solved
	}
	w.rows, w.outlooks, w.batch = w.rows[:n], w.outlooks[:n], w.memory.Slice(0, n)
	return nil
}
