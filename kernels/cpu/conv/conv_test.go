package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/evald/evald/kernels/cpu"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every float32 path of the network's evaluation trains, too, in the same order.
func TestPaths(t *testing.T) {
	var got, want []cpu.Path
	for _, k := range paths() {
		got = append(got, k.name)
	}
	for _, p := range cpu.Paths() {
		if slices.Contains([]cpu.Path{cpu.AVX512, cpu.AVX2, cpu.NEON, cpu.Go}, p) {
			want = append(want, p)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("paths %v, want %v", got, want)
	}
}

// All paths pass their self-test, and kernels that compute something else do not. A pool takes the fastest.
func TestSelfTest(t *testing.T) {
	for _, k := range paths() {
		if err := selfTest(k); err != nil {
			t.Error(err)
		}
	}
	if fastest() != paths()[0] {
		t.Errorf("pools use %s, want %s", fastest().name, paths()[0].name)
	}
	if testing.Short() {
		return // the plain loops are slow under the race detector and in emulation
	}
	for name, damage := range map[cpu.Path]func(k *kernels){
		"wrong": func(k *kernels) {
			k.forward = func(y, x, xMask, u, bias, add, yMask, scratch []float32, d *dims) {
				plainForward(y, x, xMask, u, bias, add, yMask, scratch, d)
				y[len(y)-1] += 0.1
			}
		},
		"not written": func(k *kernels) { k.gradients = func([]float32, []float32, int, int, int, *dims) {} },
		"NaN": func(k *kernels) {
			k.sums = func(sums, dbias, x, dy, y, scratch []float32, d *dims) {
				plainSums(sums, dbias, x, dy, y, scratch, d)
				dbias[0] = float32(math.NaN())
			}
		},
	} {
		broken := plain
		broken.name = name
		damage(&broken)
		if err := selfTest(&broken); err == nil || !strings.Contains(err.Error(), "CPU path "+string(name)+" fails its self-test: ") {
			t.Errorf("%s: error %v, want a failed self-test", name, err)
		}
	}
}

// problem is a convolution with all its buffers, each between guard words that must not change.
type problem struct {
	s                                  Shape
	x, weight, bias, dy, add, dadd, y0 []float32
	then                               Then
	grad                               Grad
	gotY, gotDx, gotDweight, gotDbias  []float32
	guarded                            map[string][]float32
}

const guards, guardWord = 16, 12345.5

func newProblem(rng *rand.Rand, s Shape) *problem {
	p := &problem{s: s, guarded: map[string][]float32{}}
	buffer := func(name string, size int) []float32 {
		guard := slices.Repeat([]float32{guardWord}, guards)
		p.guarded[name] = slices.Concat(guard, normals(rng, size, 1), guard)
		return p.guarded[name][guards : guards+size : guards+size]
	}
	in, out, weights := s.lengths()
	p.x, p.dy = buffer("x", in), buffer("dy", out)
	p.weight, p.bias = buffer("weight", weights), buffer("bias", s.O)
	p.add, p.dadd, p.y0 = buffer("add", out), buffer("dadd", in), buffer("y0", out)
	p.gotY, p.gotDx = buffer("y", out), buffer("dx", in)
	p.gotDweight, p.gotDbias = buffer("dweight", weights), buffer("dbias", s.O)
	choose := func(x []float32) []float32 {
		if rng.IntN(2) == 0 {
			return nil
		}
		return x
	}
	p.then = Then{Add: choose(p.add), ReLU: rng.IntN(2) == 0}
	p.grad = Grad{Y: choose(p.y0), Add: choose(p.dadd), X: choose(p.x)}
	return p
}

// check fails if a guard word has changed.
func (p *problem) check(t *testing.T, name string) {
	t.Helper()
	for buffer, whole := range p.guarded {
		for i, v := range whole {
			if (i < guards || i >= len(whole)-guards) && v != guardWord {
				t.Errorf("%s%s: wrote %g at element %d of %d", name, buffer, v, i-guards, len(whole)-2*guards)
			}
		}
	}
}

// forget fills the results with NaN, so that anything not written is noticed.
func (p *problem) forget() {
	for _, got := range p.results() {
		for i := range got {
			got[i] = float32(math.NaN())
		}
	}
}

func (p *problem) run(pool *Pool) {
	pool.Forward(p.gotY, p.x, p.weight, p.bias, p.s, p.then)
	pool.InputGrad(p.gotDx, p.dy, p.weight, p.s, p.grad)
	pool.WeightGrad(p.gotDweight, p.gotDbias, p.dy, p.x, p.s, p.grad.Y)
}

// results are all that run computes.
func (p *problem) results() [][]float32 {
	return [][]float32{p.gotY, p.gotDx, p.gotDweight, p.gotDbias}
}

// near fails if got differs from want by more than float32 sums of that many products of standard normal numbers do.
func near(t *testing.T, name string, got, want []float32, terms int) {
	t.Helper()
	const eps = 1.0 / (1 << 24)
	tolerance := 40 * eps * math.Sqrt(float64(terms)) * math.Log2(float64(terms)+2)
	for i := range want {
		if !(math.Abs(float64(got[i]-want[i])) <= tolerance) {
			t.Errorf("%s[%d] = %g, want %g within %.2g", name, i, got[i], want[i], tolerance)
			return
		}
	}
}

// Every path agrees with the loops of reference_test.go, and writes nowhere else.
func TestAgainstReference(t *testing.T) {
	pools := map[cpu.Path]*Pool{}
	for _, k := range paths() {
		pools[k.name] = newPool(2, k)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	shapes := []Shape{
		{N: 5, I: 64, O: 64, H: 6, W: 7},
		{N: 20, I: 5, O: 32, H: 6, W: 7},
		{N: 3, I: 17, O: 130, H: 3, W: 3},
		{N: 1, I: 1, O: 1, H: 1, W: 1},
	}
	for range 16 {
		shapes = append(shapes, Shape{N: 1 + rng.IntN(9), I: 1 + rng.IntN(70), O: 1 + rng.IntN(70), H: 1 + rng.IntN(12), W: 1 + rng.IntN(12)})
	}
	if testing.Short() { // the plain loops are slow under the race detector
		shapes = shapes[3:6]
	}
	for i, s := range shapes {
		for _, s.K = range []int{1, 3} {
			p := newProblem(rng, s)
			y, dx := make([]float32, len(p.gotY)), make([]float32, len(p.gotDx))
			dweight, dbias := make([]float32, len(p.gotDweight)), make([]float32, s.O)
			referenceForward(y, p.x, p.weight, p.bias, s, p.then)
			referenceInputGrad(dx, p.dy, p.weight, s, p.grad)
			referenceWeightGrad(dweight, dbias, p.dy, p.x, s, p.grad.Y)
			for path, pool := range pools {
				p.forget()
				p.run(pool)
				name := fmt.Sprintf("%s, shape %d, %+v: ", path, i, s)
				p.check(t, name)
				near(t, name+"y", p.gotY, y, s.I*s.K*s.K)
				near(t, name+"dx", p.gotDx, dx, s.O*s.K*s.K)
				near(t, name+"dweight", p.gotDweight, dweight, s.N*s.H*s.W)
				near(t, name+"dbias", p.gotDbias, dbias, s.N*s.H*s.W)
			}
		}
	}
}

// The gradient with respect to the input is the adjoint, <dy, conv x> = <conv' dy, x>, and likewise for the weights. The
// shapes here would take the reference too long.
func TestAdjoint(t *testing.T) {
	for _, k := range paths() {
		t.Run(string(k.name), func(t *testing.T) {
			pool := newPool(0, k)
			if testing.Short() && k == &plain {
				t.Skip("slow under the race detector")
			}
			rng := rand.New(rand.NewPCG(3, 4))
			for _, s := range []Shape{
				{N: 64, I: 64, O: 64, H: 6, W: 7},
				{N: 37, I: 32, O: 48, H: 7, W: 9},
				{N: 4, I: 256, O: 192, H: 6, W: 7},
			} {
				if testing.Short() {
					s.N = min(s.N, 9)
				}
				for _, s.K = range []int{1, 3} {
					p := newProblem(rng, s)
					p.then, p.grad, p.bias = Then{}, Grad{}, nil
					p.run(pool)
					forward, size := dot(p.dy, p.gotY)
					byInput, _ := dot(p.gotDx, p.x)
					byWeight, _ := dot(p.gotDweight, p.weight)
					if tolerance := 1e-6 * size; math.Abs(forward-byInput) > tolerance || math.Abs(forward-byWeight) > tolerance {
						t.Errorf("%+v: <dy, y> = %g, <dx, x> = %g, <dw, w> = %g, want the same within %g", s, forward, byInput, byWeight, tolerance)
					}
				}
			}
		})
	}
}

// dot is the inner product, and the product of the norms.
func dot(x, y []float32) (sum, norms float64) {
	var xx, yy float64
	for i := range x {
		a, b := float64(x[i]), float64(y[i])
		sum, xx, yy = sum+a*b, xx+a*a, yy+b*b
	}
	return sum, math.Sqrt(xx * yy)
}

// The bits are the same for any number of threads, and when repeated.
func TestThreads(t *testing.T) {
	for _, k := range paths() {
		t.Run(string(k.name), func(t *testing.T) {
			var pools []*Pool
			for _, threads := range []int{1, 2, 3, 8, 8} {
				pools = append(pools, newPool(threads, k))
			}
			for _, s := range []Shape{
				{N: 100, I: 5, O: 17, H: 6, W: 7}, {N: 9, I: 33, O: 65, H: 3, W: 4}, {N: 1, I: 5, O: 3, H: 2, W: 2},
			} {
				if testing.Short() {
					s.N = min(s.N, 25)
				}
				for _, s.K = range []int{1, 3} {
					var want []float32
					for i, pool := range pools {
						p := newProblem(rand.New(rand.NewPCG(5, uint64(s.N))), s)
						p.run(pool)
						got := slices.Concat(p.results()...)
						if want == nil {
							want = got
						}
						if !slices.EqualFunc(got, want, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
							t.Fatalf("%+v: pool %d has other bits than one thread", s, i)
						}
					}
				}
			}
		})
	}
}

// A board's result does not depend on the other boards.
func TestRowsAlone(t *testing.T) {
	for _, k := range paths() {
		pool := newPool(2, k)
		s := Shape{N: 23, I: 7, O: 18, H: 6, W: 7, K: 3}
		p := newProblem(rand.New(rand.NewPCG(7, 8)), s)
		p.then = Then{}
		p.run(pool)
		one, y := s, make([]float32, s.O*s.H*s.W)
		one.N = 1
		for n := range s.N {
			pool.Forward(y, rows(p.x, n, n+1, s.I*s.H*s.W), p.weight, p.bias, one, Then{})
			if !slices.Equal(y, rows(p.gotY, n, n+1, len(y))) {
				t.Errorf("%s: board %d alone differs from the same in its batch", k.name, n)
			}
		}
	}
}

// Buffers may be shared as documented, and NaN passes a ReLU both ways.
func TestInPlace(t *testing.T) {
	for _, k := range paths() {
		pool := newPool(2, k)
		s := Shape{N: 1, I: 1, O: 1, H: 1, W: 4, K: 1}
		y := []float32{1, -9, float32(math.NaN()), 4}
		pool.Forward(y, []float32{1, 2, 3, -4}, []float32{2}, []float32{1}, s, Then{Add: y, ReLU: true})
		if y[0] != 4 || y[1] != 0 || !math.IsNaN(float64(y[2])) || y[3] != 0 {
			t.Errorf("%s: y = %v, want [4 0 NaN 0]", k.name, y)
		}
		dx := []float32{10, 20, 30, 40}
		pool.InputGrad(dx, []float32{1, 2, 3, 4}, []float32{2}, s, Grad{Y: y, Add: dx, X: []float32{0, 1, 1, 1}})
		if want := []float32{0, 20, 36, 40}; !slices.Equal(dx, want) {
			t.Errorf("%s: dx = %v, want %v", k.name, dx, want)
		}
	}
}

func TestNoBoards(t *testing.T) {
	for _, k := range paths() {
		pool := newPool(2, k)
		s := Shape{I: 1, O: 1, H: 3, W: 3, K: 3}
		dweight, dbias := []float32{1, 2, 3, 4, 5, 6, 7, 8, 9}, []float32{1}
		pool.Forward(nil, nil, dweight, dbias, s, Then{})
		pool.WeightGrad(dweight, dbias, nil, nil, s, nil)
		if !slices.Equal(dweight, make([]float32, 9)) || dbias[0] != 0 {
			t.Errorf("%s: gradient %v and %v of no boards, want zeros", k.name, dweight, dbias)
		}
	}
}

func TestWrongLength(t *testing.T) {
	pool := NewPool(1)
	defer func() {
		if got, want := fmt.Sprint(recover()), "conv: x has 7 elements, its shape asks for 8"; got != want {
			t.Errorf("panic %q, want %q", got, want)
		}
	}()
	pool.Forward(make([]float32, 4), make([]float32, 7), make([]float32, 18), nil, Shape{N: 1, I: 2, O: 1, H: 2, W: 2, K: 3}, Then{})
}

func TestAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector makes pools forget")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0)) // AllocsPerRun sets it to 1
	for _, k := range paths() {
		pool := newPool(2, k)
		p := newProblem(rand.New(rand.NewPCG(9, 9)), Shape{N: 20, I: 8, O: 8, H: 6, W: 7, K: 3})
		p.run(pool)
		p.run(pool)
		if got := testing.AllocsPerRun(20, func() { p.run(pool) }); got > 0.5 {
			t.Errorf("%s: %g allocations for forward and backward, want none", k.name, got)
		}
	}
}
