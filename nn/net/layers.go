package net

import "slices"

// The layers, each for one position; tests compare fast kernels with these loops. Activations are [channels, H, W], row-major, with H*W =
// cells. The number of channels follows from the lengths of the slices.

// conv3x3 is a 3x3 convolution of x [I,H,W] into dst [O,H,W]:
//
//	dst[o,r,c] = bias[o] + sum over i, kr, kc of weight[o,i,kr,kc] * x[i, r+kr-1, c+kc-1]
//
// with weight [O,I,3,3] and bias [O]; cells off the board count as zero. dst must not overlap x.
func conv3x3(dst, x, weight, bias []float32, h, w int) {
	cells := h * w
	in := len(x) / cells
	for o, b := range bias {
		y := dst[o*cells : (o+1)*cells]
		fill(y, b)
		for i := range in {
			kernel := (*[9]float32)(weight[(o*in+i)*9:])
			addConv3x3(y, x[i*cells:(i+1)*cells], kernel, h, w)
		}
	}
}

// addConv3x3 adds to y [H,W] the convolution of one input channel x [H,W] with one kernel.
func addConv3x3(y, x []float32, kernel *[9]float32, h, w int) {
	for r := range h {
		to := y[r*w : (r+1)*w]
		for kr := range 3 {
			if from := r + kr - 1; from >= 0 && from < h {
				addRow3(to, x[from*w:(from+1)*w], kernel[3*kr], kernel[3*kr+1], kernel[3*kr+2])
			}
		}
	}
}

// addRow3 adds one row of one kernel: y[c] += k0*x[c-1] + k1*x[c] + k2*x[c+1].
func addRow3(y, x []float32, k0, k1, k2 float32) {
	left, middle := float32(0), x[0]
	for c, right := range x[1:] {
		y[c] += k0*left + k1*middle + k2*right
		left, middle = middle, right
	}
	y[len(x)-1] += k0*left + k1*middle
}

// conv1x1 mixes channels cell by cell, x [I,cells] into dst [O,cells]:
//
//	dst[o,cell] = bias[o] + sum over i of weight[o,i] * x[i,cell]
//
// with weight [O,I,1,1] and bias [O]. dst must not overlap x.
func conv1x1(dst, x, weight, bias []float32, cells int) {
	in := len(x) / cells
	for o, b := range bias {
		y := dst[o*cells : (o+1)*cells]
		fill(y, b)
		for i := range in {
			k := weight[o*in+i]
			for cell, v := range x[i*cells : (i+1)*cells] {
				y[cell] += k * v
			}
		}
	}
}

// linear is a fully connected layer of x [I] into dst [O]: dst[o] = bias[o] + sum over i of weight[o,i] * x[i], with
// weight [O,I] and bias [O]. dst must not overlap x.
func linear(dst, x, weight, bias []float32) {
	for o, sum := range bias {
		for i, k := range weight[o*len(x) : (o+1)*len(x)] {
			sum += k * x[i]
		}
		dst[o] = sum
	}
}

// relu sets negative values of x to zero. It keeps NaN, so that errors are noticed.
func relu(x []float32) {
	for i, v := range x {
		if v < 0 {
			x[i] = 0
		}
	}
}

func add(x, y []float32) {
	for i, v := range y {
		x[i] += v
	}
}

// poolMeanMax reduces x [V,cells] to dst [2V]: the mean of each channel, then the maximum of each channel.
func poolMeanMax(dst, x []float32, cells int) {
	channels := len(x) / cells
	for v := range channels {
		channel := x[v*cells : (v+1)*cells]
		sum := float32(0)
		for _, value := range channel {
			sum += value
		}
		dst[v] = sum / float32(cells)
		dst[channels+v] = slices.Max(channel)
	}
}
