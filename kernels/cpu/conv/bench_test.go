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

const (
	benchBlocks   = 6
	benchBatch    = 256
	benchChannels = 64
)

func newTower() *tower {
	rng := rand.New(rand.NewPCG(1, 1))
	s := Shape{N: benchBatch, I: benchChannels, O: benchChannels, H: 6, W: 7}
	normal := func(size int, scale float64) []float32 {
		x := make([]float32, size)
		for i := range x {
			x[i] = float32(scale * rng.NormFloat64())
		}
		return x
	}
	size := s.N * s.I * s.H * s.W
	t := &tower{s: s, dw: make([]float32, s.O*s.I*9), db: make([]float32, s.O)}
	t.x = append(t.x, normal(size, 1))
	for range 2 * benchBlocks {
		t.weights = append(t.weights, normal(s.O*s.I*9, 0.02))
		t.x = append(t.x, make([]float32, size))
	}
	for i := range t.dx {
		t.dx[i] = normal(size, 1)
	}
	return t
}

func (t *tower) forward(p *Pool) {
	for i, w := range t.weights {
		then := Then{ReLU: true}
		if i%2 == 1 {
			then.Add = t.x[i-1]
		}
		p.Conv3x3(t.x[i+1], t.x[i], w, t.db, t.s, then)
	}
}

// backward computes the gradient with respect to the tower's input from that of its output in dx[0], which is already zero
// wherever the output is.
func (t *tower) backward(p *Pool) {
	for i := len(t.weights) - 1; i > 0; i -= 2 {
		p.Conv3x3WeightGrad(t.dw, t.db, t.dx[0], t.x[i], t.s, nil)
		p.Conv3x3InputGrad(t.dx[1], t.dx[0], t.weights[i], t.s, Grad{X: t.x[i]})
		p.Conv3x3WeightGrad(t.dw, t.db, t.dx[1], t.x[i-1], t.s, nil)
		p.Conv3x3InputGrad(t.dx[0], t.dx[1], t.weights[i-1], t.s, Grad{Add: t.dx[0], X: t.x[i-1]})
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
			b.Run("forward/"+name, func(b *testing.B) {
				for b.Loop() {
					t.forward(pool)
				}
				b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
			b.Run("training/"+name, func(b *testing.B) {
				for b.Loop() {
					t.forward(pool)
					t.backward(pool)
				}
				b.ReportMetric(3*flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
			pool.Close()
		}
	}
}
