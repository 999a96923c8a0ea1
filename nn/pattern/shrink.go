package pattern

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
)

// Shrink returns a network whose compressed file is smaller and whose answers are less accurate. A
// row that few positions have gets larger steps between its numbers, or becomes 0: the step is
// coarseness divided by the square root of the row's frequency, which gives the smallest sum of
// squared errors for a size. frequency is that of Frequency.
func (n *Network) Shrink(frequency []float64, coarseness float64) (*Network, error) {
	w := n.Weights
	w.Table = make([]int16, len(n.Weights.Table))
	for row, f := range frequency {
		if f == 0 {
			continue
		}
		from, to := n.Weights.Table[row*w.Lanes:][:w.Lanes], w.Table[row*w.Lanes:][:w.Lanes]
		_, most := factorOf(from)
		step := max(math.Ceil(float64(most)/127), math.Round(coarseness/math.Sqrt(f)))
		if step > maxFactor {
			continue
		}
		for i, x := range from {
			size := math.Floor(math.Abs(float64(x))/step + roundUp)
			to[i] = int16(math.Copysign(size*step, float64(x)))
		}
	}
	return New(w)
}

// roundUp is added to a number of steps before its fraction is cut. With less than a half more
// numbers become 0, which costs less accuracy than the same size by larger steps.
const roundUp = 0.4

// gamesAtOnce is the number of games that Frequency plays at once.
const gamesAtOnce = 2048

// Frequency returns, for each row of the table, the share of positions that have it, in games that
// a network plays against itself and in their mirror images. Half of the games follow the network;
// in the others each move is random with a probability from 0 to 1, because searches also visit
// unlikely positions. The same arguments give the same frequencies.
func Frequency(ctx context.Context, n *Network, games int, seed uint64) ([]float64, error) {
	counts := make([]float64, RowCount())
	e := eval.New(NewBackend(n), eval.Options{})
	random := rand.New(rand.NewPCG(seed, 0))
	total := 0.0
	var rows []int32
	for begun := 0; begun < games; begun += gamesAtOnce {
		b := eval.NewBatch(board, min(gamesAtOnce, games-begun))
		wild := make([]float64, len(b.Pos))
		for i := range wild {
			if i%2 == 1 {
				wild[i] = random.Float64()
			}
		}
		for len(b.Pos) > 0 {
			if err := e.Evaluate(ctx, b); err != nil {
				return nil, err
			}
			going := 0
			for i, p := range b.Pos {
				for _, q := range []game.Position{p, board.Mirror(p)} {
					rows = AppendRows(rows[:0], q)
					for _, r := range rows {
						counts[r]++
					}
				}
				total += 2
				if p = board.Play(p, draw(random, b.PolicyRow(i), p, wild[i])); board.Result(p) == game.Ongoing {
					b.Pos[going], wild[going] = p, wild[i]
					going++
				}
			}
			*b = b.Slice(0, going)
		}
	}
	for i := range counts {
		counts[i] /= total
	}
	return counts, nil
}

// draw draws a move from a policy, or with the given probability any legal one.
func draw(random *rand.Rand, policy []float32, p game.Position, wild float64) int {
	var weights [kernel.Outputs]float32
	copy(weights[:], policy)
	if random.Float64() < wild {
		for a := range policy {
			weights[a] = 0
			if board.CanPlay(p, a) {
				weights[a] = 1
			}
		}
	}
	sum := float32(0)
	for _, x := range weights[:len(policy)] {
		sum += x
	}
	at := random.Float32() * sum
	last := -1
	for a := range policy {
		if weights[a] > 0 && board.CanPlay(p, a) {
			last = a
			if at -= weights[a]; at < 0 {
				break
			}
		}
	}
	return last
}
