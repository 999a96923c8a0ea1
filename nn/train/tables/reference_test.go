package tables

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/nn/pattern"
)

// logits computes a position's logits: win, draw, loss, and the moves by column. It is what training computes, in float64. The
// whole numbers of a pattern.Network differ from it by what they round.
func logits(r *pattern.Real, p game.Position) (all [10]float64) {
	rows := pattern.AppendRows(nil, p)
	acc := make([]float64, r.Lanes)
	for i, b := range r.Bias {
		acc[i] = float64(b)
		for _, row := range rows {
			acc[i] += float64(r.Table[int(row)*r.Lanes+i])
		}
	}
	clamp := func(x float64) float64 { return min(max(x, 0), 1) }
	half := (r.Lanes - kernel.Outputs) / 2
	x := make([]float64, half)
	for i := range x {
		x[i] = clamp(acc[i]) * clamp(acc[half+i])
	}
	for k, l := range r.Dense {
		y := make([]float64, len(l.Bias))
		for o := range y {
			y[o] = float64(l.Bias[o])
			for i := range x {
				y[o] += x[i] * float64(l.Weight[i*len(y)+o])
			}
			if k < 2 {
				y[o] = clamp(y[o])
			}
		}
		x = y
	}
	for i := range all {
		all[i] = x[i] + acc[2*half+i]
	}
	return all
}

// The whole numbers stay near the network of real numbers that they stand for.
func TestReference(t *testing.T) {
	gametest.OneGoroutine(t)
	w := kernel.Random(rand.New(rand.NewPCG(7, 7)), pattern.RowCount(), 64, 32, 16)
	for i := range w.Table {
		w.Table[i] /= 2
	}
	n := gametest.Must(pattern.New(*w))(t)
	for i := range n.Weights.Dense { // weights that add up to logits of a few units, as a trained network's do
		for k := range n.Weights.Dense[i].Weight {
			n.Weights.Dense[i].Weight[k] /= 4
		}
	}
	k := gametest.Must(kernel.New(&n.Weights, kernel.Go))(t)
	real, out := n.Real(), make([]int32, kernel.Outputs)
	most, spread := 0.0, 0.0
	for _, p := range gametest.Positions(gametest.Rand(9), board, 300, true) {
		if board.Result(p) != 0 {
			continue
		}
		want := logits(real, p)
		k.Forward(pattern.AppendRows(nil, p), pattern.Each, out)
		for i, x := range want {
			most = max(most, math.Abs(x-float64(out[i])/kernel.Unit))
			spread = max(spread, math.Abs(x))
		}
	}
	if most > 0.25 || spread < 2 {
		t.Errorf("logits of up to %.2f differ by up to %.3f", spread, most)
	}
	t.Logf("logits of up to %.2f differ by up to %.3f", spread, most)
}
