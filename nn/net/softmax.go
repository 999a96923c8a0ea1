package net

import (
	"math"

	"github.com/evald/evald/engine/game"
)

// Softmax writes the probabilities of logits, exp(logit) normalised, into dst, which has the same length and may be logits. It subtracts
// the maximum first, so it works for any finite logits. Sums are in float64, so that dst sums to 1 within 1e-6.
func Softmax(dst, logits []float32) {
	MaskedSoftmax(dst, logits, nil)
}

// MaskedSoftmax is Softmax over the legal entries; nil means that all are legal. It ignores other logits and sets their entries of dst to
// 0, also if no entry is legal. dst may be logits.
func MaskedSoftmax(dst, logits []float32, legal []bool) {
	greatest := math.Inf(-1)
	for i, x := range logits {
		if legal == nil || legal[i] {
			greatest = max(greatest, float64(x))
		}
	}
	sum := 0.0
	for i, x := range logits {
		if legal == nil || legal[i] {
			sum += math.Exp(float64(x) - greatest)
		}
	}
	for i, x := range logits {
		if legal == nil || legal[i] {
			dst[i] = float32(math.Exp(float64(x)-greatest) / sum)
		} else {
			dst[i] = 0
		}
	}
}

// actionLogits copies the logit of each legal action from the cell in which its stone would land. cells is [H,W], top row first; dst and
// legal are [A]. Illegal actions get logit 0 and legal false.
func actionLogits(board *game.Board, p game.Position, cells, dst []float32, legal []bool) {
	clear(dst)
	clear(legal)
	for set := board.Legal(p); !set.IsZero(); set = set.WithoutFirst() {
		a := board.Action(set.First())
		dst[a], legal[a] = cells[board.Flat(set.First())], true
	}
}
