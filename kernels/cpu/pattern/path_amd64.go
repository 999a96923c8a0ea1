//go:build cgo

package pattern

// #include "pattern.h"
import "C"

import "golang.org/x/sys/cpu"

// vectorPaths returns the C kernels that this processor supports, the fastest first.
func vectorPaths() []path {
	x := &cpu.X86
	var all []path
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VNNI {
		all = append(all, path{
			AVX512VNNI,
			func(n *Net, rows []int32, each int, out []int32) {
				C.pattern_forward_avx512vnni(n.c(), ints(rows), C.int64_t(each), C.int64_t(len(rows)/each), ints(out))
			},
		})
	}
	if x.HasAVX2 {
		all = append(all, path{
			AVX2,
			func(n *Net, rows []int32, each int, out []int32) {
				C.pattern_forward_avx2(n.c(), ints(rows), C.int64_t(each), C.int64_t(len(rows)/each), ints(out))
			},
		})
	}
	return all
}
