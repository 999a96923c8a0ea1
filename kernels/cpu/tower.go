package cpu

import (
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
}

// Tower is a network packed for one path. It is immutable and safe for concurrent use.
type Tower struct {
	kernel, heads kernel

	planes, channels, headChannels, wdls, gameOvers int

	stem         *layer
	blocks       [][2]*layer
	atPoints     [][2]*[points * points]*layer // the same weights for winograd; nil if the path does not use it
	conv         *layer                        // value.conv and policy.conv side by side: C -> 2V
	fc, out      *layer                        // out is wdl and gameover side by side
	policyLogits *layer
}

// New packs a network for a path, and does not keep the network's memory. The error is that of Path.Check.
func New(n Network, p Path) (*Tower, error) {
	k, err := p.kernel()
	if err != nil {
		return nil, fmt.Errorf("pack network: %w", err)
	}
	return newTower(n, k), nil
}

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
	for _, b := range n.Blocks {
		t.blocks = append(t.blocks, [2]*layer{k.pack(b[0].Weight, b[0].Bias, 9), k.pack(b[1].Weight, b[1].Bias, 9)})
		if k.winograd != nil {
			t.atPoints = append(t.atPoints, [2]*[points * points]*layer{k.atPoints(b[0].Weight, t.channels), k.atPoints(b[1].Weight, t.channels)})
		}
	}
	head := func(parts ...Affine) *layer {
		var all Affine
		for _, a := range parts {
			all.Weight, all.Bias = append(all.Weight, a.Weight...), append(all.Bias, a.Bias...)
		}
		return t.heads.pack(all.Weight, all.Bias, 1)
	}
	t.conv = head(n.ValueConv, n.PolicyConv)
	t.fc = head(n.FC)
	t.out = head(n.WDL, n.GameOver)
	t.policyLogits = head(n.PolicyLogit)
	return t
}

// Path is the path that the tower was packed for.
func (t *Tower) Path() Path { return t.kernel.name }

// Forward evaluates the planes [n,planes,H,W] of n positions, 1 to s.Positions. s must be a scratch of this tower. The
// answers are in s.WDL, s.GameOver and s.Cells.
func (t *Tower) Forward(s *Scratch, planes []float32, n int) {
	if n < 1 || n > s.Positions || len(planes) != n*t.planes*s.cells {
		panic(fmt.Sprintf("cpu: forward of %d positions with %d values in a scratch for %d positions of %d", n, len(planes), s.Positions, t.planes*s.cells))
	}
	s.load(t, planes, n)
	cells, near := s.index[:n*s.cells], []uint16(nil)
	if !t.kernel.runs {
		s.arrange(n)
		cells, near = s.order, s.near
	}
	t.kernel.run(conv{layer: t.stem, cells: cells, near: near, taps: s.taps, src: s.planes, stride: t.stem.words, dst: s.x, pairs: s.pairs, relu: true})
	s.show("stem", n, s.x, t.stem.width, 0, t.channels)

	// The residual stream x is float32. If words are pairs, the convolutions read its rounded copy.
	in, stride := s.x, t.stem.width
	mid := conv{dst: s.mid}
	if t.kernel.bf16 {
		in, stride = s.pairs, t.stem.width/2
		mid = conv{pairs: s.mid}
	}
	for i, b := range t.blocks {
		first := conv{layer: b[0], cells: cells, near: near, taps: s.taps, src: in, stride: stride, dst: mid.dst, pairs: mid.pairs, relu: true}
		second := conv{layer: b[1], cells: cells, near: near, taps: s.taps, src: s.mid, stride: stride, add: s.x, dst: s.x, pairs: s.pairs, relu: true}
		if s.tiled != nil {
			t.winograd(s, n, t.atPoints[i][0], first)
			t.winograd(s, n, t.atPoints[i][1], second)
		} else {
			t.kernel.run(first)
			t.kernel.run(second)
		}
		if s.Trace != nil {
			s.show("blocks."+strconv.Itoa(i), n, s.x, b[1].width, 0, t.channels)
		}
	}
	t.answer(s, n)
}
