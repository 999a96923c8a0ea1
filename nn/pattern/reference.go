package pattern

import (
	"github.com/evald/evald/engine/game"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
)

// Reference computes a position's logits in real numbers: win, draw, loss, and the moves by column. It is what training
// computes. The whole numbers differ from it by what they round.
func (n *Network) Reference(p game.Position) (logits [10]float64) {
	w := &n.Weights
	rows := AppendRows(nil, p)
	acc := make([]float64, w.Lanes) // 1 is 255, in the last lanes 127
	for i, b := range w.Bias {
		acc[i] = float64(b)
		for _, r := range rows {
			acc[i] += float64(w.Table[int(r)*w.Lanes+i])
		}
	}
	clamp := func(x float64) float64 { return min(max(x, 0), 1) }
	half := (w.Lanes - kernel.Outputs) / 2
	x := make([]float64, half)
	for i := range x {
		x[i] = clamp(acc[i]/255) * clamp(acc[half+i]/255)
	}
	for k, l := range w.Dense {
		unit := 64.0 // of a weight
		if k == 2 {
			unit = 32
		}
		y := make([]float64, len(l.Bias))
		for o := range y {
			y[o] = float64(l.Bias[o]) / (127 * unit)
			for i := range x {
				y[o] += x[i] * float64(l.Weight[o*len(x)+i]) / unit
			}
			if k < 2 {
				y[o] = clamp(y[o])
			}
		}
		x = y
	}
	for i := range logits {
		logits[i] = x[i] + acc[2*half+i]/127
	}
	return logits
}
