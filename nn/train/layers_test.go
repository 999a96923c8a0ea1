package train

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evald/evald/engine/game/gametest"
)

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
	gametest.OK(t, vm.RunAll())
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
