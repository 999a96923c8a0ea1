package service

import (
	"context"
	"runtime"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/queue"
	"github.com/evald/evald/engine/solver"
)

// This file has the exact step (eval.NewExact) of requests for networks and heuristics. The rows of all requests wait in one queue,
// whatever their model and their number of nodes. Each row is a batch of its own there, and half of the processors work on this queue. So
// clients share the proofs' time by nodes, and the other processors are left to requests without an exact step.

// exactKey is the context key of the *eval.Exact with which probing computes a row.
type exactKey struct{}

// probing is the backend of the queue.
type probing struct{}

// Attributes implements eval.Backend.
func (probing) Attributes() eval.Attributes { return eval.Attributes{Rows: 1, Invariant: true} }

// Compute implements eval.Backend.
func (probing) Compute(ctx context.Context, b *eval.Batch) error {
	return ctx.Value(exactKey{}).(*eval.Exact).Compute(ctx, b)
}

// newProver returns the queue.
func (s *Server) newProver() *queue.Batcher {
	of := s.config.Settings
	return queue.New(checked{probing{}, s.config.Log}, queue.Config{
		MaxRows: 1, InFlight: max(1, runtime.GOMAXPROCS(0)/2), MaxQueued: of.MaxQueued, MaxWait: of.MaxWait,
	})
}

// exactStep is the exact step of one request. It sends only rows to the queue that a solver may prove within the nodes.
type exactStep struct {
	probing
	queue  *queue.Batcher
	caller queue.Caller
	nodes  solver.Nodes
	timing *queue.Timing // receives the step's times
}

// Compute implements eval.Backend.
func (x exactStep) Compute(ctx context.Context, b *eval.Batch) (err error) {
	prober, worth := x.nodes.For(b.Board), batches.Get().(*eval.Batch)
	defer batches.Put(worth)
	worth.Pos = worth.Pos[:0]
	var rows []int
	for i, p := range b.Pos {
		if b.Source[i] = eval.None; prober.Worth(p) || prober.Known(p) != game.Ongoing {
			rows, worth.Pos = append(rows, i), append(worth.Pos, p)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	worth.Reset(b.Board, len(rows))
	if *x.timing, err = x.queue.Submit(context.WithValue(ctx, exactKey{}, eval.NewExact(x.nodes)), worth, x.caller); err != nil {
		return err
	}
	for j, i := range rows {
		copy(b.WDLRow(i), worth.WDLRow(j))
		copy(b.PolicyRow(i), worth.PolicyRow(j))
		b.Source[i] = worth.Source[j]
	}
	return nil
}

// evaluateRows evaluates the rows of a batch with a network or heuristic, after the exact step if the request has one.
func (s *Server) evaluateRows(ctx context.Context, m *model, r *request, b *eval.Batch) error {
	caller := r.caller(false)
	e := r.evaluator(m, caller, &r.waited)
	if r.search.Exact <= 0 {
		return r.ask(ctx, e, b)
	}
	step := queue.Timing{}
	charged := caller
	charged.Cost = max(leastCost, float64(r.search.Exact)/solver.ProbeNodes)
	err := r.ask(ctx, e.WithExact(exactStep{queue: s.prover, caller: charged, nodes: r.search.Exact, timing: &step}), b)
	r.waited.Queued, r.waited.Computed = r.waited.Queued+step.Queued, r.waited.Computed+step.Computed
	return err
}
