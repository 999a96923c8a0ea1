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

// The exact step answers a position by Solved if its result and a move that keeps it are proved: a certain result, the policy shared
// by the moves that are known to keep it. A lost position shares it among the moves that do not lose at once. Forced moves are
// followed first, as in the rules step, and then no move needs to be known. All other positions are left to the backend as they
// were: a proved value beside a policy that may give the result away would be no exact answer.

// Exact is the backend that proves positions, on several processors. It answers those whose result it finds with Source Solved; their
// policy is all 0 if no move is known that keeps it. The others have Source None and no answer.
type Exact struct {
	nodes solver.Nodes
	pool  *jobs.Pool[proving]
}

// proving is a batch whose rows are probed.
type proving struct {
	prober *solver.Prober
	batch  *Batch
}

// NewExact proves positions by probes of at most that many nodes each, at least one: a probe finds the result, and one for each move
// whether it keeps that. First plies whose results ship (solver.Prober.Known) need none.
func NewExact(nodes solver.Nodes) *Exact {
	return &Exact{max(nodes, 1), jobs.NewPool(runtime.GOMAXPROCS(0), prove)}
}

// Attributes implements Backend.
func (*Exact) Attributes() Attributes { return Attributes{Rows: 1, Invariant: true} }

// Compute implements Backend. It ends after the probes under way if ctx ends.
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

// prove answers the rows of b that the backend proves, and keeps the others.
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
		b.answerOpen(i, o, &w.batch, j) // of a lost row without the moves that lose at once
		b.Source[i] = Solved
	}
	w.rows, w.outlooks, w.batch = w.rows[:n], w.outlooks[:n], w.memory.Slice(0, n)
	return nil
}
