package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/evald/evald/kernels/cpu"
)

// paths returns the implementations that this processor and build support, the fastest first.
func paths() []*kernels {
	var all []*kernels
	for i := range vectorKernels {
		if slices.Contains(cpu.Paths(), vectorKernels[i].name) {
			all = append(all, &vectorKernels[i])
		}
	}
	return append(all, &plain)
}

// fastest returns the first path that agrees with plain Go on this machine.
var fastest = sync.OnceValue(func() *kernels {
	all := paths()
	return all[slices.IndexFunc(all, func(k *kernels) bool { return k == &plain || selfTest(k) == nil })]
})

// selfTest compares a path with plain Go on random numbers. The error contains the first difference. It takes some milliseconds.
func selfTest(k *kernels) error {
	got, want := selfTestResults(k), selfTestResults(&plain)
	for i, v := range got {
		if !(math.Abs(float64(v-want[i])) <= 1e-3) {
			return fmt.Errorf("CPU path %s fails its self-test: result %d is %v, plain Go says %v", k.name, i, v, want[i])
		}
	}
	return nil
}

// normals returns normally distributed random numbers with mean 0.
func normals(r *rand.Rand, n int, deviation float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(deviation * r.NormFloat64())
	}
	return x
}

// selfTestResults returns the results of a 1x1 and a 3x3 convolution and of their gradients, one after the other.
func selfTestResults(k *kernels) []float32 {
	p := newPool(1, k)
	r := rand.New(rand.NewPCG(1, 2))
	normal := func(n int) []float32 { return normals(r, n, 1) }
	var all []float32
	for _, side := range []int{1, 3} {
		s := Shape{N: 9, I: 20, O: 70, H: 6, W: 7, K: side}
		in, out, weights := s.lengths()
		x, dy, yes, weight, bias := normal(in), normal(out), normal(out), normal(weights), normal(s.O)
		y, dx, dweight, dbias := make([]float32, out), make([]float32, in), make([]float32, weights), make([]float32, s.O)
		p.Forward(y, x, weight, bias, s, Then{Add: dy, ReLU: true})
		p.InputGrad(dx, dy, weight, s, Grad{Y: yes, Add: x, X: x})
		p.WeightGrad(dweight, dbias, dy, x, s, yes)
		all = slices.Concat(all, y, dx, dweight, dbias)
	}
	return all
}
