package heuristic

import (
	"context"
	"math"
	"math/bits"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// Rollout plays random games to the end, equally many after each legal move: Games in all, rounded up to a multiple of the number of moves.
//
//	WDL    = the shares of wins, draws and losses, the first move uniformly random
//	Policy = softmax over moves of the mean result in -1..1 / rolloutTemperature
//
// The random numbers depend only on the position and Seed, so an answer does not depend on its batch.
type Rollout struct {
	Games int    // random games per position, from 1
	Seed  uint64 // another seed gives other games
}

const rolloutTemperature = 0.25

// Attributes implements eval.Backend.
func (Rollout) Attributes() eval.Attributes { return attributes }

// Compute implements eval.Backend.
func (r Rollout) Compute(ctx context.Context, b *eval.Batch) error {
	return rows(ctx, b, eval.Rollout, func(i int, legal game.Bits) { r.answer(b, i, legal) })
}

func (r Rollout) answer(b *eval.Batch, i int, legal game.Bits) {
	rng := splitmix(b.Pos[i].Hash() ^ r.Seed*0x9e3779b97f4a7c15)
	moves := legal.OnesCount()
	each := (r.Games + moves - 1) / moves
	certain := shareWins(b, i)
	policy := b.PolicyRow(i)
	var results [4]int // by game.Result, for the side to move
	total := 0.0
	for l := legal; !l.IsZero(); l = l.WithoutFirst() {
		child := b.Board.PlayCell(b.Pos[i], l.LowBit())
		sum := 0
		for range each {
			result := -playOut(b.Board, child, &rng)
			results[int(game.Draw)-result]++
			sum += result
		}
		if !certain {
			x := math.Exp(float64(sum) / float64(each) / rolloutTemperature)
			policy[b.Board.Action(l.First())] = float32(x)
			total += x
		}
	}
	if !certain {
		for a := range policy {
			policy[a] = float32(float64(policy[a]) / total)
		}
	}
	games := float64(each * moves)
	setWDL(b.WDLRow(i), float64(results[game.Win])/games, float64(results[game.Draw])/games, float64(results[game.Loss])/games)
}

// playOut plays random moves to the end. It returns +1 if the side to move at p wins, 0 for a draw, and -1 if it loses.
func playOut(b *game.Board, p game.Position, rng *splitmix) int {
	sign := -1 // the result for the side that moved last
	for {
		if b.Won(p.Other()) {
			return sign
		}
		legal := b.Legal(p)
		if legal.IsZero() {
			return 0
		}
		p = b.PlayCell(p, legal.Nth(rng.below(legal.OnesCount())))
		sign = -sign
	}
}

// splitmix is Steele, Lea and Flood's SplitMix64 generator (2014): small, and random enough to choose moves.
type splitmix uint64

// below returns a number from 0 up to n.
func (s *splitmix) below(n int) int {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	hi, _ := bits.Mul64(z^z>>31, uint64(n))
	return int(hi)
}
