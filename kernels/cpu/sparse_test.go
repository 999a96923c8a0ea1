package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// withSparse are the kernels under test that have code for inputs that are mostly zero.
func withSparse() []kernel {
	return slices.DeleteFunc(all(), func(k kernel) bool { return k.sparse == nil })
}

// sparseScratch is a tower of one layer with random weights, rounded as they are packed, and its scratch.
func sparseScratch(r *rand.Rand, k kernel, rows, columns, channels int) (weight, bias []float32, l *sparseLayer, s *Scratch) {
	weight, bias = normals(r, 9*channels*channels), normals(r, channels)
	l = k.packSparse(weight, bias, k.sparse.halves)
	weight = l.unpack(k.sparse.halves, channels)
	dense := k.pack(weight, bias, 9)
	t := &Tower{kernel: k, channels: channels, stem: dense, conv: dense, policyLogits: dense, fc: dense, out: dense}
	return weight, bias, l, t.NewScratch(rows, columns)
}

// unpack returns a layer's weights [out][in][9], rounded as they are packed.
func (l *sparseLayer) unpack(halves, outputs int) []float32 {
	rows := 9 * l.words
	weight := make([]float32, outputs*rows)
	for i := range rows {
		row := l.weights[i*l.row:][:l.row]
		for o := range outputs {
			if o >= l.full {
				weight[o*rows+i] = row[o-l.full/2]
				continue
			}
			word := row[o/(2*halves)*halves+o%halves]
			if o/halves%2 == 0 {
				word, _ = unpair(word)
			}
			weight[o*rows+i] = word
		}
	}
	return weight
}

// Of two weights in a word, the lower is the nearest bfloat16, and the word itself is the nearest to the upper one that it can be: by no
// more than half of the distance of two bfloat16 numbers, and finite.
func TestTwoWeights(t *testing.T) {
	r := random(1)
	weights := []float32{0, 1, -1, 0.99999994, 1e-30, -1e-30, math.SmallestNonzeroFloat32, math.MaxFloat32, -math.MaxFloat32}
	for range 100_000 {
		weights = append(weights, math.Float32frombits(r.Uint32()))
	}
	for _, high := range weights {
		low := weights[r.IntN(len(weights))]
		if math.IsNaN(float64(high)) || math.IsInf(float64(high), 0) {
			continue
		}
		word := twoWeights(low, high)
		if got, want := uint16(math.Float32bits(word)), bfloat16(low); got != want {
			t.Fatalf("%v and %v: the lower half is %#x, want %#x", low, high, got, want)
		}
		got, want := math.Float32bits(word), math.Float32bits(high)
		// Bits without the sign are in the order of the numbers, and bfloat16 numbers are 1<<16 of them apart. Beyond the largest and below
		// the smallest there is none to round to.
		distance := max(got&^(1<<31), want&^(1<<31)) - min(got&^(1<<31), want&^(1<<31))
		inside := want&^(1<<31) >= 1<<15 && want&^(1<<31) < 0x7f7f8000
		if got>>31 != want>>31 || inside && distance > 1<<15 || distance >= 1<<16 || math.IsNaN(float64(word)) || math.IsInf(float64(word), 0) {
			t.Fatalf("%v and %v: the word is %v", low, high, word)
		}
	}
}

// The sparse form agrees with the definition, for inputs of any density and widths that do not fill vectors or groups. It
// writes nothing but the cells of its position, and outputs beyond the layer's are zero.
func TestSparse(t *testing.T) {
	for _, k := range withSparse() {
		for i, c := range []struct {
			rows, columns, channels int
			density                 float64
			add, pairs              bool
		}{
			{6, 7, 64, 0.05, true, true},
			{6, 7, 64, 0.3, false, true},
			{6, 7, 64, 0, true, false},
			{6, 7, 64, 1, true, true},
			{1, 1, 16, 0.5, false, false},
			{3, 3, 5, 0.2, true, true},
			{5, 9, 33, 0.1, false, false},
			{8, 2, 96, 0.1, true, true},
			{4, 4, 150, 0.04, true, false},
			{2, 31, 128, 0.2, false, true},
			{1, 7, 64, 0.3, true, true},
			{3, 8, 64, 0.2, true, true},
			{2, 14, 64, 0.2, false, true},
			{7, 16, 64, 0.1, true, false},
			{9, 4, 128, 0.1, true, true},
		} {
			if testing.Short() && i%3 != 1 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%+v", k.name, c), func(t *testing.T) {
				r := random(uint64(i))
				weight, bias, l, s := sparseScratch(r, k, c.rows, c.columns, c.channels)
				ref := reference{weight: weight, bias: bias, taps: s.taps, relu: true, x: make([][]float32, s.padded), add: make([][]float32, s.padded)}
				src, srcIntact := guarded(s.padded*l.width, 0)
				dst, dstIntact := guarded(s.padded*l.width, guard)
				cells, nonzeros := s.index[:s.cells], int32(0)
				for cell := range ref.x {
					ref.x[cell], ref.add[cell] = make([]float32, c.channels), make([]float32, c.channels)
					if !slices.Contains(cells, int32(cell)) {
						continue
					}
					for i := range c.channels {
						if r.Float64() < c.density {
							ref.x[cell][i] = float32(r.NormFloat64())
							nonzeros++
						}
					}
					copy(src[cell*l.width:], ref.x[cell])
					if c.add {
						ref.add[cell] = normals(r, c.channels)
						clear(dst[cell*l.width:][:l.width])
						copy(dst[cell*l.width:], ref.add[cell])
					}
				}
				call := sparseCall{sparseLayer: l, cells: cells, taps: s.taps, near: s.near, spans: s.spans, columns: s.columns, few: math.MaxInt32, src: src, add: c.add, dst: dst, nonzeros: []int32{-1}, work: s.work}
				pairsIntact := func() bool { return true }
				if c.pairs && k.bf16 {
					call.pairs, pairsIntact = guarded(s.padded*l.width/2, guard)
				}
				k.sparse.run(call)
				if call.nonzeros[0] != nonzeros {
					t.Errorf("%d inputs are not zero, want %d", call.nonzeros[0], nonzeros)
				}
				if !srcIntact() || !dstIntact() || !pairsIntact() {
					t.Fatal("written outside of the buffers")
				}
				for cell := range ref.x {
					computed := slices.Contains(cells, int32(cell))
					for o := range l.width {
						want := guard
						if computed {
							if want = 0; o < c.channels {
								want = ref.at(cell, o)
							}
						}
						got := dst[cell*l.width+o]
						if !(math.Abs(float64(got-want)) <= 2e-5*math.Sqrt(float64(9*c.channels))) {
							t.Fatalf("cell %d output %d is %v, want %v", cell, o, got, want)
						}
						if call.pairs == nil || !computed {
							continue
						}
						low, high := unpair(call.pairs[(cell*l.width+o)/2])
						if value := [2]float32{low, high}[o&1]; value != exact(got) {
							t.Fatalf("cell %d output %d is %v in bfloat16, %v in float32", cell, o, value, got)
						}
					}
				}
			})
		}
	}
}

// NaN is not taken for a zero, and passes through the relu.
func TestSparseLetsNaNThrough(t *testing.T) {
	for _, k := range withSparse() {
		_, _, l, s := sparseScratch(random(1), k, 2, 2, 16)
		nan := float32(math.NaN())
		c := sparseCall{
			sparseLayer: l, cells: s.index[:s.cells], taps: s.taps, near: s.near, spans: s.spans, columns: s.columns, few: math.MaxInt32, padded: s.padded, work: s.work,
			src: aligned(s.padded * l.width), dst: aligned(s.padded * l.width), nonzeros: make([]int32, 1),
		}
		c.src[int(c.cells[0])*l.width+3] = nan
		k.sparse.run(c)
		for _, cell := range c.cells {
			if got := c.dst[int(cell)*l.width]; got == got {
				t.Errorf("%s: cell %d is %v beside NaN", k.name, cell, got)
			}
		}
		if c.nonzeros[0] != 1 {
			t.Errorf("%s: %d inputs are not zero, want 1", k.name, c.nonzeros[0])
		}
	}
}

// blocksOf is a network whose blocks have an ever lower bias between their convolutions, so that inputs of the second one
// are mostly not zero at first, and almost all zero at last.
func blocksOf(r *rand.Rand, blocks, channels int, step float32) Network {
	affine := func(out, in int, bias float32) Affine {
		a := Affine{normals(r, out*in), normals(r, out)}
		for i := range a.Weight {
			a.Weight[i] /= float32(math.Sqrt(float64(in)))
		}
		for i := range a.Bias {
			a.Bias[i] = a.Bias[i]/4 + bias
		}
		return a
	}
	n := Network{
		Stem: affine(channels, 9*5, 0), ValueConv: affine(4, channels, 0), FC: affine(8, 8, 0), WDL: affine(3, 8, 0), GameOver: affine(4, 8, 0),
		PolicyConv: affine(4, channels, 0), PolicyLogit: affine(1, 4, 0),
	}
	for i := range blocks {
		n.Blocks = append(n.Blocks, [2]Affine{affine(channels, 9*channels, step*float32(2-i)), affine(channels, 9*channels, 0)})
	}
	return n
}

// A block of positions, some of which are computed in the sparse form and others in the dense form, has bit for bit the
// answers of each position by itself, and agrees with plain Go.
func TestSparseBesideDense(t *testing.T) {
	n := blocksOf(random(3), 8, 48, 0.25)
	n.Ranges = randomRanges(random(5), 8, 48)
	const rows, columns, planes = 6, 7, 5
	size := planes * rows * columns
	plain := goKernel()
	plain.sparse = nil
	float32s := newTower(n, plain)
	plain.int8 = &int8Go
	bytes := newTower(n, plain)
	for _, k := range all() {
		reference := float32s
		if k.int8 != nil {
			reference = bytes
		}
		tower := newTower(n, k)
		s, alone, want := tower.NewScratch(rows, columns), tower.NewScratch(rows, columns), reference.NewScratch(rows, columns)
		x := make([]float32, s.Positions*size)
		r := random(4)
		for i := range x {
			if share := float64(i/size) / float64(s.Positions); r.Float64() < share { // the first positions have few stones
				x[i] = 1
			}
		}
		mixed := 0
		s.Trace = func(layer string, position int, _ []float32) {
			if position == 0 && len(s.dense) > 0 && len(s.dense) < s.Positions && len(layer) > 6 && layer[:6] == "blocks" {
				mixed++
			}
		}
		tower.Forward(s, x, s.Positions)
		if k.sparse != nil && mixed == 0 {
			t.Errorf("%s: no block has both forms", k.name)
		}
		tolerance := 1e-4
		if k.bf16 || k.int8 != nil { // their sparse form has weights of bfloat16
			tolerance = 0.1
		}
		every := 1
		if testing.Short() { // in emulation
			every = 3
		}
		for i := 0; i < s.Positions; i += every {
			tower.Forward(alone, x[i*size:(i+1)*size], 1)
			reference.Forward(want, x[i*size:(i+1)*size], 1)
			for j, v := range s.WDL[3*i : 3*i+3] {
				if v != alone.WDL[j] {
					t.Errorf("%s: position %d: logit %d is %v beside others and %v alone", k.name, i, j, v, alone.WDL[j])
				}
				if !(math.Abs(float64(v-want.WDL[j])) <= tolerance) {
					t.Errorf("%s: position %d: logit %d is %v, want %v", k.name, i, j, v, want.WDL[j])
				}
			}
		}
	}
}

func BenchmarkSparse(b *testing.B) {
	for _, k := range withSparse() {
		for _, density := range []float64{0, 0.02, 0.05, 0.1, 0.2} {
			b.Run(fmt.Sprintf("%s/%v", k.name, density), func(b *testing.B) {
				r := random(1)
				_, _, l, s := sparseScratch(r, k, 6, 7, 64)
				for _, cell := range s.index {
					for i := range 64 {
						if r.Float64() < density {
							s.mid[int(cell)*64+i] = float32(r.NormFloat64())
						}
					}
				}
				c := sparseCall{sparseLayer: l, cells: s.index[:s.cells], taps: s.taps, near: s.near, spans: s.spans, columns: s.columns, few: math.MaxInt32, padded: s.padded, work: s.work, add: true, nonzeros: make([]int32, 1)}
				for b.Loop() {
					for i := range s.Positions {
						at := i * s.padded * 64
						c.src, c.dst = s.mid[at:], s.x[at:]
						if s.pairs != nil {
							c.pairs = s.pairs[at/2:]
						}
						k.sparse.run(c)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s.index)), "ns/cell")
			})
		}
	}
}
