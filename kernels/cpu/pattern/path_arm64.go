//go:build cgo

package pattern

// #include "pattern.h"
import "C"

// vectorPaths returns the C kernel for NEON, which every arm64 has.
func vectorPaths() []path {
	return []path{{
		NEON,
		func(n *Net, rows []int32, each int, out []int32) {
			C.pattern_forward_neon(n.c(), ints(rows), C.int64_t(each), C.int64_t(len(rows)/each), ints(out))
		},
	}}
}
