//go:build cgo && (amd64 || arm64)

package cpu

// #include "conv.h"
import "C"

import (
	"unsafe"

	_ "github.com/evald/evald/kernels/cpu/vector" // its headers
)

// c converts the call for C. C must not keep its pointers after the call.
func (c *conv) c() C.conv {
	relu := C.int64_t(0)
	if c.relu {
		relu = 1
	}
	return C.conv{
		cells: ints(c.cells), cell_count: C.int64_t(len(c.cells)), near: (*C.uint16_t)(unsafe.Pointer(unsafe.SliceData(c.near))),
		taps: ints(c.taps), tap_count: C.int64_t(c.tapCount),
		src: floats(c.src), stride: C.int64_t(c.stride), words: C.int64_t(c.words),
		weights: floats(c.weights), bias: floats(c.bias), scale: floats(c.scale), width: C.int64_t(c.width),
		add: floats(c.add), dst: floats(c.dst), pairs: unsafe.Pointer(unsafe.SliceData(c.pairs)), relu: relu,
	}
}

// c converts the call for C. C must not keep its pointers after the call.
func (w *winogradCall) c() C.winograd {
	return C.winograd{
		tiles: (*C.winograd_tile)(unsafe.Pointer(unsafe.SliceData(w.tiles))), tile_count: C.int64_t(len(w.tiles)),
		positions: C.int64_t(w.positions), cells: C.int64_t(w.cells), width: C.int64_t(w.width),
		words: C.int64_t(w.weights.words), from: C.int64_t(w.from), to: C.int64_t(w.to),
		each: ints(w.each[:]), first: ints(w.first[:]), slots: ints(w.slots),
		src: floats(w.src), bias: floats(w.bias), add: floats(w.add),
		weights: floats(w.weights.weights), zeros: floats(w.weights.bias),
		points: floats(w.points), products: floats(w.products), dst: floats(w.dst),
	}
}

// c converts the call for C. C must not keep its pointers after the call.
func (s *sparseCall) c() C.sparse {
	add := C.int64_t(0)
	if s.add {
		add = 1
	}
	return C.sparse{
		cells: ints(s.cells), spans: ints(s.spans), cell_count: C.int64_t(len(s.cells)),
		columns: C.int64_t(s.columns), positions: C.int64_t(len(s.nonzeros)), padded: C.int64_t(s.padded),
		width: C.int64_t(s.width), row: C.int64_t(s.row), full: C.int64_t(s.full), few: C.int64_t(s.few),
		src: floats(s.src), weights: floats(s.weights), bias: floats(s.bias),
		add: add, dst: floats(s.dst), pairs: unsafe.Pointer(unsafe.SliceData(s.pairs)), nonzeros: ints(s.nonzeros),
		values: floats(s.work.values), around: floats(s.work.around),
		places: ints(s.work.places), at: ints(s.work.at), starts: ints(s.work.starts),
	}
}

// c converts the call for C. C must not keep its pointers after the call.
func (q *quantizeCall) c() C.quantize {
	return C.quantize{
		cells: ints(q.cells), taps: ints(q.taps), near: (*C.uint16_t)(unsafe.Pointer(unsafe.SliceData(q.near))),
		cell_count: C.int64_t(len(q.cells)), near_count: C.int64_t(len(q.near)),
		width: C.int64_t(q.width), words: C.int64_t(q.words), row: C.int64_t(q.excess.row), full: C.int64_t(q.excess.full),
		src: floats(q.src), each: floats(q.each), ranges: floats(q.ranges), weights: floats(q.excess.weights),
		dst: (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(q.dst))), sums: floats(q.sums),
	}
}

// c converts the call for C. C must not keep its pointers after the call.
func (p *poolCall) c() C.pool {
	return C.pool{
		cells: ints(p.cells), cell_count: C.int64_t(len(p.cells) / p.positions), positions: C.int64_t(p.positions),
		channels: C.int64_t(p.channels), stride: C.int64_t(p.stride), width: C.int64_t(p.width),
		src: floats(p.src), dst: floats(p.dst),
	}
}

func ints(s []int32) *C.int32_t   { return (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(s))) }
func floats(s []float32) *C.float { return (*C.float)(unsafe.Pointer(unsafe.SliceData(s))) }
