//go:build cgo && (amd64 || arm64)

package conv

// #cgo CFLAGS: -O3
// #cgo noescape train_sizes
// #cgo nocallback train_sizes
// #cgo noescape train_weights
// #cgo nocallback train_weights
// #cgo noescape train_gradients
// #cgo nocallback train_gradients
// #cgo noescape train_forward
// #cgo nocallback train_forward
// #cgo noescape train_sums
// #cgo nocallback train_sums
// #include "train.h"
import "C"

import (
	"unsafe"

	"github.com/evald/evald/kernels/cpu"
	_ "github.com/evald/evald/kernels/cpu/vector" // its headers
)

// inC returns a path whose functions are C.
func inC(name cpu.Path, path *C.train_path) kernels {
	return kernels{
		name: name, path: uintptr(unsafe.Pointer(path)), sizes: sizesC, weights: weightsC, gradients: gradientsC, forward: forwardC, sums: sumsC,
	}
}

// dims and train_dims have the same memory layout.
var _ = [1]struct{}{}[unsafe.Sizeof(dims{})-C.sizeof_train_dims]

func (d *dims) c() *C.train_dims { return (*C.train_dims)(unsafe.Pointer(d)) }

func ptr(x []float32) *C.float { return (*C.float)(unsafe.SliceData(x)) }

func sizesC(d *dims) (scratch, weights, sums int) {
	l := C.train_sizes(d.c())
	return int(l.scratch), int(l.weights), int(l.sums)
}

func weightsC(u, weight []float32, so, si int, flip bool, i0, i1 int, d *dims) {
	var turned C.int
	if flip {
		turned = 1
	}
	C.train_weights(ptr(u), ptr(weight), C.int64_t(so), C.int64_t(si), turned, C.int(i0), C.int(i1), d.c())
}

func gradientsC(dweight, sums []float32, partials, i0, i1 int, d *dims) {
	C.train_gradients(ptr(dweight), ptr(sums), C.int(partials), C.int(i0), C.int(i1), d.c())
}

func forwardC(y, x, xMask, u, bias, add, yMask, scratch []float32, d *dims) {
	C.train_forward(ptr(y), ptr(x), ptr(xMask), ptr(u), ptr(bias), ptr(add), ptr(yMask), ptr(scratch), d.c())
}

func sumsC(sums, dbias, x, dy, y, scratch []float32, d *dims) {
	C.train_sums(ptr(sums), ptr(dbias), ptr(x), ptr(dy), ptr(y), ptr(scratch), d.c())
}
