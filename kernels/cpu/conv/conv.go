package conv

import "fmt"

// Shape is the size of one convolution. Activations are [N,H,W,channels], channels last; weights [O,I,K,K].
type Shape struct {
	N    int // boards
	I, O int // channels in and out
	H, W int // rows and columns of a board
	K    int // rows and columns of the kernel: 3, with a border of zeros around the board, or 1
}

// lengths returns the numbers of elements of x, y and weight. It panics if the shape is invalid, because that is a bug in the caller.
func (s Shape) lengths() (in, out, weights int) {
	if s.N < 0 || s.I < 1 || s.O < 1 || s.H < 1 || s.W < 1 || s.K != 1 && s.K != 3 {
		panic(fmt.Sprintf("conv: shape %+v: N must be at least 0, K 1 or 3, the others at least 1", s))
	}
	return s.N * s.I * s.H * s.W, s.N * s.O * s.H * s.W, s.O * s.I * s.K * s.K
}

// Then is operations that follow a convolution in the same pass over memory. The zero value does nothing.
type Then struct {
	Add  []float32 // like y, added to the result (a residual connection), or nil; may be y itself
	ReLU bool      // finally, negative results become zero; NaN stays, so that errors are noticed
}

// Grad is operations before and after the gradient with respect to a layer's input. The zero value does nothing. With Grad, a tower's
// backward pass needs no separate steps for its ReLUs and residual connections:
//
//	dx = (convᵀ(dy where Y > 0) + Add) where X > 0
type Grad struct {
	Y   []float32 // like dy: output of the layer's own ReLU; dy counts as zero where Y <= 0; nil if the layer has no ReLU
	Add []float32 // like dx: added to the gradient, or nil; may be dx itself
	X   []float32 // like dx: the input, if it comes from a ReLU; dx becomes zero where X <= 0; or nil
}

// Forward is a convolution with a border of zeros, where b is K/2:
//
//	y[n,r,c,o] = bias[o] + sum over i, kr, kc of weight[o,i,kr,kc] * x[n,r+kr-b,c+kc-b,i]
//
// with x [N,H,W,I], weight [O,I,K,K], bias [O] or nil, y [N,H,W,O], followed by the operations of then. y must not overlap x.
func (p *Pool) Forward(y, x, weight, bias []float32, s Shape, then Then) {
	in, out, weights := s.lengths()
	length("y", y, out, false)
	length("x", x, in, false)
	length("weight", weight, weights, false)
	length("bias", bias, s.O, true)
	length("Then.Add", then.Add, out, true)

	p.call.Lock()
	defer p.call.Unlock()
	taps := s.K * s.K
	p.prepare(s, s.I, s.O, arguments{y: y, x: x, bias: bias, add: then.Add, weight: weight, so: s.I * taps, si: taps})
	if then.ReLU {
		p.job.d.relu = 1
	}
	p.convolve()
}

// InputGrad is the gradient of Forward with respect to x, from dy [N,H,W,O] into dx [N,H,W,I]:
//
//	dx[n,r,c,i] = sum over o, kr, kc of weight[o,i,kr,kc] * dy[n,r-kr+b,c-kc+b,o]
//
// with the operations of g before and after. dx must not overlap dy.
func (p *Pool) InputGrad(dx, dy, weight []float32, s Shape, g Grad) {
	in, out, weights := s.lengths()
	length("dx", dx, in, false)
	length("dy", dy, out, false)
	length("weight", weight, weights, false)
	length("Grad.Y", g.Y, out, true)
	length("Grad.Add", g.Add, in, true)
	length("Grad.X", g.X, in, true)

	p.call.Lock()
	defer p.call.Unlock()
	taps := s.K * s.K
	p.prepare(s, s.O, s.I, arguments{
		y: dx, x: dy, xMask: g.Y, add: g.Add, mask: g.X, weight: weight, so: taps, si: s.I * taps, flip: true,
	})
	p.convolve()
}

// WeightGrad computes the gradients of Forward with respect to weight and bias. It overwrites dweight [O,I,K,K] and dbias [O]; dbias may be
// nil:
//
//	dweight[o,i,kr,kc] = sum over n, r, c of dy[n,r,c,o] * x[n,r+kr-b,c+kc-b,i]
//	dbias[o]           = sum over n, r, c of dy[n,r,c,o]
//
// If y (like dy) is not nil, dy counts as zero where y <= 0.
func (p *Pool) WeightGrad(dweight, dbias, dy, x []float32, s Shape, y []float32) {
	in, out, weights := s.lengths()
	length("dweight", dweight, weights, false)
	length("dbias", dbias, s.O, true)
	length("dy", dy, out, false)
	length("x", x, in, false)
	length("y", y, out, true)

	p.call.Lock()
	defer p.call.Unlock()
	p.prepare(s, s.I, s.O, arguments{dweight: dweight, dy: dy, x: x, y: y})
	j := &p.job
	_, _, each := j.sizes(&j.d)
	j.parts = max(1, min(maxParts, s.N/minPart, maxSums/each))
	j.part = (s.N + j.parts - 1) / j.parts
	j.sums.of(j.parts * each)
	j.dbiases.of(j.parts * s.O)
	p.run(j.parts, (*job).sumsPiece)
	p.run(channelSlices(s.I), (*job).gradientsPiece)
	clear(dbias)
	for part := range j.parts {
		for o := range dbias {
			dbias[o] += j.dbiases.floats[part*s.O+o]
		}
	}
	j.arguments = arguments{}
}

func length(name string, buffer []float32, want int, optional bool) {
	if len(buffer) != want && !(optional && buffer == nil) {
		panic(fmt.Sprintf("conv: %s has %d elements, its shape asks for %d", name, len(buffer), want))
	}
}
