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

// The exact step answers a position by Solved if it has proved the position's result and a move that keeps it. The answer is that result
// with certainty, and a policy shared by the moves that are proved to keep it. If the position is lost, the moves that do not lose at once
// share the policy. Like the rules step, this step first follows forced moves; behind a forced move, no proof of a move is needed. All
// other positions go to the backend unchanged: a proved value beside a policy that may give the result away would not be exact.

// Exact is a backend that proves positions on several processors. Positions whose result it finds get Source Solved; their policy is all 0
// if it knows no move that keeps the result. The others get Source None and no answer.
type Exact struct {
	nodes solver.Nodes
	pool  *jobs.Pool[proving]
}

type proving struct {
	prober *solver.Prober
	batch  *Batch
}

// NewExact returns a backend that proves positions by probes, each of at most the given number of nodes (at least 1). One probe looks for
// the result, and one for each move looks whether it keeps the result. First plies whose results ship (solver.Prober.Known) need no probes.
func NewExact(nodes solver.Nodes) *Exact {
	return &Exact{max(nodes, 1), jobs.NewPool(runtime.GOMAXPROCS(0), prove)}
}

// Attributes implements Backend.
func (*Exact) Attributes() Attributes { return Attributes{Rows: 1, Invariant: true} }

// Compute implements Backend. If ctx ends, it returns once the running probes have ended.
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

// prove passes the rows that the backend proves to read, and keeps the others in w.
func (w *undecided) prove(ctx context.Context, exact Backend, read reader) error {
	if exact == nil || len(w.open) == 0 {
		return nil
	}
	if err := compute(ctx, exact, &w.batch); err != nil {
		return err
	}
	n := 0
	for j, o := range w.open {
		if w.batch.Source[j] == None || o.plies == 0 && slices.Max(w.batch.PolicyRow(j)) == 0 {
			w.open[n], w.batch.Pos[n] = o, w.batch.Pos[j]
			n++
			continue
		}
		w.applyRules(j, j+1) // the policy of a lost row omits moves that lose at once
		w.batch.Source[j] = Solved
		read(w, j, j+1)
	}
	w.open, w.batch = w.open[:n], w.memory.Slice(0, n)
	return nil
}
