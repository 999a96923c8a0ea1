//go:build cgo

package cpu

// #include "conv.h"
import "C"

import "golang.org/x/sys/cpu"

// vectorKernels returns the C kernels that this processor supports, in the order of Paths. The detected features include the
// operating system's support for the registers.
func vectorKernels() []kernel {
	x := &cpu.X86
	var kernels []kernel
	if hasTileVectors() && x.HasAMXTile && x.HasAMXBF16 && permitAMX() {
		amx := tiles(AMX, func(c conv) { C.conv_amx(c.c()) })
		amx.peak, amx.peakMACs = func(n int) { C.peak_amx(C.int64_t(n)) }, 4*16*16*32
		kernels = append(kernels, amx)
	}
	if x.HasAVX512F && x.HasAVX512VNNI {
		k := avx512()
		k.name = AVX512VNNI
		k.sparse = &sparse{run: func(s sparseCall) { C.sparse_avx512vnni(s.c()) }, halves: 16, below: k.sparse.below}
		k.int8 = &int8Form{
			quantize: func(q quantizeCall) { C.quantize_avx512vnni(q.c()) }, halves: 16,
			run:  func(c conv) { C.conv_avx512vnni(c.c()) },
			peak: func(n int) { C.peak_avx512vnni(C.int64_t(n)) }, peakMACs: 6 * 4 * 64,
		}
		kernels = append(kernels, k)
	}
	if x.HasAVX512F { // before bfloat16: with Winograd's method, avx512 is about as fast on AMD, and three times as fast on Intel
		kernels = append(kernels, avx512())
	}
	if x.HasAVX512F && x.HasAVX512BF16 {
		kernels = append(kernels, kernel{
			name: AVX512BF16, bf16: true, lanes: 16, panel: 64, inWords: 1, heads: avx512,
			run: func(c conv) { C.conv_avx512bf16(c.c()) },
			sparse: &sparse{
				run: func(s sparseCall) { C.sparse_avx512bf16(s.c()) }, halves: 16,
				below: [2]float64{0, 0.25},
			},
			peak: func(n int) { C.peak_avx512bf16(C.int64_t(n)) }, peakMACs: 6 * 4 * 32,
		})
	}
	if x.HasAVX2 && x.HasFMA && x.HasAVXVNNI {
		k := avx2()
		k.name = AVXVNNI
		k.sparse = &sparse{run: func(s sparseCall) { C.sparse_avxvnni(s.c()) }, halves: 8, below: k.sparse.below}
		k.int8 = &int8Form{
			quantize: func(q quantizeCall) { C.quantize_avxvnni(q.c()) }, halves: 8,
			run:  func(c conv) { C.conv_avxvnni(c.c()) },
			peak: func(n int) { C.peak_avxvnni(C.int64_t(n)) }, peakMACs: 6 * 2 * 32,
		}
		kernels = append(kernels, k)
	}
	if x.HasAVX2 && x.HasFMA {
		kernels = append(kernels, avx2())
	}
	return kernels
}

func avx512() kernel {
	return kernel{
		name: AVX512, lanes: 16, panel: 64, inWords: 1,
		run:  func(c conv) { C.conv_avx512(c.c()) },
		pool: func(p poolCall) { C.pool_avx512(p.c()) },
		winograd: &winograd{
			in:       func(w winogradCall) { C.winograd_in_avx512(w.c()) },
			products: func(w winogradCall) { C.winograd_products_avx512(w.c()) },
			out:      func(w winogradCall) { C.winograd_out_avx512(w.c()) },
		},
		sparse: &sparse{
			run:   func(s sparseCall) { C.sparse_avx512(s.c()) },
			below: [2]float64{0, 0.25},
		},
		peak: func(n int) { C.peak_avx512(C.int64_t(n)) }, peakMACs: 6 * 4 * 16,
	}
}

func avx2() kernel {
	return kernel{
		name: AVX2, lanes: 8, panel: 16, inWords: 1,
		run:  func(c conv) { C.conv_avx2(c.c()) },
		pool: func(p poolCall) { C.pool_avx2(p.c()) },
		winograd: &winograd{
			in:       func(w winogradCall) { C.winograd_in_avx2(w.c()) },
			products: func(w winogradCall) { C.winograd_products_avx2(w.c()) },
			out:      func(w winogradCall) { C.winograd_out_avx2(w.c()) },
		},
		sparse: &sparse{
			run:   func(s sparseCall) { C.sparse_avx2(s.c()) },
			below: [2]float64{0, 0.25},
		},
		peak: func(n int) { C.peak_avx2(C.int64_t(n)) }, peakMACs: 6 * 2 * 8,
	}
}

// tiles returns a kernel that multiplies bfloat16 in tiles.
func tiles(name Path, run func(conv)) kernel {
	return kernel{name: name, bf16: true, lanes: 32, panel: 32, inWords: 16, tiles: true, heads: avx512, run: run}
}

// hasTileVectors reports whether the processor has the vector instructions of tiles_amd64.h.
func hasTileVectors() bool {
	x := &cpu.X86
	return x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512BF16
}

// emulated returns kernels for tests.
func emulated() []kernel {
	if !hasTileVectors() {
		return nil
	}
	return []kernel{tiles(EmulatedAMX, func(c conv) { C.conv_amx_emulated(c.c()) })}
}
