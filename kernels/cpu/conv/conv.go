package conv

import "fmt"

// Shape is the size of one convolution. Activations are [N,H,W,channels], channels last.
type Shape struct {
	N    int // boards
	I, O int // channels in and out
	H, W int // rows and columns of a board
}

// Then is what follows a convolution in the same pass over memory. The zero value does nothing.
type Then struct {
	Add  []float32 // like y, added to the result (a residual connection), or nil; may be y itself
	ReLU bool      // finally, negative results become zero; NaN stays, so that it is noticed
}

// Grad is what surrounds the gradient with respect to a layer's input. The zero value does nothing. With it a tower's
// backward pass needs no separate steps for its ReLUs and residual connections:
//
//	dx = (convᵀ(dy where Y > 0) + Add) where X > 0
type Grad struct {
	Y   []float32 // like dy: the output after the layer's own ReLU; dy counts as zero wherever Y <= 0; nil: no ReLU
	Add []float32 // like dx: added to the gradient, or nil; may be dx itself
	X   []float32 // like dx: the input, if it comes from a ReLU; dx becomes zero wherever X <= 0; or nil
}

// Conv3x3 is a 3x3 convolution with a border of zeros:
//
//	y[n,r,c,o] = bias[o] + sum over i, kr, kc of weight[o,i,kr,kc] * x[n,r+kr-1,c+kc-1,i]
//
// with x [N,H,W,I], weight [O,I,3,3], bias [O] or nil, y [N,H,W,O]; then says what follows. y must not overlap x.
func (p *Pool) Conv3x3(y, x, weight, bias []float32, s Shape, then Then) {
	p.forward(y, x, weight, bias, s, then, 3)
}

// Conv3x3InputGrad is the gradient of Conv3x3 with respect to x, from dy [N,H,W,O] into dx [N,H,W,I]:
//
//	dx[n,r,c,i] = sum over o, kr, kc of weight[o,i,kr,kc] * dy[n,r-kr+1,c-kc+1,o]
//
// and g says what is done before and after. dx must not overlap dy.
func (p *Pool) Conv3x3InputGrad(dx, dy, weight []float32, s Shape, g Grad) {
	p.inputGrad(dx, dy, weight, s, g, 3)
}

// Conv3x3WeightGrad is the gradient of Conv3x3 with respect to weight and bias, into dweight [O,I,3,3] and dbias [O] or nil,
// which are overwritten:
//
//	dweight[o,i,kr,kc] = sum over n, r, c of dy[n,r,c,o] * x[n,r+kr-1,c+kc-1,i]
//	dbias[o]           = sum over n, r, c of dy[n,r,c,o]
//
// If y (like dy, or nil) is given, dy counts as zero wherever y <= 0.
func (p *Pool) Conv3x3WeightGrad(dweight, dbias, dy, x []float32, s Shape, y []float32) {
	p.weightGrad(dweight, dbias, dy, x, s, y, 3)
}

// Conv1x1 mixes channels cell by cell: Conv3x3 with weight [O,I,1,1],
//
//	y[n,r,c,o] = bias[o] + sum over i of weight[o,i] * x[n,r,c,i]
func (p *Pool) Conv1x1(y, x, weight, bias []float32, s Shape, then Then) {
	p.forward(y, x, weight, bias, s, then, 1)
}

// Conv1x1InputGrad is the gradient of Conv1x1 with respect to x, as in Conv3x3InputGrad.
func (p *Pool) Conv1x1InputGrad(dx, dy, weight []float32, s Shape, g Grad) {
	p.inputGrad(dx, dy, weight, s, g, 1)
}

// Conv1x1WeightGrad is the gradient of Conv1x1 with respect to weight [O,I,1,1] and bias, as in Conv3x3WeightGrad.
func (p *Pool) Conv1x1WeightGrad(dweight, dbias, dy, x []float32, s Shape, y []float32) {
	p.weightGrad(dweight, dbias, dy, x, s, y, 1)
}

// check panics if the shape is invalid: a bug in the calling program.
func (s Shape) check() {
	if s.N < 0 || s.I < 1 || s.O < 1 || s.H < 1 || s.W < 1 {
		panic(fmt.Sprintf("conv: shape %+v: N must be at least 0, the others at least 1", s))
	}
}

func length(name string, buffer []float32, want int, optional bool) {
	if len(buffer) != want && !(optional && buffer == nil) {
		panic(fmt.Sprintf("conv: %s has %d elements, its shape asks for %d", name, len(buffer), want))
	}
}
