package conv

import (
	"slices"
	"sync"

	"github.com/evald/evald/kernels/cpu"
)

// paths are the ways to compute that this processor and build have, the fastest first.
func paths() []*kernels {
	var all []*kernels
	for i := range vectorKernels {
		if slices.Contains(cpu.Paths(), vectorKernels[i].name) {
			all = append(all, &vectorKernels[i])
		}
	}
	return append(all, &plain)
}

// fastest is the first path that computes what plain Go computes. So a path that is wrong on some machine is not used there.
var fastest = sync.OnceValue(func() *kernels {
	all := paths()
	return all[slices.IndexFunc(all, func(k *kernels) bool { return k == &plain || selfTest(k) == nil })]
})
