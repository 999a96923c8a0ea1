package agent

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/evald/evald/engine/game"
)

// negamax is a copy of the agent that ships with Kaggle's connectx environment, with its scores and its quirks. It sees wins up to four
// plies ahead. It rates a leaf by the remaining plies and the number of its own stones beside the cell that it plays. It chooses at random
// between moves of equal score.
type negamax struct{ *rand.Rand }

func newNegamax(s Spec, _ Shared) (Agent, error) { return negamax{source(s.Seed)}, nil }

const negamaxDepth = 4

func (n negamax) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	_, best := n.search(ctx, b, p, negamaxDepth)
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("negamax: %w", err)
	}
	return best, nil
}

// search returns twice the score of p for its side to move, a whole number, and the move with that score, or -1 if there is none. If ctx
// has ended, both are meaningless.
func (n negamax) search(ctx context.Context, b *game.Board, p game.Position, depth int) (score, action int) {
	cells, stones := b.Cells(), p.Plies()
	if stones == cells {
		return 0, -1
	}
	soon := cells + 1 - stones // twice the score of a win with the next stone
	if wins := b.Wins(p); !wins.IsZero() {
		return soon, b.Action(wins.First())
	}
	best, action := -2*cells, -1
	for l := b.Legal(p); !l.IsZero() && (depth < 2 || ctx.Err() == nil); l = l.WithoutFirst() {
		s := 0
		if depth <= 0 {
			s = soon + 2*neighbours(b, p, l.First())
		} else {
			s, _ = n.search(ctx, b, b.PlayCell(p, l.LowBit()), depth-1)
			s = -s
		}
		if s > best || s == best && n.IntN(2) == 0 {
			best, action = s, b.Action(l.First())
		}
	}
	return best, action
}

// neighbours counts the own stones left of, right of, above and below a cell. As in the original, the one below does not count if the cell
// is in one of the two lowest rows.
func neighbours(b *game.Board, p game.Position, cell int) (n int) {
	column, row := b.ColumnRow(cell)
	has := func(column, row int) int {
		if column >= 0 && column < b.Columns() && row >= 0 && row < b.Rows() && p.Own.Has(b.Index(column, row)) {
			return 1
		}
		return 0
	}
	n = has(column-1, row) + has(column+1, row) + has(column, row+1)
	if row > 1 {
		n += has(column, row-1)
	}
	return n
}
