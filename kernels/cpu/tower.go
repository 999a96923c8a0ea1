package cpu

import (
	"errors"
	"fmt"
	"strconv"
)

// Affine is the weight and bias of one layer in the shapes of nn/net: a convolution's weight [out,in,3,3] or [out,in,1,1],
// or a fully connected layer's [out,in].
type Affine struct{ Weight, Bias []float32 }

// Network is the weights of a network with C channels, V head channels and F hidden values.
type Network struct {
	Stem        Affine      // planes -> C, 3x3
	Blocks      [][2]Affine // C -> C, 3x3
	ValueConv   Affine      // C -> V
	FC          Affine      // 2V -> F
	WDL         Affine      // F -> 3
	GameOver    Affine      // F -> 4
	PolicyConv  Affine      // C -> V
	PolicyLogit Affine      // V -> 1

	// Ranges are the largest expected inputs of the blocks' first convolutions, [block][channel], each from 1e-30 to 1e30; nil if they are
	// not known. Paths with 8 bits need them (Path.Int8).
	Ranges [][]float32
}

// Tower is a network packed for one path. It is immutable and safe for concurrent use.
type Tower struct {
	kernel, heads kernel

	planes, channels, headChannels, wdls, gameOvers int

	stem         *layer
	blocks       [][2]block
	conv         *layer // value.conv and policy.conv side by side: C -> 2V
	fc, out      *layer // out is wdl and gameover side by side
	policyLogits *layer
}

// block is the weights of a 3x3 convolution of a residual block, in each form that the path needs.
type block struct {
	dense    *layer
	atPoints *layer       // for winograd; nil if unused
	int8     *int8Layer   // nil if unused
	sparse   *sparseLayer // for sparse; nil if unused
}

// New packs a network for a path. It does not keep the network's memory. The error is that of Path.Check, or wraps ErrRanges.
func New(n Network, p Path) (*Tower, error) {
	k, err := p.kernel()
	if err != nil {
		return nil, fmt.Errorf("pack network: %w", err)
	}
	if k.int8 != nil && n.Ranges == nil {
		return nil, fmt.Errorf("pack network: CPU path %s: %w", p, ErrRanges)
	}
	return newTower(n, k), nil
}

// ErrRanges means that a path with 8 bits needs a network with ranges.
var ErrRanges = errors.New("the network has no ranges of activations (evald model int8 makes one that has)")

func newTower(n Network, k kernel) *Tower {
	t := &Tower{
		kernel: k, heads: k,
		channels: len(n.Stem.Bias), headChannels: len(n.ValueConv.Bias), wdls: len(n.WDL.Bias), gameOvers: len(n.GameOver.Bias),
	}
	if k.heads != nil {
		t.heads = k.heads()
	}
	t.planes = len(n.Stem.Weight) / 9 / t.channels
	t.stem = k.pack(n.Stem.Weight, n.Stem.Bias, 9)
	for at, b := range n.Blocks {
		var two [2]block
		for i, a := range b {
			if i == 0 && k.int8 != nil {
				two[i].int8 = k.packInt8(a, n.Ranges[at])
				continue
			}
			two[i].dense = k.pack(a.Weight, a.Bias, 9)
			if k.winograd != nil {
				two[i].atPoints = k.atPoints(a.Weight, t.channels)
			}
			if k.sparse != nil && k.sparse.below[i] > 0 {
				two[i].sparse = k.packSparse(a.Weight, a.Bias, k.sparse.halves)
			}
		}
		t.blocks = append(t.blocks, two)
	}
	head := func(k kernel, parts ...Affine) *layer {
		var all Affine
		for _, a := range parts {
			all.Weight, all.Bias = append(all.Weight, a.Weight...), append(all.Bias, a.Bias...)
		}
		return k.pack(all.Weight, all.Bias, 1)
	}
	t.conv = head(t.headConv(), n.ValueConv, n.PolicyConv)
	t.fc = head(t.heads, n.FC)
	t.out = head(t.heads, n.WDL, n.GameOver)
	t.policyLogits = head(t.heads, n.PolicyLogit)
	return t
}

// Path is the path that the tower was packed for.
func (t *Tower) Path() Path { return t.kernel.name }

// Forward evaluates n positions, 1 to s.Positions, given their planes [n,planes,H,W]. s must be a scratch of this tower. The answers are in
// s.WDL, s.GameOver and s.Cells.
func (t *Tower) Forward(s *Scratch, planes []float32, n int) {
	if n < 1 || n > s.Positions || len(planes) != n*t.planes*s.cells {
		panic(fmt.Sprintf("cpu: forward of %d positions with %d values in a scratch for %d positions of %d", n, len(planes), s.Positions, t.planes*s.cells))
	}
	if t.kernel.tiles && s.together != n {
		s.standTogether(n)
	}
	if len(s.all.cells) != n*s.cells {
		s.arrange(&s.all, s.each[:n], t.kernel.tiles)
	}
	s.load(t, planes, n)
	t.kernel.run(conv{layer: t.stem, cells: s.all.cells, near: s.all.near, taps: s.taps, src: s.planes, stride: t.stem.words, dst: s.x, pairs: s.pairs, relu: true})
	s.show("stem", n, s.x, t.stem.width, 0, t.channels)
	for i, b := range t.blocks {
		if b[0].int8 != nil {
			t.convolveInt8(s, n, b[0].int8)
		} else {
			first := conv{dst: s.mid, pairs: s.midPairs, relu: true}
			t.convolve(s, t.convolveSparse(s, n, b[0], 0, first, s.x), b[0], first, s.x, s.pairs)
		}
		second := conv{add: s.x, dst: s.x, pairs: s.pairs, relu: true}
		t.convolve(s, t.convolveSparse(s, n, b[1], 1, second, s.mid), b[1], second, s.mid, s.midPairs)
		if s.Trace != nil {
			s.show("blocks."+strconv.Itoa(i), n, s.x, b[1].dense.width, 0, t.channels)
		}
	}
	t.answer(s, n)
}

// convolve computes c for some positions of the block, in ascending order, with a layer's weights. The input is x, and pairs is its
// bfloat16 copy.
func (t *Tower) convolve(s *Scratch, positions []int32, l block, c conv, x, pairs []float32) {
	if s.tiled != nil {
		c.layer, c.src = l.dense, x
		for len(positions) > 0 {
			n := 1
			for n < len(positions) && positions[n] == positions[n-1]+1 {
				n++
			}
			t.winograd(s, int(positions[0]), n, l.atPoints, c)
			positions = positions[n:]
		}
		return
	}
	if len(positions) == 0 {
		return
	}
	o := &s.all
	if len(positions)*s.cells != len(o.cells) {
		o = &s.some
		s.arrange(o, positions, t.kernel.tiles)
	}
	c.layer, c.taps, c.src, c.stride = l.dense, s.taps, x, l.dense.width
	if t.kernel.bf16 {
		c.src, c.stride = pairs, l.dense.width/2
	}
	t.eachPiece(c, o, t.kernel.run)
}

// eachPiece calls run for parts of o's cells.
func (t *Tower) eachPiece(c conv, o *order, run func(conv)) {
	piece := max(pieceProducts/(len(c.taps)*c.words*c.width)/group, 1) * group
	if t.kernel.tiles {
		piece = max(tileProducts/(len(c.taps)*c.words*c.width)/(2*tileRows), 1) * 2 * tileRows
	}
	for from := 0; from < len(o.cells); from += piece {
		to := min(from+piece, len(o.cells))
		if c.cells = o.cells[from:to]; o.near != nil {
			c.near = o.near[from:to]
		}
		run(c)
	}
}

// pieceProducts is the number of word products per call, which take about ten microseconds. During a C call of more than twenty, Go gives
// the processor to another thread, and getting it back takes longer than many calls.
const pieceProducts = 1 << 20

// tileProducts is the number of word products per call for tiles, which are faster.
const tileProducts = 8 * pieceProducts
