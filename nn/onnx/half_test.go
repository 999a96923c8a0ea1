package onnx

import (
	"math"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// fromHalf is the definition of float16.
func fromHalf(w uint16) float64 {
	exponent, mantissa := int(w>>10&31), float64(w&0x3ff)
	x := math.Ldexp(1024+mantissa, exponent-25)
	if exponent == 0 {
		x = math.Ldexp(mantissa, -24)
	}
	if w>>15 == 1 {
		return -x
	}
	return x
}

// Every float16 is itself, and between two neighbours the nearer one is taken, in the middle the even one.
func TestHalf(t *testing.T) {
	for w := range uint16(0x7c00) {
		x, next := fromHalf(w), fromHalf(w+1)
		if w == 0x7bff {
			next = 65536 // what would be next
		}
		middle := float32((x + next) / 2)
		even := w + w&1
		for _, c := range []struct {
			x    float32
			want uint16
		}{
			{float32(x), w},
			{middle, even},
			{math.Nextafter32(middle, 0), w},
			{math.Nextafter32(middle, 1e6), w + 1},
		} {
			if got := half(c.x); got != c.want {
				t.Fatalf("half(%v) is %#x, want %#x", c.x, got, c.want)
			}
			if got := half(-c.x); got != c.want|0x8000 {
				t.Fatalf("half(%v) is %#x, want %#x", -c.x, got, c.want|0x8000)
			}
		}
	}
	r := gametest.Rand(1)
	for range 10_000 {
		x := float32(r.NormFloat64())
		if off := math.Abs(fromHalf(half(x)) - float64(x)); off > math.Abs(float64(x))*0x1p-11+0x1p-25 {
			t.Fatalf("half(%v) is off by %v", x, off)
		}
	}
}
