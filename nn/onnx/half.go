package onnx

import (
	"fmt"
	"math"
)

// halves adds a float16 constant. The error names the first number that float16 cannot represent.
func (g *graph) halves(name string, shape []int, values []float32) error {
	words := make([]uint16, len(values))
	for i, v := range values {
		if words[i] = half(v); words[i]&0x7c00 == 0x7c00 {
			return fmt.Errorf("tensor %q has %v as value %d, and float16 has numbers up to 65504: export it without fp16", name, v, i)
		}
	}
	g.tensor(name, float16Type, shape, words)
	return nil
}

// half rounds a finite number to the nearest float16, ties to even. Numbers from 65520 on become infinity.
func half(x float32) uint16 {
	sign := uint16(math.Float32bits(x) >> 16 & 0x8000)
	size := math.Abs(float64(x))
	switch {
	case size >= 65520:
		return sign | 0x7c00
	case size < 0x1p-14: // subnormal, in steps of 2^-24; rounding up to the smallest normal number gives its bits
		return sign | uint16(math.RoundToEven(size*0x1p24))
	}
	fraction, exponent := math.Frexp(size) // fraction is in [1/2, 1); keep 11 bits of it
	return sign | uint16(exponent+13)<<10 + uint16(math.RoundToEven(fraction*0x1p11))
}
