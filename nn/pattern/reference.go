package pattern

import (
	"github.com/evald/evald/engine/game"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
)

// Logits computes a position's logits: win, draw, loss, and the moves by column. It is what training computes, in float64. The
// whole numbers of a Network differ from it by what they round.
func (r *Real) Logits(p game.Position) (logits [10]float64) {
	rows := AppendRows(nil, p)
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
	for i := range logits {
		logits[i] = x[i] + acc[2*half+i]
	}
	return logits
}
