package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
)

// selfTests caches each path's result.
var selfTests sync.Map // Path -> func() error

// SelfTest compares a path with plain Go on random planes and a small random network, once per process. If it returns an error, the path
// must not be used: the error contains the first difference, or means that the path is not in Paths. SelfTest takes some milliseconds.
func SelfTest(p Path) error {
	k, err := p.kernel()
	if err != nil {
		return err
	}
	test, _ := selfTests.LoadOrStore(p, sync.OnceValue(func() error { return selfTest(k) }))
	return test.(func() error)()
}

// randomNetwork has C channels, V head channels, F hidden values and 5 planes. It has a block for each element of less, by which that
// block's first biases are lowered: with 1.6, most inputs of its second convolution are zero, 95% as in the default network; with 6, nearly
// all.
func randomNetwork(r *rand.Rand, C, V, F int, less ...float32) Network {
	affine := func(out, in int) Affine {
		a := Affine{Weight: make([]float32, out*in), Bias: make([]float32, out)}
		for i := range a.Weight {
			a.Weight[i] = float32(r.NormFloat64() / math.Sqrt(float64(in)))
		}
		for i := range a.Bias {
			a.Bias[i] = float32(r.NormFloat64())
		}
		return a
	}
	n := Network{
		Stem: affine(C, 9*testPlanes), ValueConv: affine(V, C), FC: affine(F, 2*V), WDL: affine(3, F), GameOver: affine(4, F),
		PolicyConv: affine(V, C), PolicyLogit: affine(1, V),
	}
	for _, less := range less {
		b := [2]Affine{affine(C, 9*C), affine(C, 9*C)}
		for i := range b[0].Bias {
			b[0].Bias[i] -= less
		}
		n.Blocks = append(n.Blocks, b)
	}
	return n
}

// testPlanes is the number of planes of randomNetwork. randomPlanes returns zeros and ones for n positions.
const testPlanes = 5

func randomPlanes(r *rand.Rand, n, rows, columns int) []float32 {
	x := make([]float32, n*testPlanes*rows*columns)
	for i := range x {
		x[i] = float32(r.IntN(2))
	}
	return x
}

func selfTest(k kernel) error {
	r := rand.New(rand.NewPCG(1, 2))
	const C, rows, columns = 64, 6, 7      // enough channels for the forms that need whole vectors
	n := randomNetwork(r, C, 16, 20, 0, 6) // so that the sparse form is tested too
	base := goKernel()
	if k.int8 != nil { // then all other paths compute with the same rounded numbers
		n.Ranges = [][]float32{make([]float32, C), make([]float32, C)}
		for i := range C {
			n.Ranges[0][i], n.Ranges[1][i] = 3+float32(r.IntN(8)), 3+float32(r.IntN(8))
		}
		base.int8 = &int8Go
		for _, b := range n.Blocks { // to numbers that the sparse form represents exactly
			for _, a := range b {
				for i, w := range a.Weight {
					a.Weight[i] = math.Float32frombits(uint32(bfloat16(w)) << 16)
				}
			}
		}
	}
	plain, fast := newTower(n, base), newTower(n, k)
	want, got := plain.NewScratch(rows, columns), fast.NewScratch(rows, columns)
	count := min(3, want.Positions, got.Positions)
	x := randomPlanes(r, count, rows, columns)
	plain.Forward(want, x, count)
	fast.Forward(got, x, count)
	tolerance := 1e-4
	if k.bf16 {
		tolerance = 0.1 // logits are around 1; a wrong instruction changes them far more
	}
	for _, out := range [...]struct {
		name      string
		got, want []float32
	}{
		{"win-draw-loss", got.WDL[:3*count], want.WDL},
		{"gameover", got.GameOver[:4*count], want.GameOver},
		{"cell", got.Cells[:count*rows*columns], want.Cells},
	} {
		for i, v := range out.got {
			if !(math.Abs(float64(v-out.want[i])) <= tolerance) {
				return fmt.Errorf("CPU path %s fails its self-test: %s logit %d is %v, plain Go says %v", k.name, out.name, i, v, out.want[i])
			}
		}
	}
	return nil
}
