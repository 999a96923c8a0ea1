package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// Tiles cover a line, extend beyond it only at the end, and have the fewest points possible.
func TestTilings(t *testing.T) {
	for outputs := 1; outputs < 40; outputs++ {
		sizes := tilings(outputs)
		covered, cost := 0, 0
		for _, m := range sizes {
			if m != 3 && m != 4 {
				t.Fatalf("%d outputs: a tile of %d", outputs, m)
			}
			if covered >= outputs {
				t.Errorf("%d outputs: the tiles %v are too many", outputs, sizes)
			}
			covered, cost = covered+m, cost+m+2
		}
		least := math.MaxInt
		for fours := range 11 {
			for threes := range 14 {
				if 4*fours+3*threes >= outputs {
					least = min(least, 6*fours+5*threes)
				}
			}
		}
		if covered < outputs || cost != least {
			t.Errorf("%d outputs: tiles %v cover %d with %d points, want %d", outputs, sizes, covered, cost, least)
		}
	}
	if got := fmt.Sprint(tilings(6), tilings(7)); got != "[3 3] [4 3]" {
		t.Errorf("7x6 is cut into %s", got)
	}
}

// Winograd's convolution agrees with the definition, in place, on boards that tiles exceed and for blocks that fill no
// group. Borders stay zero and nothing else is written.
func TestWinograd(t *testing.T) {
	for _, k := range all() {
		if k.winograd == nil {
			continue
		}
		for i, s := range []struct{ rows, columns, channels, positions int }{
			{6, 7, 64, 12}, {6, 7, 20, 1}, {6, 7, 8, 7}, {4, 5, 16, 6}, {5, 9, 33, 2}, {3, 3, 5, 3}, {8, 8, 24, 5}, {10, 11, 9, 1}, {1, 2, 4, 2},
		} {
			if testing.Short() && i%3 != 1 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%+v", k.name, s), func(t *testing.T) { testWinograd(t, k, uint64(i), s.rows, s.columns, s.channels, s.positions) })
		}
	}
}

func testWinograd(t *testing.T, k kernel, seed uint64, rows, columns, channels, positions int) {
	r := random(seed)
	weight, bias := normals(r, 9*channels*channels), normals(r, channels)
	tower := &Tower{kernel: k, stem: k.pack(weight, bias, 9)}
	tower.conv, tower.policyLogits, tower.fc, tower.out = tower.stem, tower.stem, tower.stem, tower.stem
	s := tower.NewScratch(rows, columns)
	width := tower.stem.width
	s.tiled = newTiled(rows, columns, s.padded, tiledPositions, width) // also used if it would not pay

	cells := s.index[:positions*s.cells]
	src, srcIntact := guarded(len(s.x), 0)
	dst, dstIntact := guarded(len(s.x), 0)
	ref := reference{weight: weight, bias: bias, taps: s.taps, relu: true, x: make([][]float32, len(s.x)/width), add: make([][]float32, len(s.x)/width)}
	for cell := range ref.x {
		ref.x[cell], ref.add[cell] = make([]float32, channels), make([]float32, channels)
		if slices.Contains(cells, int32(cell)) {
			ref.x[cell], ref.add[cell] = normals(r, channels), normals(r, channels)
		}
		copy(src[cell*width:], ref.x[cell])
		copy(dst[cell*width:], ref.add[cell])
	}
	c := conv{layer: tower.stem, src: src, stride: width, add: dst, dst: dst, relu: true}
	tower.winograd(s, 0, positions, k.atPoints(weight, channels), c)

	if !srcIntact() || !dstIntact() {
		t.Fatal("written outside of the buffers")
	}
	for cell := range ref.x {
		computed := slices.Contains(cells, int32(cell))
		for o := range width {
			want := float32(0)
			if computed && o < channels {
				want = ref.at(cell, o)
			}
			// Sums of 9*channels products of normal numbers have a size of about sqrt(9*channels).
			if got := dst[cell*width+o]; !(math.Abs(float64(got-want)) <= 2e-5*math.Sqrt(float64(9*channels))) || !computed && got != 0 {
				t.Fatalf("cell %d output %d is %v, want %v", cell, o, got, want)
			}
		}
	}
}

// The number of products of some boards, counted by hand.
func TestWinogradPays(t *testing.T) {
	for _, c := range []struct {
		rows, columns, products int
		pays                    bool
	}{{6, 7, 110, true}, {4, 4, 36, true}, {4, 5, 60, true}, {5, 9, 150, true}, {1, 1, 25, false}, {2, 2, 25, false}, {3, 3, 25, true}} {
		if got := products(c.rows, c.columns); got != c.products || pays(c.rows, c.columns) != c.pays {
			t.Errorf("%dx%d: %d products, pays: %v; want %d, %v", c.columns, c.rows, got, pays(c.rows, c.columns), c.products, c.pays)
		}
	}
}
