package cpu

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// unpair is the two values of a word that pair has made.
func unpair(word float32) (low, high float32) {
	b := math.Float32bits(word)
	return math.Float32frombits(b << 16), math.Float32frombits(b &^ 0xffff)
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

func normals(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// few is n, and a fifth of it in short tests, which run in emulation.
func few(n int) int {
	if testing.Short() {
		return n / 5
	}
	return n
}

// all are the kernels under test.
func all() []kernel { return append(emulated(), available()...) }

// If the processor has the instructions, the path must exist. Otherwise the tests would silently skip it.
func TestPathsAreThere(t *testing.T) {
	paths := Paths()
	if paths[len(paths)-1] != Go {
		t.Errorf("paths %v do not end with go", paths)
	}
	for _, p := range paths {
		if err := p.Check(); err != nil {
			t.Error(err)
		}
	}
	if err := Path("mmx").Check(); err == nil || !strings.Contains(err.Error(), `CPU path "mmx": this machine and build have `) {
		t.Errorf("error %v, want one that lists the paths", err)
	}
	text, err := os.ReadFile("/proc/cpuinfo")
	if runtime.GOARCH == "arm64" && withC {
		want := []Path{NEON, Go}
		// In emulation /proc/cpuinfo is that of the machine below, and QEMU_CPU is the processor.
		if slices.Contains(strings.Fields(string(text)), "bf16") || os.Getenv("QEMU_CPU") == "max" {
			want = []Path{NEONBF16, NEON, Go}
		}
		if slices.Contains(strings.Fields(string(text)), "i8mm") || os.Getenv("QEMU_CPU") == "max" {
			want = append([]Path{NEONI8MM}, want...)
		}
		if runtime.GOOS == "linux" && !slices.Equal(paths, want) {
			t.Errorf("paths are %v; by /proc/cpuinfo or QEMU_CPU there are %v", paths, want)
		}
		return
	}
	if err != nil || runtime.GOARCH != "amd64" || !withC {
		if len(paths) != 1 {
			t.Errorf("paths are %v; without cgo on amd64 or arm64 there is only go", paths)
		}
		return
	}
	flags := strings.Fields(string(text))
	for p, needs := range map[Path][]string{
		AVX2: {"avx2", "fma"}, AVX512: {"avx512f"}, AVX512BF16: {"avx512f", "avx512_bf16"},
		AMX: {"avx512f", "avx512bw", "avx512vl", "avx512_bf16", "amx_tile", "amx_bf16"},
	} {
		has := !slices.ContainsFunc(needs, func(f string) bool { return !slices.Contains(flags, f) })
		if has != slices.Contains(paths, p) {
			t.Errorf("processor has %v: %v; paths are %v", needs, has, paths)
		}
	}
}

// shape is a random conv to test, over a row of cells with a margin of zeros on both sides.
type shape struct {
	in, out, taps, cells int
	relu, add, pairs     bool
}

func (s shape) String() string { return fmt.Sprintf("%+v", struct{ shape }{s}) }

func shapes() []shape {
	r := random(1)
	s := []shape{
		{in: 64, out: 64, taps: 9, cells: 42, relu: true, add: true},
		{in: 5, out: 64, taps: 9, cells: 42, relu: true},
		{in: 64, out: 1, taps: 1, cells: 1},
	}
	for range few(60) {
		s = append(s, shape{
			in: 1 + r.IntN(70), out: 1 + r.IntN(150), taps: []int{1, 9}[r.IntN(2)], cells: 1 + r.IntN(20),
			relu: r.IntN(2) == 0, add: r.IntN(2) == 0, pairs: r.IntN(2) == 0,
		})
	}
	return s
}

// Every kernel agrees with the definition, for shapes that do not fill vectors. It writes nothing but the requested cells,
// and outputs beyond the layer's are zero.
func TestConv(t *testing.T) {
	for _, k := range all() {
		t.Run(string(k.name), func(t *testing.T) {
			for i, s := range shapes() {
				testConv(t, k, s, uint64(i))
			}
		})
	}
}

const guard = float32(-77.5)

// guarded returns n words between guard words, and a check that the guard words are unchanged.
func guarded(n int, fill float32) (x []float32, intact func() bool) {
	const pad = 64
	all := aligned(n + 2*pad)
	for i := range all {
		all[i] = guard
	}
	x = all[pad : pad+n : pad+n]
	for i := range x {
		x[i] = fill
	}
	isGuard := func(v float32) bool { return v == guard }
	return x, func() bool {
		return !slices.ContainsFunc(all[:pad], func(v float32) bool { return !isGuard(v) }) &&
			!slices.ContainsFunc(all[pad+n:], func(v float32) bool { return !isGuard(v) })
	}
}

func testConv(t *testing.T, k kernel, s shape, seed uint64) {
	r := random(seed)
	const margin = 3
	total := s.cells + 2*margin
	ref := reference{weight: normals(r, s.out*s.in*s.taps), bias: normals(r, s.out), relu: s.relu}
	for _, w := range [][]float32{ref.weight} {
		for i := range w {
			w[i] = exact(w[i])
		}
	}
	l := k.pack(ref.weight, ref.bias, s.taps)
	for range s.taps {
		ref.taps = append(ref.taps, int32(r.IntN(2*margin+1)-margin))
	}
	stride := l.words + r.IntN(3)
	src, srcIntact := guarded(total*stride+slack*stride, 0)
	for range total {
		ref.x = append(ref.x, make([]float32, s.in))
	}
	for cell, x := range ref.x {
		for i := range x {
			x[i] = exact(float32(r.NormFloat64()))
			set(k, src[cell*stride:], i, x[i])
		}
	}
	c := conv{layer: l, taps: ref.taps, src: src, stride: stride, relu: s.relu}
	for m := range s.cells {
		if r.IntN(4) > 0 || m == 0 {
			c.cells = append(c.cells, int32(margin+m))
		}
	}
	dst, dstIntact := guarded(total*l.width, guard)
	c.dst = dst
	if s.add {
		c.add = dst // in place
		for cell := range total {
			ref.add = append(ref.add, normals(r, l.width))
			if slices.Contains(c.cells, int32(cell)) {
				for o := range l.width {
					if o >= s.out {
						ref.add[cell][o] = 0
					}
					dst[cell*l.width+o] = ref.add[cell][o]
				}
			}
		}
	}
	var pairs []float32
	pairsIntact := func() bool { return true }
	if s.pairs && k.bf16 {
		pairs, pairsIntact = guarded(total*l.width/2, guard)
		c.pairs = pairs
	}
	k.run(c)

	if !srcIntact() || !dstIntact() || !pairsIntact() {
		t.Fatalf("%v: written outside of the buffers", s)
	}
	for cell := range total {
		computed := slices.Contains(c.cells, int32(cell))
		for o := range l.width {
			got, want := dst[cell*l.width+o], guard
			if computed {
				want = 0
				if o < s.out {
					want = ref.at(cell, o)
				}
			}
			if math.Abs(float64(got-want)) > 2e-5*float64(s.in) {
				t.Fatalf("%v: cell %d output %d is %v, want %v", s, cell, o, got, want)
			}
			if pairs == nil {
				continue
			}
			low, high := unpair(pairs[(cell*l.width+o)/2])
			value := low
			if o&1 == 1 {
				value = high
			}
			if computed && value != exact(got) || !computed && pairs[(cell*l.width+o)/2] != guard {
				t.Fatalf("%v: cell %d output %d is %v in bfloat16, %v in float32", s, cell, o, value, got)
			}
		}
	}
}

// exact rounds x to bfloat16, so that all paths multiply the same numbers.
func exact(x float32) float32 { return math.Float32frombits(uint32(bfloat16(x)) << 16) }

// set writes input i of a cell.
func set(k kernel, cell []float32, i int, x float32) {
	if !k.bf16 {
		cell[i] = x
		return
	}
	low, high := unpair(cell[i/2])
	if i&1 == 0 {
		low = x
	} else {
		high = x
	}
	cell[i/2] = pair(low, high)
}

// A cell's value has the same bits whatever cells are computed with it.
func TestConvIgnoresNeighbours(t *testing.T) {
	for _, k := range all() {
		r := random(2)
		l := k.pack(normals(r, 48*48*9), normals(r, 48), 9)
		src := aligned((60 + slack) * l.words)
		for i := range src {
			src[i] = float32(r.NormFloat64())
			if k.bf16 {
				src[i] = pair(src[i], float32(r.NormFloat64()))
			}
		}
		compute := func(cells []int32) []float32 {
			dst := aligned(60 * l.width)
			k.run(conv{layer: l, cells: cells, taps: []int32{-9, -8, -7, -1, 0, 1, 7, 8, 9}, src: src, stride: l.words, dst: dst})
			return dst
		}
		var cells []int32
		for i := range int32(40) {
			cells = append(cells, 9+i)
		}
		want := compute(cells)
		for range few(20) {
			r.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
			some := cells[:1+r.IntN(len(cells))]
			got := compute(some)
			for _, cell := range some {
				a, b := want[int(cell)*l.width:][:l.width], got[int(cell)*l.width:][:l.width]
				if !slices.Equal(a, b) {
					t.Fatalf("%s: cell %d depends on its neighbours", k.name, cell)
				}
			}
		}
	}
}

// NaN and infinity pass through the relu, so that they are noticed.
func TestConvLetsNaNThrough(t *testing.T) {
	for _, k := range all() {
		nan, inf := float32(math.NaN()), float32(math.Inf(1))
		l := k.pack([]float32{1, 0, 0, 1, -1, 0}, []float32{0, 0, 0}, 1) // [3][2]: first, second, minus the first
		for _, x := range [][2]float32{{nan, 1}, {inf, 1}, {2, 1}} {
			src, dst := aligned((1+slack)*l.words), aligned((1+slack)*l.width)
			set(k, src, 0, x[0])
			set(k, src, 1, x[1])
			k.run(conv{layer: l, cells: []int32{0}, taps: []int32{0}, src: src, stride: l.words, dst: dst, relu: true})
			if got := dst[0]; got != x[0] && got == got || got == got && x[0] != x[0] {
				t.Errorf("%s: %v became %v", k.name, x[0], got)
			}
			if got := dst[2]; x[0] == 2 && got != 0 || x[0] != x[0] && got == got {
				t.Errorf("%s: relu of %v is %v", k.name, -x[0], got)
			}
		}
	}
}

// Rounding to bfloat16 is to nearest, ties to even, checked against the neighbours of every value.
func TestBFloat16(t *testing.T) {
	r := random(3)
	for range 100_000 {
		x := math.Float32frombits(r.Uint32())
		got := math.Float32frombits(uint32(bfloat16(x)) << 16)
		if x != x {
			if got == got {
				t.Fatalf("NaN became %v", got)
			}
			continue
		}
		if math.IsInf(float64(x), 0) || math.Abs(float64(x)) > 3.3e38 {
			continue
		}
		down := math.Float32bits(x) &^ 0xffff
		below, above := float64(math.Float32frombits(down)), float64(math.Float32frombits(down+0x10000))
		near, far := math.Abs(float64(x)-below), math.Abs(float64(x)-above)
		want := below
		if far < near || far == near && bits.OnesCount32(down&0x10000) == 1 {
			want = above
		}
		if float64(got) != want {
			t.Fatalf("%v (%#x) became %v, want %v", x, math.Float32bits(x), got, want)
		}
	}
	if a, b := unpair(pair(1.5, -2)); a != 1.5 || b != -2 {
		t.Errorf("a pair of 1.5 and -2 is %v and %v", a, b)
	}
}

func BenchmarkConv(b *testing.B) {
	for _, k := range available() {
		b.Run(string(k.name), func(b *testing.B) {
			r := random(1)
			l := k.pack(normals(r, 64*64*9), normals(r, 64), 9)
			var cells []int32
			for i := range int32(4 * 42) {
				cells = append(cells, 9+i)
			}
			src, dst := aligned((4*65+slack)*l.words), aligned((4*65+slack)*l.width)
			for b.Loop() {
				k.run(conv{layer: l, cells: cells, taps: []int32{-9, -8, -7, -1, 0, 1, 7, 8, 9}, src: src, stride: l.words, dst: dst})
			}
			b.ReportMetric(float64(b.N)*4*42*9*64*64/b.Elapsed().Seconds()/1e9, "GMAC/s")
		})
	}
}

// The ceiling of one core, which Path.Peak measures.
func BenchmarkPeak(b *testing.B) {
	for _, k := range available() {
		if k.peak == nil {
			continue
		}
		b.Run(string(k.name), func(b *testing.B) {
			const rounds = 1000
			for b.Loop() {
				k.peak(rounds)
			}
			b.ReportMetric(float64(b.N)*rounds*float64(k.peakMACs)/b.Elapsed().Seconds()/1e9, "GMAC/s")
		})
	}
}

// Taps that are not near any cell of a tile are skipped: even NaN has no effect there.
func TestConvPassesOver(t *testing.T) {
	for _, k := range all() {
		r := random(5)
		l := k.pack(normals(r, 20*7*3), normals(r, 20), 3)
		const cells = 12
		src := aligned((cells + 2 + slack) * l.words)
		for cell := 1; cell <= cells; cell++ {
			for i := range 7 {
				set(k, src[cell*l.words:], i, float32(r.NormFloat64()))
			}
		}
		c := conv{layer: l, taps: []int32{-1, 0, 1}, src: src, stride: l.words, dst: aligned((cells + 2) * l.width)}
		for m := range int32(cells) {
			c.cells = append(c.cells, m+1)
			near := uint16(7)
			if m < 6 {
				near = 3 // the first tiles skip the right neighbour
			}
			c.near = append(c.near, near)
		}
		for cell := 2; cell <= 7; cell++ { // these cells are seen as a neighbour that is not near, or as the cell itself
			for i := range 7 {
				set(k, src[cell*l.words:], i, 0)
			}
		}
		passing := slices.Clone(c.dst)
		c.dst = passing
		k.run(c)
		c.near, c.dst = nil, aligned((cells+2)*l.width)
		k.run(c)
		if !slices.Equal(passing, c.dst) {
			t.Errorf("%s: passing over zeros changes the sums", k.name)
		}
		set(k, src[7*l.words:], 0, float32(math.NaN()))
		c.cells, c.near = []int32{6}, []uint16{3}
		k.run(c)
		if got := c.dst[6*l.width]; got != got {
			t.Errorf("%s: a neighbour that is not near was looked at", k.name)
		}
	}
}
