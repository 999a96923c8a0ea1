package heuristic_test

import (
	"math"

	"github.com/evald/evald/engine/game"
)

// The heuristics as the seeds define them: a loop over the masks of all winning lines.

// playable are the lines that own can still fill, and how many stones it has in each.
func playable(lines []game.Bits, own, other game.Bits) (open []game.Bits, count []int) {
	for _, line := range lines {
		if n := line.And(own).OnesCount(); n > 0 && line.And(other).IsZero() {
			open, count = append(open, line), append(count, n)
		}
	}
	return open, count
}

func slowBitsquares(lines []game.Bits, p game.Position, power float64) float64 {
	side := func(own, other game.Bits) (sum float64) {
		_, count := playable(lines, own, other)
		for _, n := range count {
			sum += math.Pow(float64(n), power)
		}
		return sum
	}
	return side(p.Own, p.Other()) - side(p.Other(), p.Own)
}

func slowGameovers(lines []game.Bits, p game.Position) float64 {
	side := func(own, other game.Bits) (sum float64) {
		open, count := playable(lines, own, other)
		for i, line := range open {
			if count[i] == 1 {
				sum += 0.1
				continue
			}
			sum++
			for j := range i {
				if count[j] > 1 && line.And(open[j]).OnesCount() == 1 {
					sum += 0.5
				}
			}
		}
		return sum
	}
	return side(p.Own, p.Other()) - side(p.Other(), p.Own)
}

type oddEvenParams struct{ pair3, endgame3, endgame2 float64 }

func slowOddEven(b *game.Board, p game.Position, power float64, params oddEvenParams) float64 {
	lines := b.Lines()
	score := slowBitsquares(lines, p, power)
	if !b.Rules().Gravity {
		return score
	}
	side := func(own, other game.Bits, mover bool) (sum float64) {
		open, count := playable(lines, own, other)
		var lacking [2]int // lines that lack one stone, by the parity of the gap's height above its stack
		for i, line := range open {
			mine, height := true, 0
			for c := range b.Columns() {
				stack := 0
				for r := range b.Rows() {
					at := b.Index(c, r)
					if p.All.Has(at) {
						stack++
					} else if line.Has(at) {
						first := (b.Cells()-b.Rows()+r)%2 == 0 // whose stone, if all other columns are full
						mine = mine && first == mover
						height = r - stack
					}
				}
			}
			switch b.InARow() - count[i] {
			case 1:
				lacking[height%2]++
				if mine {
					sum += params.endgame3
				}
			case 2:
				if mine {
					sum += params.endgame2
				}
			}
		}
		return sum + params.pair3*float64(lacking[0]/2+lacking[1]/2)
	}
	return score + side(p.Own, p.Other(), true) - side(p.Other(), p.Own, false)
}
