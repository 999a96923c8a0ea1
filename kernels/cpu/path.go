package cpu

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Path is the name of one way to compute, such as "avx2". The package documentation lists them.
type Path string

// The paths, the fastest first.
const (
	AMX        Path = "amx"
	AVX512BF16 Path = "avx512bf16"
	AVX512     Path = "avx512"
	AVX2       Path = "avx2"
	Go         Path = "go"
)

// EmulatedAMX is the amx path with its tile instructions replaced by plain C. It is for tests, slow, and not one of
// Paths; it needs what AVX512BF16 needs.
const EmulatedAMX Path = "amx-emulated"

// BFloat16 reports whether the path multiplies bfloat16 numbers, which costs accuracy; the others are float32
// throughout.
func (p Path) BFloat16() bool {
	k, err := p.kernel()
	return err == nil && k.bf16
}

// available are the kernels that can run here, the fastest first.
var available = sync.OnceValue(func() []kernel { return append(vectorKernels(), goKernel()) })

// Paths are those that this processor and this build can run, the fastest first. The last is always Go.
func Paths() []Path {
	var paths []Path
	for _, k := range available() {
		paths = append(paths, k.name)
	}
	return paths
}

// kernel finds the path's; the error lists Paths.
func (p Path) kernel() (kernel, error) {
	all := append(emulated(), available()...)
	i := slices.IndexFunc(all, func(k kernel) bool { return k.name == p })
	if i < 0 {
		return kernel{}, fmt.Errorf("CPU path %q: this machine and build have %s", p, strings.Join(names(Paths()), ", "))
	}
	return all[i], nil
}

func names(paths []Path) []string {
	var s []string
	for _, p := range paths {
		s = append(s, string(p))
	}
	return s
}

// Check reports an error where the path cannot run here.
func (p Path) Check() error {
	_, err := p.kernel()
	return err
}

// Peak runs n rounds of the path's multiply-add instructions, which wait neither for each other nor for memory, and
// returns how many multiply-adds that were: timed, the ceiling of what one core can do. It is 0 for plain Go.
func (p Path) Peak(n int) int {
	k, err := p.kernel()
	if err != nil || k.peak == nil {
		return 0
	}
	k.peak(n)
	return n * k.peakMACs
}
