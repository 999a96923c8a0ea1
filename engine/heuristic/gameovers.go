package heuristic

import (
	"math/bits"

	"github.com/evald/evald/engine/game"
)

// Gameovers rates, for each side, the lines that it can still fill: 0.1 for a line with one stone of its own, 1 for a line with more, and
// 0.5 for each pair of lines with more that cross in exactly one cell. The score is the sum of the side to move minus that of the other
// side.
type Gameovers struct{}

const (
	singleStone = 0.1
	manyStones  = 1
	crossing    = 0.5
)

// Scores implements Heuristic.
func (g Gameovers) Scores(b *game.Board, ps []game.Position, out []float64) {
	for i, p := range ps {
		out[i] = g.Score(b, p)
	}
}

// Score is the score of one position.
func (g Gameovers) Score(b *game.Board, p game.Position) float64 {
	if fast(b) {
		own, other, full, shifts := p.Own.Lo, p.Other().Lo, b.Full().Lo, b.Shifts()
		return gameovers4(own, full&^other, shifts) - gameovers4(other, full&^own, shifts)
	}
	return gameovers(b, p.Own, p.Other()) - gameovers(b, p.Other(), p.Own)
}

// gameovers4 is one side's sum, on 64-bit boards with four in a row.
//
// Lines of different directions share at most one cell, so their crossings are counted cell by cell: the number of lines
// of one direction through the cell, times that of the other. Two lines of one direction share exactly one cell if they
// start three steps apart.
func gameovers4(own, open uint64, shifts [4]uint) float64 {
	single, many, cross := 0, 0, 0
	var through [4][3]uint64 // [direction][binary digit]: lines through each cell
	for d, s := range shifts {
		ones, twos, fours := stones4(own, s)
		lines := starts4(open, s)
		single += bits.OnesCount64(lines & ones &^ twos)
		lines &= twos | fours // with two or three stones, or with four
		many += bits.OnesCount64(lines)
		cross += bits.OnesCount64(lines & (lines >> (3 * s & 63)))
		t := &through[d]
		t[0], t[1], t[2] = add4(lines, lines<<(s&63), lines<<(2*s&63), lines<<(3*s&63))
		for e := range d {
			cross += product(t, &through[e])
		}
	}
	return singleStone*float64(single) + manyStones*float64(many) + crossing*float64(cross)
}

// product sums, over the cells, one bit-sliced count times another.
func product(x, y *[3]uint64) (total int) {
	for i := range x {
		for j := range y {
			total += bits.OnesCount64(x[i]&y[j]) << (i + j)
		}
	}
	return total
}

// gameovers is one side's sum. It works on any board.
func gameovers(b *game.Board, own, other game.Bits) float64 {
	k := b.InARow()
	single, many, cross := 0, 0, 0
	var through [4]digits
	for d, s := range directions(b) {
		lines := starts(b.Full().AndNot(other), k, s)
		if lines.IsZero() {
			continue
		}
		held := stones(own, k, s)
		alone := held.equal(1, lines)
		single += alone.OnesCount()
		lines = lines.AndNot(alone).AndNot(held.equal(0, lines))
		many += lines.OnesCount()
		cross += lines.And(lines.Shr(uint(k-1) * s)).OnesCount()
		if k == 1 {
			cross = 0 // a line does not cross itself
		}
		for i := range k {
			through[d].add(lines.Shl(uint(i) * s))
		}
		for e := range d {
			for i, x := range through[d] {
				for j, y := range through[e] {
					cross += x.And(y).OnesCount() << (i + j)
				}
			}
		}
	}
	return singleStone*float64(single) + manyStones*float64(many) + crossing*float64(cross)
}
