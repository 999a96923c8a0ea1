package agent

import (
	"context"
	"sync"

	"github.com/evald/evald/engine/eval"
)

// mover is a backend that answers each position with an agent's move. Rows are answered one after the other.
type mover struct {
	mu    sync.Mutex
	agent Agent
}

// NewEvaluator makes an Evaluator of an agent, so that agents can be measured like evaluators. The policy is the agent's move
// alone. WDL is a third each, since agents give no values. The Source is eval.Searched.
func NewEvaluator(a Agent) *eval.Evaluator {
	return eval.New(&mover{agent: a}, eval.Options{OwnRules: true})
}

// Attributes implements eval.Backend. Agents may play at random.
func (*mover) Attributes() eval.Attributes { return eval.Attributes{Rows: 1} }

// Compute implements eval.Backend.
func (m *mover) Compute(ctx context.Context, b *eval.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, p := range b.Pos {
		action, err := m.agent.Move(ctx, b.Board, p)
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
