package net

import "slices"

// Mirror returns, for each value of the tensor, the index of the value with the same role on the mirrored board. Channels and hidden units
// come in pairs 2i, 2i+1: one sees the board as the other sees its mirror image. If their number is odd, the last one is its own twin. The
// columns of a kernel are reversed. Planes and outputs do not come in pairs: for example, the mirrored plane of own stones is the plane of
// own stones of the mirror image.
//
// If every value of a network equals its mirror (Symmetric), a mirrored position gets the same value and the mirrored policy, up to
// rounding. Such a network is group-equivariant in the sense of Cohen and Welling (2016).
func (s Spec) Mirror() []int32 {
	out, in := twin, twin
	switch s.Name {
	case "stem.weight":
		in = itself
	case "value.fc.weight":
		in = pooled
	case "value.wdl.weight", "value.wdl.bias", "value.gameover.weight", "value.gameover.bias", "policy.logit.weight", "policy.logit.bias":
		out = itself
	}
	shape := slices.Concat(s.Shape, []int{1, 1, 1})
	outputs, inputs, kernel := shape[0], shape[1], shape[2] // [outputs, inputs, kernel, kernel]
	mirror := make([]int32, 0, s.Size())
	for o := range outputs {
		for i := range inputs {
			for row := range kernel {
				for column := range kernel {
					at := ((out(o, outputs)*inputs+in(i, inputs))*kernel+row)*kernel + kernel - 1 - column
					mirror = append(mirror, int32(at))
				}
			}
		}
	}
	return mirror
}

// twin returns the other unit of unit i's pair, among n units.
func twin(i, n int) int {
	if i^1 < n {
		return i ^ 1
	}
	return i
}

// pooled is twin for the n inputs of value.fc, which are the means of the channels and then their maxima.
func pooled(i, n int) int {
	channels := n / 2
	return i/channels*channels + twin(i%channels, channels)
}

func itself(i, _ int) int { return i }

// Symmetric reports whether every value of the network equals its mirror.
func (n *Network) Symmetric() bool {
	for _, s := range n.config.Specs() {
		values := n.weights[s.Name].Float32s()
		for i, j := range s.Mirror() {
			if values[i] != values[j] {
				return false
			}
		}
	}
	return true
}
