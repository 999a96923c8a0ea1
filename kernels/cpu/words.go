package cpu

import (
	"math"
	"unsafe"
)

// bfloat16 returns the upper half of x after rounding to nearest, ties to even. NaN stays NaN.
func bfloat16(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// pair packs two values as bfloat16 into one word, the first in the low half. The result is not a meaningful float32.
func pair(low, high float32) float32 {
	return math.Float32frombits(uint32(bfloat16(low)) | uint32(bfloat16(high))<<16)
}

// twoWeights packs two weights into one word. Its lower half is low as a bfloat16. Read as a float32, the word is approximately high: of
// all words with that lower half, it is the nearest to high. So high can be used without an instruction to extract it.
func twoWeights(low, high float32) float32 {
	const infinite = 0x7f80
	rest, b := uint32(bfloat16(low)), math.Float32bits(high)
	upper := max(int64(b&^(1<<31))-int64(rest)+1<<15, 0) >> 16
	if upper >= infinite && !math.IsInf(float64(high), 0) && high == high {
		upper = infinite - 1
	}
	return math.Float32frombits(b&(1<<31) | uint32(upper)<<16 | rest)
}

// aligned returns n zeros whose memory begins at a cache line of 64 bytes.
func aligned(n int) []float32 {
	const line = 64
	s := make([]float32, n+line/4)
	skip := (-int(uintptr(unsafe.Pointer(unsafe.SliceData(s)))) & (line - 1)) / 4
	return s[skip : skip+n : skip+n]
}
