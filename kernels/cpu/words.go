package cpu

import (
	"math"
	"unsafe"
)

// bfloat16 is the upper half of x, rounded to nearest, ties to even. NaN stays NaN.
func bfloat16(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// pair packs two values as bfloat16 into one word, the first in the low half. The word is not a number to compute with.
func pair(low, high float32) float32 {
	return math.Float32frombits(uint32(bfloat16(low)) | uint32(bfloat16(high))<<16)
}

// aligned returns n zeros that begin at a multiple of a cache line of 64 bytes.
func aligned(n int) []float32 {
	const line = 64
	s := make([]float32, n+line/4)
	skip := (-int(uintptr(unsafe.Pointer(unsafe.SliceData(s)))) & (line - 1)) / 4
	return s[skip : skip+n : skip+n]
}
