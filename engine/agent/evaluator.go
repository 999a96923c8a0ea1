package agent

import (
	"context"
	"sync"

	"github.com/evald/evald/engine/eval"
)

// Evaluator answers each position with an agent's move, so that agents can be measured like evaluators. The policy is that
// move alone. WDL is a third each, since agents give no values. Rows are answered one after the other.
type Evaluator struct {
	mu    sync.Mutex
	agent Agent
}

// NewEvaluator is the Evaluator of an agent.
func NewEvaluator(a Agent) *Evaluator { return &Evaluator{agent: a} }

// Evaluate implements eval.Evaluator with Source Searched.
func (e *Evaluator) Evaluate(ctx context.Context, b *eval.Batch) error {
	if err := b.Ready(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, p := range b.Pos {
		if b.AnswerTerminal(i) {
			continue
		}
		action, err := e.agent.Move(ctx, b.Board, p)
		if err != nil {
			return err
		}
		wdl, policy := b.WDLRow(i), b.PolicyRow(i)
		wdl[0], wdl[1], wdl[2] = 1./3, 1./3, 1./3
		clear(policy)
		policy[action] = 1
		b.Source[i] = eval.Searched
	}
	return nil
}
