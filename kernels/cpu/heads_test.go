package cpu

import (
	"math"
	"testing"
)

// Each path's pooling is bit for bit that of plain Go, also of values that are no numbers.
func TestPool(t *testing.T) {
	r := random(8)
	odd := []float32{0, float32(math.Copysign(0, -1)), 1e-42, math.MaxFloat32, float32(math.Inf(1)), float32(math.NaN()), -float32(math.NaN())}
	for _, k := range all() {
		if k.pool == nil {
			continue
		}
		for _, channels := range []int{k.lanes, 3 * k.lanes} {
			const positions, cells, stride, width = 3, 42, 110, 97
			c := poolCall{positions: positions, channels: channels, stride: stride, width: width, src: make([]float32, 200*stride)}
			for range positions * cells {
				c.cells = append(c.cells, int32(r.IntN(200)))
			}
			for i := range c.src {
				c.src[i] = max(0, float32(r.NormFloat64()))
				if r.IntN(50) == 0 {
					c.src[i] = odd[r.IntN(len(odd))]
				}
			}
			want, got := c, c
			want.dst, got.dst = make([]float32, positions*width), make([]float32, positions*width)
			poolGo(want)
			k.pool(got)
			for i, w := range want.dst {
				if g := got.dst[i]; math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
					t.Fatalf("%s: %d channels: value %d is %v, want %v", k.name, channels, i, g, w)
				}
			}
		}
	}
}
