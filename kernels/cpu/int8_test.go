package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// withInt8 are the kernels under test that have code for bytes, and the measure for them.
func withInt8() []kernel {
	plain := goKernel()
	plain.int8 = &int8Go
	return append(slices.DeleteFunc(all(), func(k kernel) bool { return k.int8 == nil }), plain)
}

// randomRanges returns ranges for `blocks` blocks, which some inputs exceed.
func randomRanges(r *rand.Rand, blocks, channels int) [][]float32 {
	ranges := make([][]float32, blocks)
	for i := range ranges {
		for range channels {
			ranges[i] = append(ranges[i], 0.5+3*r.Float32())
		}
	}
	return ranges
}

// The numbers of inputs times steps, and what is beyond ranges, are the input; a convolution is that of its weights' numbers. It
// writes nothing but the cells of its positions.
func TestInt8(t *testing.T) {
	for _, k := range withInt8() {
		for i, c := range []struct{ rows, columns, positions, in, out int }{
			{6, 7, 5, 64, 64}, {1, 1, 1, 16, 16}, {3, 3, 2, 5, 5}, {5, 9, 1, 33, 33}, {8, 2, 7, 96, 96}, {4, 4, 2, 150, 150},
		} {
			if testing.Short() && i%2 != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%+v", k.name, c), func(t *testing.T) {
				r := random(uint64(i))
				a := Affine{normals(r, c.out*c.in*9), normals(r, c.out)}
				ranges := randomRanges(r, 1, c.in)[0]
				l := k.packInt8(a, ranges)
				dense := k.pack(a.Weight, a.Bias, 9)
				s := (&Tower{kernel: k, channels: c.in, stem: dense, conv: dense, policyLogits: dense, fc: dense, out: dense}).NewScratch(c.rows, c.columns)
				c.positions = min(c.positions, s.Positions)
				cells := s.index[:c.positions*s.cells]
				words := l.words
				src, srcIntact := guarded(c.positions*s.padded*l.width, 0)
				bytes, bytesIntact := guarded(c.positions*s.padded*words, 0)
				sums, sumsIntact := guarded(c.positions*s.padded*l.width, guard)
				for _, cell := range cells {
					for i := range c.in {
						switch r.IntN(20) {
						case 0:
							src[int(cell)*l.width+i] = 20 * r.Float32()
						case 1:
							src[int(cell)*l.width+i] = ranges[i] * float32(r.IntN(511)) / 510 // also between two numbers
						default:
							src[int(cell)*l.width+i] = max(0, float32(r.NormFloat64()))
						}
					}
				}
				call := quantizeCall{int8Layer: l, cells: cells, taps: s.taps, near: s.near, src: src, dst: bytes, sums: sums}
				k.int8.quantize(call)
				if !srcIntact() || !bytesIntact() || !sumsIntact() {
					t.Fatal("written outside of the buffers")
				}
				number := func(cell, i int) float64 {
					return float64(math.Float32bits(bytes[cell*words+i/4]) >> (i % 4 * 8) & 0xff)
				}
				numbers := reference{weight: make([]float32, len(a.Weight)), bias: make([]float32, c.out), taps: s.taps, x: make([][]float32, c.positions*s.padded)}
				beyond := reference{weight: l.excess.unpack(k.int8.halves, c.out), bias: make([]float32, c.out), taps: s.taps, x: make([][]float32, c.positions*s.padded)}
				for at, w := range a.Weight {
					numbers.weight[at] = float32(int8Number(w, ranges[at/9%c.in], l.scale[at/9/c.in]))
				}
				for cell := range numbers.x {
					numbers.x[cell], beyond.x[cell] = make([]float32, c.in), make([]float32, c.in)
					for i := range c.in {
						x, step := float64(src[cell*l.width+i]), float64(ranges[i])/largestInput
						numbers.x[cell][i] = float32(number(cell, i))
						beyond.x[cell][i] = max(0, src[cell*l.width+i]-ranges[i])
						if back := number(cell, i)*step + float64(beyond.x[cell][i]); math.Abs(back-x) > step*0.501 {
							t.Fatalf("cell %d input %d of range %v: %v became number %v", cell, i, ranges[i], x, number(cell, i))
						}
					}
				}
				near := make([]uint16, len(cells))
				for m := range near {
					near[m] = s.near[m%s.cells]
				}
				k.int8.run(conv{layer: l.layer, cells: cells, near: near, taps: s.taps, src: bytes, stride: l.words, add: sums, dst: sums, relu: true})
				if !bytesIntact() || !sumsIntact() {
					t.Fatal("written outside of the buffers")
				}
				for cell := range numbers.x {
					computed := slices.Contains(cells, int32(cell))
					for o := range l.width {
						want := float64(guard)
						if computed {
							if want = 0; o < c.out {
								want = max(0, float64(a.Bias[o])+float64(numbers.at(cell, o))*float64(l.scale[o])+float64(beyond.at(cell, o)))
							}
						}
						if got := float64(sums[cell*l.width+o]); !(math.Abs(got-want) <= 1e-5*math.Sqrt(float64(9*c.in))+1e-6*math.Abs(want)) {
							t.Fatalf("cell %d output %d is %v, want %v", cell, o, got, want)
						}
					}
				}
			})
		}
	}
}

// Sums may be as large as bytes allow.
func TestInt8Largest(t *testing.T) {
	for _, k := range withInt8() {
		const in = 256
		for _, sign := range []float32{1, -1} {
			a := Affine{make([]float32, in*in*9), make([]float32, in)}
			ranges := make([]float32, in)
			for i := range a.Weight {
				a.Weight[i] = sign
			}
			for i := range ranges {
				ranges[i] = 1
			}
			l := k.packInt8(a, ranges)
			src, dst := aligned(2*l.words), aligned(2*l.width)
			for i := range in / 4 {
				src[i] = math.Float32frombits(math.MaxUint32)
			}
			k.int8.run(conv{layer: l.layer, cells: []int32{0}, taps: make([]int32, 9), src: src, stride: l.words, dst: dst})
			if got, want := dst[7], sign*in*9; math.Abs(float64(got-want)) > 1e-3 {
				t.Errorf("%s: %d weights of %v with inputs of 1 sum to %v", k.name, in*9, sign, got)
			}
		}
	}
}

// NaN and infinity among the inputs are in the outputs.
func TestInt8LetsNaNThrough(t *testing.T) {
	for _, k := range withInt8() {
		for _, x := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
			n := blocksOf(random(7), 1, 16, 0)
			n.Ranges = randomRanges(random(8), 1, 16)
			n.Stem.Bias[3] = x
			tower := newTower(n, k)
			s := tower.NewScratch(3, 3)
			tower.Forward(s, make([]float32, 5*9), 1)
			if got := s.WDL[0]; got-got == 0 {
				t.Errorf("%s: with %v in the stem a logit is %v", k.name, x, got)
			}
		}
	}
}

// Weights that RoundInt8 has rounded lie on numbers: rounding them again changes nothing, and no weight moves by more than half a
// step.
func TestRoundInt8(t *testing.T) {
	r := random(9)
	weight, ranges := normals(r, 20*30*9), randomRanges(r, 1, 30)[0]
	clear(weight[:30*9]) // an output without weights
	steps := int8Steps(weight, 20, ranges)
	once := slices.Clone(weight)
	RoundInt8(once, 20, ranges)
	for at, w := range once {
		if half := steps[at/9/30] * largestInput / ranges[at/9%30] / 2; math.Abs(float64(w-weight[at])) > 1.0001*float64(half) {
			t.Fatalf("weight %d moved from %v to %v; half a step is %v", at, weight[at], w, half)
		}
	}
	twice := slices.Clone(once)
	RoundInt8(twice, 20, ranges)
	for at, w := range twice {
		if math.Abs(float64(w-once[at])) > 1e-6*math.Abs(float64(w)) {
			t.Fatalf("weight %d moved again, from %v to %v", at, once[at], w)
		}
	}
}

// A path with bytes refuses a network without ranges.
func TestInt8NeedsRanges(t *testing.T) {
	for _, p := range Paths() {
		_, err := New(blocksOf(random(1), 1, 8, 0), p)
		if want := fmt.Sprintf("pack network: CPU path %s: the network has no ranges of activations (evald model int8 makes one that has)", p); p.Int8() != (err != nil) || err != nil && err.Error() != want {
			t.Errorf("path %s: error %v", p, err)
		}
	}
}

func BenchmarkInt8(b *testing.B) {
	for _, k := range withInt8() {
		r := random(1)
		l := k.packInt8(Affine{normals(r, 64*64*9), normals(r, 64)}, randomRanges(r, 1, 64)[0])
		var cells []int32
		for i := range int32(4 * 42) {
			cells = append(cells, 9+i)
		}
		src, dst := aligned((4*65+slack)*l.words), aligned((4*65+slack)*l.width)
		b.Run(string(k.name), func(b *testing.B) {
			for b.Loop() {
				k.int8.run(conv{layer: l.layer, cells: cells, taps: []int32{-9, -8, -7, -1, 0, 1, 7, 8, 9}, src: src, stride: l.words, dst: dst})
			}
			b.ReportMetric(float64(b.N)*4*42*9*64*64/b.Elapsed().Seconds()/1e9, "GMAC/s")
		})
		if k.int8.peak != nil {
			b.Run(string(k.name)+"/peak", func(b *testing.B) {
				for b.Loop() {
					k.int8.peak(1000)
				}
				b.ReportMetric(float64(b.N)*1000*float64(k.int8.peakMACs)/b.Elapsed().Seconds()/1e9, "GMAC/s")
			})
		}
	}
}
