//go:build cgo && amd64

package conv

// #cgo CFLAGS: -O3
// #cgo noescape conv_sizes
// #cgo nocallback conv_sizes
// #cgo noescape conv_weights
// #cgo nocallback conv_weights
// #cgo noescape conv_gradients
// #cgo nocallback conv_gradients
// #cgo noescape conv_forward
// #cgo nocallback conv_forward
// #cgo noescape conv_sums
// #cgo nocallback conv_sums
// #cgo nocallback conv_ceiling
// #include "fast.h"
import "C"

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

var (
	avx512 = fast("avx512", 1)
	avx2   = fast("avx2", 0)
)

func fast(name string, wide int32) kernels {
	return kernels{
		name: name, wide: wide, sizes: fastSizes, weights: fastWeights, gradients: fastGradients, forward: fastForward,
		sums: fastSums, ceiling: func(rounds int) float64 { return float64(C.conv_ceiling(C.long(rounds), C.int(wide))) },
	}
}

// paths are the paths that this processor can run, the best first.
func paths() []*kernels {
	var all []*kernels
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL {
		all = append(all, &avx512)
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		all = append(all, &avx2)
	}
	return append(all, &plain)
}

// dims and conv_dims have the same memory layout.
var _ = [1]struct{}{}[unsafe.Sizeof(dims{})-C.sizeof_conv_dims]

func (d *dims) c() *C.conv_dims { return (*C.conv_dims)(unsafe.Pointer(d)) }

func ptr(x []float32) *C.float { return (*C.float)(unsafe.SliceData(x)) }

func fastSizes(d *dims) (scratch, weights, sums int) {
	l := C.conv_sizes(d.c())
	return int(l.scratch), int(l.weights), int(l.sums)
}

func fastWeights(u, weight []float32, so, si int, flip bool, i0, i1 int, d *dims) {
	var turned C.int
	if flip {
		turned = 1
	}
	C.conv_weights(ptr(u), ptr(weight), C.long(so), C.long(si), turned, C.int(i0), C.int(i1), d.c())
}

func fastGradients(dweight, sums []float32, partials, i0, i1 int, d *dims) {
	C.conv_gradients(ptr(dweight), ptr(sums), C.int(partials), C.int(i0), C.int(i1), d.c())
}

func fastForward(y, x, xMask, u, bias, add, yMask, scratch []float32, d *dims) {
	C.conv_forward(ptr(y), ptr(x), ptr(xMask), ptr(u), ptr(bias), ptr(add), ptr(yMask), ptr(scratch), d.c())
}

func fastSums(sums, dbias, x, dy, y, scratch []float32, d *dims) {
	C.conv_sums(ptr(sums), ptr(dbias), ptr(x), ptr(dy), ptr(y), ptr(scratch), d.c())
}
