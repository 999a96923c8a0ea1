package net

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// normals returns n normally distributed numbers.
func normals(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// near fails if two slices differ by more than the tolerance, absolute below 1 and relative above.
func near(t *testing.T, what string, got, want []float32, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		g, w := float64(got[i]), float64(want[i])
		if !(math.Abs(g-w) <= tolerance*max(1, math.Abs(w))) {
			t.Fatalf("%s: value %d is %v, want %v", what, i, g, w)
		}
	}
}

// layerShapes are channels in and out, and boards of H rows and W columns, down to one cell.
var layerShapes = []struct{ in, out, h, w int }{
	{5, 16, 6, 7}, {16, 16, 6, 7}, {3, 2, 3, 3}, {2, 3, 1, 1}, {1, 1, 1, 9}, {2, 2, 9, 1}, {4, 7, 9, 12}, {1, 2, 2, 2},
}

// The convolution agrees with its definition over an explicitly padded input, in float64.
func TestConv3x3(t *testing.T) {
	r := gametest.Rand(1)
	for _, s := range layerShapes {
		cells := s.h * s.w
		x, weight, bias := normals(r, s.in*cells), normals(r, s.out*s.in*9), normals(r, s.out)
		padded := make([][][]float64, s.in) // [in][h+2][w+2]
		for i := range padded {
			padded[i] = make([][]float64, s.h+2)
			for row := range padded[i] {
				padded[i][row] = make([]float64, s.w+2)
			}
			for cell := range cells {
				padded[i][cell/s.w+1][cell%s.w+1] = float64(x[i*cells+cell])
			}
		}
		var want []float32
		for o := range s.out {
			for cell := range cells {
				sum := float64(bias[o])
				for i := range s.in {
					for tap := range 9 {
						k := float64(weight[(o*s.in+i)*9+tap])
						sum += k * padded[i][cell/s.w+tap/3][cell%s.w+tap%3]
					}
				}
				want = append(want, float32(sum))
			}
		}
		got := normals(r, s.out*cells) // old contents must not matter
		conv3x3(got, x, weight, bias, s.h, s.w)
		near(t, "conv3x3", got, want, 1e-5)
	}
}

// A 1x1 convolution is a 3x3 one with only the middle element, and a fully connected layer is a 1x1 convolution of one cell.
func TestConv1x1AndLinear(t *testing.T) {
	r := gametest.Rand(2)
	for _, s := range layerShapes {
		cells := s.h * s.w
		x, weight, bias := normals(r, s.in*cells), normals(r, s.out*s.in), normals(r, s.out)
		wide := make([]float32, 9*len(weight))
		for i, k := range weight {
			wide[9*i+4] = k
		}
		got, want := normals(r, s.out*cells), normals(r, s.out*cells)
		conv1x1(got, x, weight, bias, cells)
		conv3x3(want, x, wide, bias, s.h, s.w)
		near(t, "conv1x1", got, want, 1e-6)

		one, whole := normals(r, s.out), normals(r, s.out)
		conv1x1(one, x[:s.in], weight, bias, 1)
		linear(whole, x[:s.in], weight, bias)
		near(t, "linear", whole, one, 1e-6)
	}
}

func TestPoolsAndReLU(t *testing.T) {
	nan := float32(math.NaN())
	x := []float32{1, -2, 0, nan}
	relu(x)
	if !slices.Equal(x[:3], []float32{1, 0, 0}) || x[3] == x[3] {
		t.Errorf("relu gave %v, want [1 0 0 NaN]", x)
	}

	got := make([]float32, 4)
	poolMeanMax(got, []float32{1, 2, 6, -5, -3, -1}, 3)
	if want := []float32{3, -3, 6, -1}; !slices.Equal(got, want) {
		t.Errorf("mean and max are %v, want %v", got, want)
	}
	if poolMeanMax(got, []float32{0, nan, 0, 0, 0, 0}, 3); got[0] == got[0] || got[2] == got[2] {
		t.Errorf("mean and max of NaN are %v and %v", got[0], got[2])
	}

	sum := []float32{1, 2}
	if add(sum, []float32{10, 20}); !slices.Equal(sum, []float32{11, 22}) {
		t.Errorf("sum is %v", sum)
	}
}

func TestSoftmax(t *testing.T) {
	r := gametest.Rand(3)
	for _, n := range []int{1, 2, 3, 7, 81} {
		for _, scale := range []float32{0, 1e-3, 1, 50, 1e4, 1e38} {
			logits, got := normals(r, n), make([]float32, n)
			legal := make([]bool, n)
			for i := range logits {
				logits[i] = max(-3e38, min(3e38, logits[i]*scale))
				legal[i] = r.IntN(3) > 0
			}
			Softmax(got, logits)
			checkDistribution(t, got, nil, 1)

			masked := make([]float32, n)
			MaskedSoftmax(masked, logits, legal)
			want := float64(0)
			if slices.Contains(legal, true) {
				want = 1
			}
			checkDistribution(t, masked, legal, want)

			for i := range legal {
				legal[i] = true
			}
			MaskedSoftmax(masked, logits, legal)
			if !slices.Equal(masked, got) {
				t.Errorf("with everything legal: %v, want %v", masked, got)
			}
		}
	}
	got := make([]float32, 3)
	Softmax(got, []float32{0, float32(math.Log(2)), float32(math.Log(5))})
	near(t, "softmax", got, []float32{0.125, 0.25, 0.625}, 1e-7)
}

// checkDistribution fails unless p has no negative value, is zero if illegal, and has the given sum within 1e-6.
func checkDistribution(t *testing.T, p []float32, legal []bool, want float64) {
	t.Helper()
	sum := 0.0
	for i, v := range p {
		if v < 0 || legal != nil && !legal[i] && v != 0 {
			t.Fatalf("probability %d is %v", i, v)
		}
		sum += float64(v)
	}
	if !(math.Abs(sum-want) <= 1e-6) {
		t.Fatalf("probabilities %v sum to %v, want %v", p, sum, want)
	}
}
