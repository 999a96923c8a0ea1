package train

import (
	"context"
	"fmt"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// TasteShare is the Weights.Taste of runs whose examples are WithTaste.
const TasteShare = 0.25

// WithTaste lets e share the policy of those examples of s whose moves are equally good. Exact results say nothing of which of these to
// prefer: in a lost position not even of any move. A network that learns from them alone forgets what is hard to answer, and loses to
// weaker ones.
func WithTaste(s Source, b *game.Board, e *eval.Evaluator) Source {
	var batch eval.Batch
	return func(step int, dst []Example) error {
		if err := s(step, dst); err != nil {
			return err
		}
		var asked []int
		for i := range dst {
			if dst[i].Solved && several(dst[i].Policy) {
				asked = append(asked, i)
			}
		}
		if len(asked) == 0 {
			return nil
		}
		batch.Reset(b, len(asked))
		for row, i := range asked {
			batch.Pos[row] = dst[i].Position
		}
		if err := e.Evaluate(context.Background(), &batch); err != nil {
			return fmt.Errorf("which moves to prefer: %w", err)
		}
		for row, i := range asked {
			dst[i].Policy = shared(dst[i].Policy, batch.PolicyRow(row))
		}
		return nil
	}
}

// several reports whether more than one move has a part of a policy.
func several(policy []float32) bool {
	n := 0
	for _, p := range policy {
		if p > 0 {
			n++
		}
	}
	return n > 1
}

// leastShare is the least that a move has of what equally good ones share, before they are made to sum to 1: none may be 0, which
// says that a move is bad.
const leastShare = 1e-3

// shared is taste [A], restricted to the moves of policy [A].
func shared(policy, taste []float32) []float32 {
	total, of := float32(0), make([]float32, len(policy))
	for a, p := range policy {
		if p > 0 {
			of[a] = taste[a] + leastShare
			total += of[a]
		}
	}
	for a := range of {
		of[a] /= total
	}
	return of
}
