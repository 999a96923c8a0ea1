package eval

import (
	"context"
	"fmt"
	"math"

	"github.com/evald/evald/engine/game"
)

// Choices is positions of one board, and memory for the best move and the value of each. It is a Batch
// for callers that need no more. Every slice has the same length.
type Choices struct {
	Board  *game.Board
	Pos    []game.Position // [N]
	Action []int           // [N] the likeliest move, the first of equal ones; -1 if the game is over
	Value  []float32       // [N] the probability of a win minus that of a loss, -1..1 for the side to move
	Source []Source        // [N] names of the evaluators that answered
}

// NewChoices returns choices with memory for n rows.
func NewChoices(b *game.Board, n int) *Choices {
	return &Choices{b, make([]game.Position, n), make([]int, n), make([]float32, n), make([]Source, n)}
}

// Best fills Action, Value and Source for every Pos with what Evaluate's answers say, bit for bit. It is
// faster, because it does not copy these answers.
func (e *Evaluator) Best(ctx context.Context, c *Choices) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("evaluate: %w", err)
	}
	if c.Board == nil {
		return fmt.Errorf("evaluate: choices have no board")
	}
	if n := len(c.Pos); len(c.Action) != n || len(c.Value) != n || len(c.Source) != n {
		return fmt.Errorf("evaluate: choices of %d positions have room for %d actions, %d values and %d sources", n, len(c.Action), len(c.Value), len(c.Source))
	}
	if err := e.Supports(c.Board); err != nil {
		return err
	}
	if err := e.answer(ctx, c.Board, c.Pos, c.decide, c.read); err != nil {
		return err
	}
	e.answered(c.Source)
	return nil
}

// decide is a decider.
func (c *Choices) decide(i int, result game.Result, moves game.Bits, s Source) {
	wdl := result.WDL()
	c.Action[i], c.Value[i], c.Source[i] = c.first(moves), wdl[0]-wdl[2], s
}

// first is the lowest of the actions that land in cells, or -1 if there are none.
func (c *Choices) first(cells game.Bits) int {
	least := -1
	for ; !cells.IsZero(); cells = cells.WithoutFirst() {
		if a := c.Board.Action(cells.First()); least < 0 || a < least {
			least = a
		}
	}
	return least
}

// read is a reader.
func (c *Choices) read(w *undecided, first, last int) {
	var memory [64]int
	for ; first < last; first += len(memory) {
		actions := memory[:min(len(memory), last-first)]
		rows := w.batch.Slice(first, first+len(actions))
		w.applyRules(first, first+len(actions))
		likeliest(actions, rows.Policy)
		for j, a := range actions {
			i := w.open[first+j].row
			if a < 0 { // the backend gives no move a probability
				a = c.first(c.Board.Legal(c.Pos[i]))
			}
			c.Action[i], c.Value[i], c.Source[i] = a, rows.Value(j), rows.Source[j]
		}
	}
}

// likeliest sets to[i] to the first of the largest numbers in row i, or to -1 if all are 0. No number is
// negative, so they are ordered as their bits are, and a maximum of integers needs no branches, which
// processors would guess wrong. A board has fewer than 256 actions.
func likeliest(to []int, rows []float32) {
	n := len(rows) / len(to)
	for i := range to {
		most := int64(0)
		for a, x := range rows[i*n:][:n] {
			most = max(most, int64(math.Float32bits(x))<<8-int64(a))
		}
		if to[i] = int(-most & 255); most == 0 {
			to[i] = -1
		}
	}
}
