package net

import "fmt"

// Trace evaluates the planes [5,H,W] of one position and calls visit with each layer's output, after its relu if it has one: "stem"
// [C,H,W], "blocks.0" and so on [C,H,W], "value.conv" [V,H,W], "value.pool" [2V], "value.fc" [F], "value.wdl" [3], "value.gameover" [4],
// "policy.conv" [V,H,W], "policy.logit" [H,W]. The values are valid during the call only. Trace panics unless planes has 5*h*w values.
func (n *Network) Trace(planes []float32, h, w int, visit func(layer string, values []float32)) {
	if len(planes) != PlaneCount*h*w {
		panic(fmt.Sprintf("net: planes of a %dx%d board have %d values, want %d", w, h, len(planes), PlaneCount*h*w))
	}
	n.row(newScratch(n.config, h, w), planes, visit)
}

// scratch holds the activations of one position for one size of board.
type scratch struct {
	h, w                 int
	x, t, u              []float32 // [C,H,W]
	head                 []float32 // [V,H,W]
	pool                 []float32 // [2V]
	fc                   []float32 // [F]
	wdl, gameover, cells []float32 // the outputs: [3], [4], [H,W]
}

func newScratch(c Config, h, w int) *scratch {
	floats := func(n int) []float32 { return make([]float32, n) }
	tower := c.Channels * h * w
	return &scratch{
		h: h, w: w,
		x: floats(tower), t: floats(tower), u: floats(tower),
		head: floats(c.HeadChannels * h * w), pool: floats(2 * c.HeadChannels), fc: floats(c.Hidden),
		wdl: floats(WDLs), gameover: floats(GameOvers), cells: floats(h * w),
	}
}

// row evaluates one position: planes [5,H,W] into the outputs of s.
func (n *Network) row(s *scratch, planes []float32, visit func(layer string, values []float32)) {
	if visit == nil {
		visit = func(string, []float32) {}
	}
	l, h, w, cells := &n.layers, s.h, s.w, s.h*s.w

	conv3x3(s.x, planes, l.stem.weight, l.stem.bias, h, w)
	relu(s.x)
	visit("stem", s.x)
	for i := range l.blocks {
		block := &l.blocks[i]
		conv3x3(s.t, s.x, block.conv1.weight, block.conv1.bias, h, w)
		relu(s.t)
		conv3x3(s.u, s.t, block.conv2.weight, block.conv2.bias, h, w)
		add(s.x, s.u)
		relu(s.x)
		visit(block.name, s.x)
	}

	conv1x1(s.head, s.x, l.valueConv.weight, l.valueConv.bias, cells)
	relu(s.head)
	visit("value.conv", s.head)
	poolMeanMax(s.pool, s.head, cells)
	visit("value.pool", s.pool)
	linear(s.fc, s.pool, l.fc.weight, l.fc.bias)
	relu(s.fc)
	visit("value.fc", s.fc)
	linear(s.wdl, s.fc, l.wdl.weight, l.wdl.bias)
	visit("value.wdl", s.wdl)
	linear(s.gameover, s.fc, l.gameover.weight, l.gameover.bias)
	visit("value.gameover", s.gameover)

	conv1x1(s.head, s.x, l.policyConv.weight, l.policyConv.bias, cells)
	relu(s.head)
	visit("policy.conv", s.head)
	conv1x1(s.cells, s.head, l.policyLogit.weight, l.policyLogit.bias, cells)
	visit("policy.logit", s.cells)
}
