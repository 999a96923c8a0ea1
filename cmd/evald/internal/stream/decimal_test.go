package stream

import (
	"math"
	"strconv"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// Numbers are written as strconv writes them.
func TestAppendFloat(t *testing.T) {
	gametest.OneGoroutine(t)
	check := func(bits uint32) {
		v := math.Float32frombits(bits)
		if got, want := string(appendFloat(nil, v)), strconv.FormatFloat(float64(v), 'g', -1, 32); got != want {
			t.Fatalf("float32 with bits %#x is written %s, want %s", bits, got, want)
		}
	}
	from, to := math.Float32bits(1.0/(1<<14)), math.Float32bits(2)
	step := uint32(101)
	if gametest.Soak() {
		step = 7
	}
	for bits := from; bits < to; bits += step {
		check(bits)
		check(bits | 1<<31)
	}
	for d := range 1 << 12 { // short ones, and those halfway between two decimals
		for _, of := range []float32{1e2, 1e3, 1e6, 1 << 9, 1 << 10, 1 << 12} {
			check(math.Float32bits(float32(d) / of))
		}
	}
	for shift := range 32 { // powers of two, subnormals, infinities and NaN
		check(1 << shift)
		check(uint32(0xff) << 23 >> shift)
	}
}
