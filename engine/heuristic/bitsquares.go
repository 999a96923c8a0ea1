package heuristic

import (
	"math"

	"github.com/evald/evald/engine/game"
)

// DefaultPower is the published exponent of bitsquares.
const DefaultPower = 1.75

// Bitsquares sums n^power over the lines that a side can still fill and in which it has n >= 1 stones. The score is the sum of the side to
// move minus that of the other side.
type Bitsquares struct {
	weight [game.MaxBits + 1]float64 // weight[n] = n^power; weight[0] = 0
}

// NewBitsquares returns Bitsquares with this exponent; DefaultPower is the published one.
func NewBitsquares(power float64) *Bitsquares {
	h := &Bitsquares{}
	for n := 1; n < len(h.weight); n++ {
		h.weight[n] = math.Pow(float64(n), power)
	}
	return h
}

// Score is the score of one position.
func (h *Bitsquares) Score(b *game.Board, p game.Position) float64 {
	if fast(b) {
		odd, many, three, all := lines4(p.Own.Lo, p.Other().Lo, b.Full().Lo, b.Shifts())
		// The conversions forbid compilers to fuse multiplications and additions, which scoreGroups rounds separately.
		return float64(h.weight[1]*float64(odd-three)) + float64(h.weight[2]*float64(many-three)) + float64(h.weight[3]*float64(three)) + float64(h.weight[4]*float64(all))
	}
	return h.sum(b, p.Own, p.Other()) - h.sum(b, p.Other(), p.Own)
}

// Scores implements Heuristic.
func (h *Bitsquares) Scores(b *game.Board, ps []game.Position, out []float64) {
	done := 0
	if lanes > 0 && fast(b) && len(ps) >= lanes {
		shifts := b.Shifts()
		scoreGroups(&ps[0], len(ps)/lanes, b.Full().Lo, &shifts, &h.weight, &out[:len(ps)][0])
		done = len(ps) - len(ps)%lanes
	}
	for i := done; i < len(ps); i++ {
		out[i] = h.Score(b, ps[i])
	}
}

// sum is one side's sum. It works on any board.
func (h *Bitsquares) sum(b *game.Board, own, other game.Bits) (total float64) {
	eachCount(b, own, b.Full().AndNot(other), func(n, lines int) {
		total += h.weight[n] * float64(lines)
	})
	return total
}
