//go:build cgo

package cpu

// #include "conv.h"
import "C"

import "runtime"

// vectorKernels returns the C kernels that this processor supports, in the order of Paths.
func vectorKernels() []kernel {
	var kernels []kernel
	if !has(bf16) {
		return []kernel{neon()}
	}
	if has(i8mm) {
		k := neonBF16()
		k.name = NEONI8MM
		k.int8 = &int8Form{
			quantize: func(q quantizeCall) { C.quantize_neoni8mm(q.c()) },
			run:      func(c conv) { C.conv_neoni8mm(c.c()) },
			peak:     func(n int) { C.peak_neoni8mm(C.int64_t(n)) }, peakMACs: 6 * 4 * 32,
		}
		kernels = append(kernels, k)
	}
	if runtime.GOOS == "darwin" { // Apple does not document the rate of BFMMLA; if it is two per cycle, neon is faster
		return append(kernels, neon(), neonBF16())
	}
	return append(kernels, neonBF16(), neon())
}

func neonBF16() kernel {
	return kernel{
		name: NEONBF16, bf16: true, lanes: 4, panel: 16, inWords: 2, matrices: true, heads: neon,
		run: func(c conv) { C.conv_neonbf16(c.c()) },
		sparse: &sparse{
			run:   func(s sparseCall) { C.sparse_neonbf16(s.c()) },
			below: [2]float64{0, 0.12},
		},
		peak: func(n int) { C.peak_neonbf16(C.int64_t(n)) }, peakMACs: 6 * 4 * 16,
	}
}

// neon runs on every arm64.
func neon() kernel {
	return kernel{
		name: NEON, lanes: 4, panel: 16, inWords: 1,
		run:  func(c conv) { C.conv_neon(c.c()) },
		pool: func(p poolCall) { C.pool_neon(p.c()) },
		winograd: &winograd{
			in:       func(w winogradCall) { C.winograd_in_neon(w.c()) },
			products: func(w winogradCall) { C.winograd_products_neon(w.c()) },
			out:      func(w winogradCall) { C.winograd_out_neon(w.c()) },
		},
		sparse: &sparse{
			run:   func(s sparseCall) { C.sparse_neon(s.c()) },
			below: [2]float64{0, 0.25},
		},
		peak: func(n int) { C.peak_neon(C.int64_t(n)) }, peakMACs: 6 * 4 * 4,
	}
}

// emulated are kernels for tests.
func emulated() []kernel { return nil }
