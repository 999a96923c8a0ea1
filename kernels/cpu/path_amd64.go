//go:build cgo

package cpu

// #include "conv.h"
import "C"

import "golang.org/x/sys/cpu"

// vectorKernels are the C kernels whose instructions this processor has, the fastest first. The features also say whether
// the operating system saves the registers.
func vectorKernels() []kernel {
	x := &cpu.X86
	var kernels []kernel
	if x.HasAVX512F && x.HasAVX512BF16 && x.HasAMXTile && x.HasAMXBF16 && permitAMX() {
		kernels = append(kernels, kernel{
			name: AMX, bf16: true, lanes: 32, panel: 32, inWords: 16, runs: true, heads: avx512,
			run:  func(c conv) { C.conv_amx(c.c()) },
			peak: func(n int) { C.peak_amx(C.int64_t(n)) }, peakMACs: 4 * 16 * 16 * 32,
		})
	}
	if x.HasAVX512F && x.HasAVX512BF16 {
		kernels = append(kernels, kernel{
			name: AVX512BF16, bf16: true, lanes: 16, panel: 64, inWords: 1, heads: avx512,
			run: func(c conv) { C.conv_avx512bf16(c.c()) },
			sparse: &sparse{
				run:   func(s sparseCall) { C.sparse_avx512bf16(s.c()) },
				below: [2]float64{0, 0.25},
			},
			peak: func(n int) { C.peak_avx512bf16(C.int64_t(n)) }, peakMACs: 6 * 4 * 32,
		})
	}
	if x.HasAVX512F {
		kernels = append(kernels, avx512())
	}
	if x.HasAVX2 && x.HasFMA {
		kernels = append(kernels, kernel{
			name: AVX2, lanes: 8, panel: 16, inWords: 1,
			run: func(c conv) { C.conv_avx2(c.c()) },
			winograd: &winograd{
				in:  func(w winogradCall) { C.winograd_in_avx2(w.c()) },
				out: func(w winogradCall) { C.winograd_out_avx2(w.c()) },
			},
			sparse: &sparse{
				run:   func(s sparseCall) { C.sparse_avx2(s.c()) },
				below: [2]float64{0, 0.25},
			},
			peak: func(n int) { C.peak_avx2(C.int64_t(n)) }, peakMACs: 6 * 2 * 8,
		})
	}
	return kernels
}

func avx512() kernel {
	return kernel{
		name: AVX512, lanes: 16, panel: 64, inWords: 1,
		run: func(c conv) { C.conv_avx512(c.c()) },
		winograd: &winograd{
			in:  func(w winogradCall) { C.winograd_in_avx512(w.c()) },
			out: func(w winogradCall) { C.winograd_out_avx512(w.c()) },
		},
		sparse: &sparse{
			run:   func(s sparseCall) { C.sparse_avx512(s.c()) },
			below: [2]float64{0, 0.25},
		},
		peak: func(n int) { C.peak_avx512(C.int64_t(n)) }, peakMACs: 6 * 4 * 16,
	}
}

// emulated are kernels for tests.
func emulated() []kernel {
	if !cpu.X86.HasAVX512F || !cpu.X86.HasAVX512BF16 { // needed to finish the sums of the tiles
		return nil
	}
	return []kernel{{
		name: EmulatedAMX, bf16: true, lanes: 32, panel: 32, inWords: 16, runs: true, heads: avx512,
		run: func(c conv) { C.conv_amx_emulated(c.c()) },
	}}
}
