package service

import (
	"context"
	"runtime"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/solver"
)

// This file is the exact step (eval.NewExact) of requests for ordinary models. The rows of all requests wait in one queue, whatever
// their model and their number of nodes. A row is a batch of its own there, and half of the processors work on them. So clients take
// turns by nodes, and those that ask for nothing exact keep processors of their own.

// exactKey is the key of a context's *eval.Exact.
type exactKey struct{}

// probing is the backend behind the queue.
type probing struct{}

// Attributes implements eval.Backend.
func (probing) Attributes() eval.Attributes { return eval.Attributes{Rows: 1, Invariant: true} }

// Compute implements eval.Backend.
func (probing) Compute(ctx context.Context, b *eval.Batch) error {
	return ctx.Value(exactKey{}).(*eval.Exact).Compute(ctx, b)
}

// newProver makes the queue.
func (s *Server) newProver() *eval.Evaluator {
	of := s.config.Settings
	return eval.New(checked{probing{}, s.config.Log}, eval.Options{Batch: &eval.BatcherConfig{
		MaxRows: 1, InFlight: max(1, runtime.GOMAXPROCS(0)/2), MaxQueued: of.MaxQueued, MaxWait: of.MaxWait,
	}})
}

// exactStep is the step of one request.
type exactStep struct {
	probing
	queue  *eval.Evaluator
	exact  *eval.Exact
	timing *eval.Timing // of the step
}

// Compute implements eval.Backend.
func (x exactStep) Compute(ctx context.Context, b *eval.Batch) (err error) {
	*x.timing, err = x.queue.Submit(context.WithValue(ctx, exactKey{}, x.exact), b, true)
	return err
}

// evaluateRows asks an ordinary model for the rows of a batch.
func (s *Server) evaluateRows(ctx context.Context, m *model, r *request, b *eval.Batch) (eval.Timing, error) {
	caller, e, step := r.caller(false), m.evaluator, eval.Timing{}
	if r.exact == 0 {
		r.exact = m.Exact
	}
	if r.exact > 0 {
		charged := caller
		charged.Cost = max(leastCost, float64(r.exact)/solver.ProbeNodes)
		e = e.WithExact(exactStep{queue: s.prover.For(charged), exact: eval.NewExact(r.exact), timing: &step})
	}
	t, err := e.For(caller).Submit(ctx, b, r.raw)
	t.Queued, t.Computed = t.Queued+step.Queued, t.Computed+step.Computed
	return t, err
}
