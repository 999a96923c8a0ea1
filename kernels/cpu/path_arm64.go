//go:build cgo

package cpu

// #include "conv.h"
import "C"

// vectorKernels is one kernel in C, because every arm64 has NEON.
func vectorKernels() []kernel {
	return []kernel{{
		name: NEON, lanes: 4, panel: 16, inWords: 1,
		run: func(c conv) { C.conv_neon(c.c()) },
		winograd: &winograd{
			in:  func(w winogradCall) { C.winograd_in_neon(w.c()) },
			out: func(w winogradCall) { C.winograd_out_neon(w.c()) },
		},
		sparse: &sparse{
			run:   func(s sparseCall) { C.sparse_neon(s.c()) },
			below: [2]float64{0, 0.25},
		},
		peak: func(n int) { C.peak_neon(C.int64_t(n)) }, peakMACs: 6 * 4 * 4,
	}}
}

// emulated are kernels for tests.
func emulated() []kernel { return nil }
