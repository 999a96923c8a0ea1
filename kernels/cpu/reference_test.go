package cpu

// reference is the operation as defined, with weights as in nn/net ([out][in][taps]) and inputs and `add` as plain numbers.
// It sums in float64.
type reference struct {
	weight, bias []float32
	taps         []int32
	x            [][]float32 // [cell][in]
	add          [][]float32 // [cell][out], or nil
	relu         bool
}

// at computes one output of a cell.
func (r *reference) at(cell, o int) float32 {
	in := len(r.x[0])
	sum := float64(r.bias[o])
	for t, tap := range r.taps {
		for i, x := range r.x[cell+int(tap)] {
			sum += float64(r.weight[(o*in+i)*len(r.taps)+t]) * float64(x)
		}
	}
	if r.add != nil {
		sum += float64(r.add[cell][o])
	}
	if r.relu && sum < 0 {
		sum = 0
	}
	return float32(sum)
}
