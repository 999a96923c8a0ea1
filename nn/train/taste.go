package train

import (
	"context"
	"fmt"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// TasteShare is the value of Weights.Taste in runs with WithTaste.
const TasteShare = 0.25

// WithTaste returns s with policies in which e distributes the probability among equally good moves. Exact results do not tell which of
// these to prefer; in a lost position they do not distinguish moves at all. A network that learns only from them forgets which moves are
// hard to answer, and loses to weaker opponents.
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

// several reports whether more than one move has a positive probability.
func several(policy []float32) bool {
	n := 0
	for _, p := range policy {
		if p > 0 {
			n++
		}
	}
	return n > 1
}

// leastShare is the minimum share of an equally good move, before normalisation, because a share of 0 would mean that the move is bad.
const leastShare = 1e-3

// shared returns the policy taste [A], restricted to the moves of policy [A] and normalised.
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
