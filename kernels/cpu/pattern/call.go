//go:build cgo && (amd64 || arm64)

package pattern

// #include "pattern.h"
import "C"

import "unsafe"

// c converts the network for C, which must not keep its pointers after the call. The struct is passed by value.
func (n *Net) c() C.pattern_net {
	net := C.pattern_net{lanes: C.int64_t(n.lanes), table: shorts(n.table), bias: shorts(n.bias)}
	for i, d := range n.dense {
		net.dense[i] = C.pattern_layer{
			in: C.int64_t(d.in), out: C.int64_t(d.out),
			weight: (*C.int8_t)(unsafe.Pointer(unsafe.SliceData(d.weight))), bias: ints(d.bias),
		}
	}
	return net
}

func ints(s []int32) *C.int32_t   { return (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(s))) }
func shorts(s []int16) *C.int16_t { return (*C.int16_t)(unsafe.Pointer(unsafe.SliceData(s))) }
