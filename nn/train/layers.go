package train

import (
	"fmt"
	"math"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evald/evald/kernels/cpu/conv"
)

// In this package activations are [N,H,W,C], channels last, which suits the kernels best. Weights have the shapes of package net.

// layer is one convolution of the graph: its weight and bias, and whether a relu follows.
type layer struct {
	pool         *conv.Pool
	weight, bias *gorgonia.Node
	relu         bool
	first        bool // its input is data, which needs no gradient
}

// apply returns y = conv(x) + bias, plus residual if it is not nil, then relu if the layer has one, as one operation. weight is [O,I,k,k]
// with k = 1 or 3, x [N,H,W,I], residual and y [N,H,W,O]. A fully connected layer, with x [N,I] and weight [O,I], is a 1x1 convolution on
// boards of one cell.
//
// In the backward pass, g is the gradient of y, set to zero where the relu's output is zero. The gradient of x is the transposed
// convolution of g; that of weight is the products of g and x; that of bias is the sum of g; and that of residual is g.
func (l layer) apply(x, residual *gorgonia.Node) *gorgonia.Node {
	s := shapeOf(x, l.weight)
	out := x.Shape().Clone()
	out[len(out)-1] = s.O
	in := gorgonia.Nodes{x, l.weight, l.bias}
	o := &op{name: fmt.Sprintf("conv relu %t", l.relu), shape: out, wrt: []bool{!l.first, true, true}}
	if residual != nil {
		in, o.wrt = append(in, residual), append(o.wrt, true)
	}
	o.run = func(y []float32, in [][]float32) {
		then := conv.Then{ReLU: l.relu}
		if len(in) == 4 {
			then.Add = in[3]
		}
		l.pool.Forward(y, in[0], in[1], in[2], s, then)
	}
	o.diff = func(in gorgonia.Nodes, y, g *gorgonia.Node) gorgonia.Nodes {
		if len(in) == 4 && l.relu { // the residual's gradient is a result of its own
			g = reluGrad(y, g)
		}
		back := gorgonia.Nodes{g}
		if len(in) == 3 && l.relu {
			back = append(back, y)
		}
		grads := gorgonia.Nodes{nil, nil, nil, g}[:len(in)]
		grads[1], grads[2] = l.parameterGrads(s, in[0], back)
		if !l.first {
			grads[0] = l.inputGrad(s, in[0], back)
		}
		return grads
	}
	return o.apply(in...)
}

func shapeOf(x, weight *gorgonia.Node) conv.Shape {
	in, w := x.Shape(), weight.Shape()
	s := conv.Shape{N: in[0], I: w[1], O: w[0], H: 1, W: 1, K: 1}
	if len(in) == 4 {
		s.H, s.W = in[1], in[2]
	}
	if len(w) == 4 {
		s.K = w[3]
	}
	return s
}

// inputGrad returns the gradient of x. back is the gradient of y, followed by y itself if the kernel must apply the relu's
// gradient.
func (l layer) inputGrad(s conv.Shape, x *gorgonia.Node, back gorgonia.Nodes) *gorgonia.Node {
	o := &op{name: "conv input gradient", shape: x.Shape()}
	o.run = func(dx []float32, in [][]float32) {
		var g conv.Grad
		if len(in) == 3 {
			g.Y = in[2]
		}
		l.pool.InputGrad(dx, in[1], in[0], s, g)
	}
	return o.apply(append(gorgonia.Nodes{l.weight}, back...)...)
}

// parameterGrads returns the gradients of weight and bias. One kernel computes both, but an operation has only one result. So the bias
// gradient is kept in a buffer, which a second operation copies.
func (l layer) parameterGrads(s conv.Shape, x *gorgonia.Node, back gorgonia.Nodes) (weight, bias *gorgonia.Node) {
	sum := make([]float32, s.O)
	o := &op{name: "conv weight gradient", shape: l.weight.Shape()}
	o.run = func(dw []float32, in [][]float32) {
		var y []float32
		if len(in) == 3 {
			y = in[2]
		}
		l.pool.WeightGrad(dw, sum, in[1], in[0], s, y)
	}
	weight = o.apply(append(gorgonia.Nodes{x}, back...)...)
	fetch := &op{name: "conv bias gradient", shape: tensor.Shape{s.O}}
	fetch.run = func(db []float32, _ [][]float32) { copy(db, sum) }
	return weight, fetch.apply(weight)
}

// reluGrad returns g where y, the output of a relu, is positive, and 0 elsewhere.
func reluGrad(y, g *gorgonia.Node) *gorgonia.Node {
	o := &op{name: "relu gradient", shape: y.Shape()}
	o.run = func(dst []float32, in [][]float32) {
		y, g := in[0][:len(dst)], in[1][:len(dst)]
		for i := range dst { // without a branch, which would be unpredictable
			bits := int32(math.Float32bits(y[i]))
			positive := uint32((-bits &^ bits) >> 31) // all ones or none
			dst[i] = math.Float32frombits(math.Float32bits(g[i]) & positive)
		}
	}
	return o.apply(y, g)
}

// pool returns the mean and then the maximum of each channel over the cells: x [N,H,W,V] to [N,2V]. The gradient of a maximum is
// divided equally among the cells that attain it, so that a mirror image gets the mirrored gradient.
func pool(x *gorgonia.Node) *gorgonia.Node {
	in := x.Shape()
	N, cells, V := in[0], in[1]*in[2], in[3]
	o := &op{name: "pool", shape: tensor.Shape{N, 2 * V}, wrt: []bool{true}}
	o.run = func(dst []float32, in [][]float32) {
		for n := range N {
			poolRow(dst[n*2*V:][:2*V], in[0][n*cells*V:][:cells*V], V)
		}
	}
	o.diff = func(in gorgonia.Nodes, y, g *gorgonia.Node) gorgonia.Nodes {
		ties := make([]float32, V)
		back := &op{name: "pool gradient", shape: in[0].Shape()}
		back.run = func(dst []float32, in [][]float32) {
			for n := range N {
				poolGrad(dst[n*cells*V:][:cells*V], in[0][n*cells*V:][:cells*V], in[1][n*2*V:][:2*V], in[2][n*2*V:][:2*V], ties)
			}
		}
		return gorgonia.Nodes{back.apply(in[0], y, g)}
	}
	return o.apply(x)
}

// poolRow pools one position: x [cells,V] to dst [2V].
func poolRow(dst, x []float32, V int) {
	mean, top := dst[:V], dst[V:]
	cells := float32(len(x) / V)
	clear(mean)
	copy(top, x)
	for ; len(x) > 0; x = x[V:] {
		for v, value := range x[:V] {
			mean[v] += value
			top[v] = max(top[v], value)
		}
	}
	for v := range mean {
		mean[v] /= cells
	}
}

// poolGrad computes the gradient of x [cells,V] of one position from pooled [2V] and its gradient g [2V]. ties [V] is
// scratch memory.
func poolGrad(dst, x, pooled, g, ties []float32) {
	V := len(ties)
	cells := float32(len(x) / V)
	clear(ties)
	for i, value := range x {
		if value == pooled[V+i%V] {
			ties[i%V]++
		}
	}
	for i, value := range x {
		v := i % V
		dst[i] = g[v] / cells
		if value == pooled[V+v] {
			dst[i] += g[V+v] / ties[v]
		}
	}
}
