package train

import (
	"math"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cpu/conv"
	"github.com/evald/evald/nn/net"
)

// newtonSchulz is the iteration in plain loops and float64, on g [rows,columns].
func newtonSchulz(g []float64, rows, columns int) []float64 {
	product := func(a, b []float64, n, inner, m int, transposed bool) []float64 {
		c := make([]float64, n*m)
		for i := range n {
			for j := range m {
				for k := range inner {
					if transposed {
						c[i*m+j] += a[i*inner+k] * b[j*inner+k]
					} else {
						c[i*m+j] += a[i*inner+k] * b[k*m+j]
					}
				}
			}
		}
		return c
	}
	norm := 0.0
	for _, v := range g {
		norm += v * v
	}
	x := make([]float64, len(g))
	for i, v := range g {
		x[i] = v / math.Sqrt(norm)
	}
	for range 5 {
		a := product(x, x, rows, columns, rows, true)
		b := product(a, a, rows, rows, rows, false)
		for i := range b {
			b[i] = 2.0315*b[i] - 4.7750*a[i]
		}
		bx := product(b, x, rows, rows, columns, false)
		for i := range x {
			x[i] = 3.4445*x[i] + bx[i]
		}
	}
	return x
}

func TestOrthogonalise(t *testing.T) {
	pool := conv.NewPool(2)
	r := gametest.Rand(5)
	for _, size := range [][2]int{{1, 1}, {1, 9}, {4, 36}, {5, 45}, {9, 9}, {32, 288}, {64, 576}} {
		rows, columns := size[0], size[1]
		if gametest.Race && rows > 32 {
			continue // the slow form takes seconds, and one goroutine
		}
		m, g := newMuon(rows, columns), make([]float64, rows*columns)
		for i := range g {
			m.update[i] = float32(1e-3 * r.NormFloat64())
			g[i] = float64(m.update[i])
		}
		m.orthogonalise(pool)
		want := newtonSchulz(g, rows, columns)
		for i, got := range m.update {
			if math.Abs(float64(got)-want[i]) > 2e-4 {
				t.Fatalf("%dx%d: value %d is %v, want %v", rows, columns, i, got, want[i])
			}
		}
		if columns < 9*rows { // a nearly square random matrix has singular values near zero, which need more steps
			continue
		}
		for i := range rows { // all singular values are near 1
			for j := range rows {
				dot := 0.0
				for k := range columns {
					dot += float64(m.update[i*columns+k]) * float64(m.update[j*columns+k])
				}
				if i == j && (dot < 0.4 || dot > 1.5) || i != j && math.Abs(dot) > 0.5 {
					t.Errorf("%dx%d: the product of rows %d and %d is %v", rows, columns, i, j, dot)
				}
			}
		}
	}
	zero := newMuon(2, 3)
	zero.orthogonalise(pool)
	for _, v := range zero.update {
		if v != 0 {
			t.Fatalf("without a gradient the update is %v", zero.update)
		}
	}
}

// Two steps of Muon by hand, and the set of parameters that it trains.
func TestMuonSteps(t *testing.T) {
	pool := conv.NewPool(1)
	const rows, columns = 2, 18
	spec := net.Spec{Name: "blocks.0.conv1.weight", Shape: []int{2, 2, 3, 3}}
	s := &solver{decay: 0.1, rate: 0.5, pool: pool, moments: map[string]*moments{spec.Name: newMoments(Muon, spec, false)}}
	for name, want := range map[string]bool{spec.Name: true, "blocks.0.conv2.weight": true, "stem.weight": false, "value.fc.weight": false} {
		if got := newMoments(Muon, net.Spec{Name: name, Shape: spec.Shape}, false).muon != nil; got != want {
			t.Errorf("%s is Muon's: %t, want %t", name, got, want)
		}
	}
	r := gametest.Rand(6)
	values := func() (f []float32) {
		for range rows * columns {
			f = append(f, float32(r.NormFloat64()))
		}
		return f
	}
	p := param{spec.Name, vector(spec.Shape, values()...), vector(spec.Shape, values()...)}
	w, momentum := make([]float64, rows*columns), make([]float64, rows*columns)
	for i, v := range p.w.Float32s() {
		w[i] = float64(v)
	}
	for range 2 {
		copy(p.grad.Float32s(), values())
		update := make([]float64, len(w))
		for i, g := range p.grad.Float32s() {
			momentum[i] = 0.95*momentum[i] + 0.05*float64(g)
			update[i] = 0.95*momentum[i] + 0.05*float64(g)
		}
		update = newtonSchulz(update, rows, columns)
		for i, u := range update {
			w[i] -= 0.5*0.1*w[i] + 0.5*0.5*math.Sqrt(columns)*u
		}
		gametest.OK(t, s.Step([]gorgonia.ValueGrad{p}))
		for i, got := range p.w.Float32s() {
			near(t, "weight", float64(got), w[i], 1e-4)
		}
	}
}
