package pattern

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// Path is the name of a set of instructions and of its implementation.
type Path string

// The paths, the fastest first.
const (
	AVX512VNNI Path = "avx512vnni"
	AVX2       Path = "avx2"
	NEON       Path = "neon"
	Go         Path = "go"
)

type path struct {
	name    Path
	forward func(n *Net, rows []int32, each int, out []int32)
}

// available returns the paths that can run here, the fastest first.
var available = sync.OnceValue(func() []path { return append(vectorPaths(), path{Go, forwardGo}) })

// Paths returns the paths that this processor and build can run, the fastest first. The last is always Go.
func Paths() []Path {
	var all []Path
	for _, p := range available() {
		all = append(all, p.name)
	}
	return all
}

// find returns a path's functions. If there are none, the error lists Paths.
func (p Path) find() (path, error) {
	i := slices.IndexFunc(available(), func(a path) bool { return a.name == p })
	if i < 0 {
		var names []string
		for _, q := range Paths() {
			names = append(names, string(q))
		}
		return path{}, fmt.Errorf("pattern path %q: this machine and build have %s", p, strings.Join(names, ", "))
	}
	return available()[i], nil
}

// Best returns the fastest path that passes SelfTest here.
var Best = sync.OnceValue(func() Path {
	for _, p := range Paths() {
		if SelfTest(p) == nil {
			return p
		}
	}
	return Go
})

// SelfTest compares a path with plain Go, on random networks of several shapes. The error names the shape.
func SelfTest(p Path) error {
	r := rand.New(rand.NewPCG(1, 2))
	for _, shape := range [][3]int{{64, 16, 16}, {96, 32, 16}, {128, 64, 32}, {256, 48, 64}} {
		w := Random(r, 50, shape[0], shape[1], shape[2])
		want, err := New(w, Go)
		if err != nil {
			return err
		}
		got, err := New(w, p)
		if err != nil {
			return err
		}
		const each, count = 7, 9
		rows := make([]int32, each*count)
		for i := range rows {
			rows[i] = int32(r.IntN(50))
		}
		a, b := make([]int32, count*Outputs), make([]int32, count*Outputs)
		want.Forward(rows, each, a)
		got.Forward(rows, each, b)
		if !slices.Equal(a, b) {
			return fmt.Errorf("pattern path %s: differs from plain Go for %d lanes and layers of %d and %d", p, shape[0], shape[1], shape[2])
		}
	}
	return nil
}

// Random returns weights for the given numbers of rows, lanes and outputs of the hidden layers. Their sums do not overflow for up to 33
// rows. Many activations are strictly inside their range.
func Random(r *rand.Rand, rows, lanes, h1, h2 int) *Weights {
	w := &Weights{Lanes: lanes, Bias: make([]int16, lanes), Table: make([]int16, rows*lanes)}
	for i := range w.Bias {
		w.Bias[i] = int16(r.IntN(256))
	}
	for i := range w.Table {
		w.Table[i] = int16(r.IntN(161) - 80)
	}
	sizes := [4]int{(lanes - Outputs) / 2, h1, h2, Outputs}
	for i := range w.Dense {
		l := Layer{make([]int8, sizes[i]*sizes[i+1]), make([]int32, sizes[i+1])}
		for k := range l.Weight {
			l.Weight[k] = int8(r.IntN(256) - 128)
		}
		for k := range l.Bias {
			l.Bias[k] = int32(r.IntN(8000))
		}
		w.Dense[i] = l
	}
	return w
}
