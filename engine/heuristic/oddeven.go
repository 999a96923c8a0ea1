package heuristic

import (
	"math/bits"

	"github.com/evald/evald/engine/game"
)

// OddEven adds likely gains in the endgame to Bitsquares. When all other columns are full, the sides fill the last one in turn, so each
// side gets every other row. A line is worth more if all its empty cells lie in rows that its owner gets.
//
// As in the original, the side to move is treated as the first player.
type OddEven struct {
	*Bitsquares
	Endgame3 float64 // for each line that lacks one stone, in its owner's rows
	Endgame2 float64 // for each line that lacks two stones, both in its owner's rows
	Pair3    float64 // for each pair of lines that lack one stone each, both at even heights above the stacks or both at odd ones
}

// NewOddEven has the published parameters.
func NewOddEven() *OddEven {
	return &OddEven{Bitsquares: NewBitsquares(DefaultPower), Endgame3: 1, Endgame2: 0.05}
}

// Scores implements Heuristic.
func (h *OddEven) Scores(b *game.Board, ps []game.Position, out []float64) {
	for i, p := range ps {
		out[i] = h.Score(b, p)
	}
}

// Score is the score of one position. Without gravity neither side gets rows, and the score is that of Bitsquares.
func (h *OddEven) Score(b *game.Board, p game.Position) float64 {
	score := h.Bitsquares.Score(b, p)
	if !b.Rules().Gravity {
		return score
	}
	mine := firstPlayersRows(b)
	score += h.endgame(b, p.Own, p.Other(), mine)
	score -= h.endgame(b, p.Other(), p.Own, b.Full().AndNot(mine))
	if h.Pair3 != 0 {
		score += h.Pair3 * float64(pairs(b, p.Own, p.Other())-pairs(b, p.Other(), p.Own))
	}
	return score
}

// firstPlayersRows returns the cells that the first player gets in a column that is filled last. With all other columns full, Cells-Rows
// stones lie elsewhere; the cell in row r then gets stone number Cells-Rows+r, counted from 0.
func firstPlayersRows(b *game.Board) game.Bits {
	var rows game.Bits
	lowest := b.Legal(game.Position{})
	for r := (b.Cells() - b.Rows()) % 2; r < b.Rows(); r += 2 {
		rows = rows.Or(lowest.Shl(uint(r)))
	}
	return rows
}

// endgame is one side's bonus for the lines that consist only of its stones and of empty cells in its rows.
func (h *OddEven) endgame(b *game.Board, own, other, rows game.Bits) float64 {
	open := own.Or(rows.AndNot(other))
	if fast(b) {
		three, two := 0, 0
		for _, s := range b.Shifts() {
			lines := starts4(open.Lo, s)
			ones, twos, _ := stones4(own.Lo, s)
			three += bits.OnesCount64(lines & twos & ones)
			two += bits.OnesCount64(lines & twos &^ ones)
		}
		return h.Endgame3*float64(three) + h.Endgame2*float64(two)
	}
	total, k := 0.0, b.InARow()
	eachCount(b, own, open, func(n, lines int) {
		switch n {
		case k - 1:
			total += h.Endgame3 * float64(lines)
		case k - 2:
			total += h.Endgame2 * float64(lines)
		}
	})
	return total
}

// pairs counts pairs of lines that each lack one stone, at heights of the same parity above the stacks of their columns. The other side
// cannot answer both.
func pairs(b *game.Board, own, other game.Bits) int {
	var even game.Bits // empty cells 0, 2, 4 .. above the stacks
	all := own.Or(other)
	for cells := b.Legal(game.Position{All: all}); !cells.IsZero(); {
		even = even.Or(cells)
		cells = cells.Shl(1).And(b.Full()).Shl(1).And(b.Full()) // two cells higher, within each column
	}
	odd := b.Full().AndNot(all).AndNot(even)
	total := 0
	for _, gaps := range []game.Bits{even, odd} {
		lacking := 0
		eachCount(b, own, own.Or(gaps), func(n, lines int) {
			if n == b.InARow()-1 {
				lacking += lines
			}
		})
		total += lacking / 2
	}
	return total
}
