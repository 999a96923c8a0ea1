package pattern

import (
	"math"

	kernel "github.com/evald/evald/kernels/cpu/pattern"
)

// The exponential of logits, which are whole numbers: exp(-d / kernel.Unit) is Coarse[d/len(Fine)] * Fine[d%len(Fine)], and 0 for larger
// d, where even the least float32 is larger.
var (
	Fine   = exponentials(1, 256)
	Coarse = exponentials(256, 1664)
)

func exponentials(step, n int) []float32 {
	all := make([]float32, n)
	for i := range all {
		all[i] = float32(math.Exp(-float64(i*step) / kernel.Unit))
	}
	return all
}

// Softmax writes the probabilities of logits, a network's results, into p. Entries whose bit of legal is not set get 0. The sum is 1 within
// 1e-6, or 0 if no entry is legal.
//
// Each operation is rounded to float32 once, in the order of the code, and none is contracted with another. So every processor gets the
// same bits, and a GPU too (probabilities in kernels/cuda/tables.h).
func Softmax(p []float32, logits []int32, legal uint32) {
	most := int32(math.MinInt32)
	for i, x := range logits {
		if legal>>i&1 != 0 {
			most = max(most, x)
		}
	}
	var sum float32
	for i, x := range logits {
		d := uint32(most) - uint32(x)
		if legal>>i&1 == 0 || d >= uint32(len(Fine)*len(Coarse)) {
			p[i] = 0
			continue
		}
		p[i] = float32(Coarse[d/256] * Fine[d%256])
		sum = float32(sum + p[i])
	}
	if sum == 0 { // no entry is legal
		return
	}
	for i := range logits {
		p[i] = float32(p[i] / sum)
	}
}
