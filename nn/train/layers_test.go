package train

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cpu/conv"
)

// Our convolution, with relu and residual, agrees with gorgonia's own operations, forward and backward.
func TestLayerAgainstGorgonia(t *testing.T) {
	for _, k := range []int{1, 3} {
		const N, I, O, H, W = 2, 3, 4, 4, 5
		r := gametest.Rand(uint64(k))
		random := func(shape ...int) *tensor.Dense {
			d := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(shape...))
			for i := range d.Float32s() {
				d.Float32s()[i] = float32(r.NormFloat64())
			}
			return d
		}
		x, weight, bias, residual, c := random(N, I, H, W), random(O, I, k, k), random(O), random(N, O, H, W), random(N, O, H, W)

		theirs := run(t, []*tensor.Dense{x, weight, bias, residual, c}, func(in gorgonia.Nodes) *gorgonia.Node {
			y := must(gorgonia.Conv2d(in[0], in[1], tensor.Shape{k, k}, []int{k / 2, k / 2}, []int{1, 1}, []int{1, 1}))
			b4 := must(gorgonia.Reshape(in[2], tensor.Shape{1, O, 1, 1}))
			y = must(gorgonia.BroadcastAdd(y, b4, nil, []byte{0, 2, 3}))
			return must(gorgonia.Rectify(must(gorgonia.Add(y, in[3]))))
		})
		pool := conv.NewPool(2)
		defer pool.Close()
		ours := run(t, []*tensor.Dense{last(x), weight, bias, last(residual), last(c)}, func(in gorgonia.Nodes) *gorgonia.Node {
			return layer{pool: pool, weight: in[1], bias: in[2], relu: true}.apply(in[0], in[3])
		})
		same := func(what string, a, b *tensor.Dense) {
			t.Helper()
			for i, v := range a.Float32s() {
				near(t, what, float64(v), float64(b.Float32s()[i]), 1e-5)
			}
		}
		same("y", ours[0], last(theirs[0]))
		same("dx", ours[1], last(theirs[1]))
		same("dweight", ours[2], theirs[2])
		same("dbias", ours[3], theirs[3])
		same("dresidual", ours[4], last(theirs[4]))
	}
}

// last returns x [N,C,H,W] with the channels last.
func last(x *tensor.Dense) *tensor.Dense {
	s := x.Shape()
	y := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(s[0], s[2], s[3], s[1]))
	cells := s[2] * s[3]
	for i, v := range x.Float32s() {
		n, c, cell := i/(s[1]*cells), i/cells%s[1], i%cells
		y.Float32s()[(n*cells+cell)*s[1]+c] = v
	}
	return y
}

// run computes y = f(all values but the last), and the gradients of sum(last value * y).
func run(t *testing.T, values []*tensor.Dense, f func(gorgonia.Nodes) *gorgonia.Node) []*tensor.Dense {
	t.Helper()
	g := gorgonia.NewGraph()
	var in gorgonia.Nodes
	for i, v := range values {
		in = append(in, gorgonia.NewTensor(g, tensor.Float32, v.Dims(), gorgonia.WithShape(v.Shape()...),
			gorgonia.WithName(string(rune('a'+i))), gorgonia.WithValue(v.Clone())))
	}
	inputs := in[:len(in)-1]
	y := f(inputs)
	var out gorgonia.Value
	gorgonia.Read(y, &out)
	loss := must(gorgonia.Sum(must(gorgonia.HadamardProd(y, in[len(in)-1]))))
	if _, err := gorgonia.Grad(loss, inputs...); err != nil {
		t.Fatal(err)
	}
	vm := gorgonia.NewTapeMachine(g, gorgonia.BindDualValues(inputs...))
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}
	results := []*tensor.Dense{out.(*tensor.Dense)}
	for _, n := range inputs {
		v, err := n.Grad()
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, v.(*tensor.Dense))
	}
	return results
}

// The gradient passes only where the relu's output is positive.
func TestReLUGrad(t *testing.T) {
	small, nan, inf := math.SmallestNonzeroFloat32, math.NaN(), math.Inf(1)
	y := vector([]int{8}, 0, float32(math.Copysign(0, -1)), float32(small), 1, float32(nan), float32(inf), 0, 2)
	g := vector([]int{8}, 1, 2, 3, 4, 5, 6, -7, -8)
	graph := gorgonia.NewGraph()
	var in gorgonia.Nodes
	for i, v := range []*tensor.Dense{y, g} {
		in = append(in, gorgonia.NewTensor(graph, tensor.Float32, 1, gorgonia.WithShape(8), gorgonia.WithName(string(rune('a'+i))), gorgonia.WithValue(v)))
	}
	out := reluGrad(in[0], in[1])
	vm := gorgonia.NewTapeMachine(graph)
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]float32{0, 0, 3, 4, 5, 6, 0, -8}, floats(out.Value())); d != "" {
		t.Error(d)
	}
}

// Cells that share a maximum share its gradient equally; the mean's gradient goes to all cells equally.
func TestPoolGrad(t *testing.T) {
	x := []float32{1, 5, 3, 2, 3, 5, 0, 5} // [cells,V]: channels {1,3,3,0} and {5,2,5,5}
	pooled, g := make([]float32, 4), []float32{4, 8, 1, 3}
	poolRow(pooled, x, 2)
	if d := cmp.Diff([]float32{1.75, 4.25, 3, 5}, pooled); d != "" {
		t.Error(d)
	}
	dx := make([]float32, 8)
	poolGrad(dx, x, pooled, g, make([]float32, 2))
	if d := cmp.Diff([]float32{1, 3, 1.5, 2, 1.5, 3, 1, 3}, dx); d != "" {
		t.Error(d)
	}
}
