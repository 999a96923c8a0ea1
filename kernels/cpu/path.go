package cpu

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Path is the name of a set of instructions and of its implementation, such as "avx2". The package documentation lists the paths.
type Path string

// The paths, in descending order of their rates on most machines (see Rates).
const (
	AMX        Path = "amx"
	AVX512VNNI Path = "avx512vnni"
	AVX512     Path = "avx512"
	AVX512BF16 Path = "avx512bf16"
	AVXVNNI    Path = "avxvnni"
	AVX2       Path = "avx2"
	NEONI8MM   Path = "neoni8mm"
	NEONBF16   Path = "neonbf16"
	NEON       Path = "neon"
	Go         Path = "go"
)

// EmulatedAMX is amx with its tile instructions replaced by plain C. It is slow and only for tests; Paths does not list it. It needs the
// vector instructions of amx.
const EmulatedAMX Path = "amx-emulated"

// BFloat16 reports whether the path multiplies in bfloat16, which is less accurate.
func (p Path) BFloat16() bool {
	k, err := p.kernel()
	return err == nil && k.bf16
}

// Int8 reports whether the path multiplies bytes in the first convolutions of blocks. This is less accurate, and needs a network with
// ranges.
func (p Path) Int8() bool {
	k, err := p.kernel()
	return err == nil && k.int8 != nil
}

// Tiles reports whether the path multiplies tiles. The threads of a core share one unit for them.
func (p Path) Tiles() bool {
	k, err := p.kernel()
	return err == nil && k.tiles
}

// available returns the kernels that can run here, in the order of Paths.
var available = sync.OnceValue(func() []kernel { return append(vectorKernels(), goKernel()) })

// Paths returns the paths that this processor and build can run, in a fixed order, the fastest on most machines first. The last
// is always Go.
func Paths() []Path {
	var paths []Path
	for _, k := range available() {
		paths = append(paths, k.name)
	}
	return paths
}

// kernel returns the kernel of a path. If there is none, the error lists Paths.
func (p Path) kernel() (kernel, error) {
	all := append(emulated(), available()...)
	i := slices.IndexFunc(all, func(k kernel) bool { return k.name == p })
	if i < 0 {
		return kernel{}, fmt.Errorf("CPU path %q: this machine and build have %s", p, strings.Join(names(Paths()), ", "))
	}
	return all[i], nil
}

// Exact reports whether the path is float32 throughout.
func (p Path) Exact() bool { return !p.BFloat16() && !p.Int8() }

// Float32 returns the first of Paths that is float32 throughout.
func Float32() Path { return Paths()[slices.IndexFunc(Paths(), Path.Exact)] } // there is always Go

func names(paths []Path) []string {
	var s []string
	for _, p := range paths {
		s = append(s, string(p))
	}
	return s
}

// Check returns an error if the path cannot run here.
func (p Path) Check() error {
	_, err := p.kernel()
	return err
}

// Peak runs n rounds of independent multiply-add instructions of the path, in registers, and returns the number of multiply-adds. Callers
// time it to find the maximum rate of a core. It returns 0 for plain Go.
func (p Path) Peak(n int) int {
	k, err := p.kernel()
	if err != nil || k.peak == nil {
		return 0
	}
	k.peak(n)
	return n * k.peakMACs
}

// PeakFirst is Peak for the instructions of the blocks' first convolutions, which differ on paths with 8 bits.
func (p Path) PeakFirst(n int) int {
	k, err := p.kernel()
	if err != nil || k.int8 == nil {
		return p.Peak(n)
	}
	k.int8.peak(n)
	return n * k.int8.peakMACs
}
