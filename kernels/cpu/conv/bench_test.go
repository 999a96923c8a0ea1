package conv

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// tower is six residual blocks of the network, with everything that their backward pass needs.
type tower struct {
	s       Shape
	weights [][]float32  // of each convolution, two per block
	x       [][]float32  // x[0], then the output of each convolution
	dx      [3][]float32 // gradients
	dw, db  []float32
}

func newTower() *tower {
	rng := rand.New(rand.NewPCG(1, 1))
	s := Shape{N: 256, I: 64, O: 64, H: 6, W: 7, K: 3}
	size, _, weights := s.lengths()
	t := &tower{s: s, dw: make([]float32, weights), db: make([]float32, s.O)}
	t.x = append(t.x, normals(rng, size, 1))
	for range 2 * 6 {
		t.weights = append(t.weights, normals(rng, weights, 0.02))
		t.x = append(t.x, make([]float32, size))
	}
	for i := range t.dx {
		t.dx[i] = normals(rng, size, 1)
	}
	return t
}

func (t *tower) forward(p *Pool) {
	for i, w := range t.weights {
		then := Then{ReLU: true}
		if i%2 == 1 {
			then.Add = t.x[i-1]
		}
		p.Forward(t.x[i+1], t.x[i], w, t.db, t.s, then)
	}
}

// backward computes the gradient with respect to the tower's input from that of its output in dx[0], which is already zero
// wherever the output is.
func (t *tower) backward(p *Pool) {
	for i := len(t.weights) - 1; i > 0; i -= 2 {
		p.WeightGrad(t.dw, t.db, t.dx[0], t.x[i], t.s, nil)
		p.InputGrad(t.dx[1], t.dx[0], t.weights[i], t.s, Grad{X: t.x[i]})
		p.WeightGrad(t.dw, t.db, t.dx[1], t.x[i-1], t.s, nil)
		p.InputGrad(t.dx[0], t.dx[1], t.weights[i-1], t.s, Grad{Add: t.dx[0], X: t.x[i-1]})
	}
}

// BenchmarkTower is six blocks of 64 channels for 256 boards of 7x6, as in peer.py. GFLOP/s count the multiplications and
// additions of the plain loops, including those on the border's zeros, as is customary. The paths in C do 192/378 of those, so
// their figures may exceed the ceiling, twice the figure of BenchmarkPeak of kernels/cpu.
func BenchmarkTower(b *testing.B) {
	t := newTower()
	flops := 2 * 9 * float64(len(t.weights)*t.s.N*t.s.I*t.s.O*t.s.H*t.s.W)
	for _, k := range paths() {
		for _, threads := range []int{1, 2} {
			pool := newPool(threads, k)
			name := fmt.Sprintf("%s/threads=%d", k.name, threads)
			measure := func(name string, flops float64, step func()) {
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						step()
					}
					b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
			measure("forward/"+name, flops, func() { t.forward(pool) })
			measure("training/"+name, 3*flops, func() { t.forward(pool); t.backward(pool) })
		}
	}
}
