package conv

import "github.com/evald/evald/kernels/cpu"

// plain is the implementation in plain Go: the loops of Forward on planes with a border of zeros. It computes all rows of outputs in one
// run, and drops the values for the border between them.
var plain = kernels{
	name: cpu.Go, sizes: plainSizes, weights: plainWeights, gradients: plainGradients, forward: plainForward, sums: plainSums,
}

// plane returns the size of a channel with its border, and the width of the border: one cell, or none for a 1x1 kernel.
func (d *dims) plane() (size, border int) {
	border = int(d.k) / 2
	return (int(d.h) + 2*border) * (int(d.w) + 2*border), border
}

func plainSizes(d *dims) (scratch, weights, sums int) {
	size, _ := d.plane()
	weights = int(d.i * d.o * d.k * d.k)
	return int(d.i+d.o) * size, weights, weights
}

func plainWeights(u, weight []float32, so, si int, flip bool, i0, i1 int, d *dims) {
	taps := int(d.k * d.k)
	for o := range int(d.o) {
		for i := i0; i < i1; i++ {
			to, from := u[(o*int(d.i)+i)*taps:], weight[o*so+i*si:]
			for t := range taps {
				if flip {
					to[taps-1-t] = from[t]
				} else {
					to[t] = from[t]
				}
			}
		}
	}
}

func plainGradients(dweight, sums []float32, partials, i0, i1 int, d *dims) {
	taps, in := int(d.k*d.k), int(d.i)
	for o := range int(d.o) {
		from, to := (o*in+i0)*taps, (o*in+i1)*taps
		clear(dweight[from:to])
		for p := range partials {
			for t, v := range sums[p*int(d.o)*in*taps:][from:to] {
				dweight[from+t] += v
			}
		}
	}
}

// plainLoad copies a board x with the given channels into planes [channels][plane]. Values where mask is not positive become zero.
func plainLoad(planes, x, mask []float32, channels int, d *dims) {
	size, border := d.plane()
	clear(planes)
	for c := range channels {
		for cell := range int(d.h * d.w) {
			if at := cell*channels + c; mask == nil || !(mask[at] <= 0) {
				planes[c*size+d.padded(cell, border)] = x[at]
			}
		}
	}
}

// padded returns the index of a cell in its plane.
func (d *dims) padded(cell, border int) int {
	w := int(d.w)
	return (cell/w+border)*(w+2*border) + cell%w + border
}

func plainForward(y, x, xMask, u, bias, add, yMask, scratch []float32, d *dims) {
	size, border := d.plane()
	in, out, cells, taps := int(d.i), int(d.o), int(d.h*d.w), int(d.k*d.k)
	planes, sum := scratch[:in*size], scratch[in*size:][:size]
	first, last := d.padded(0, border), d.padded(cells-1, border)+1
	for n := range int(d.n) {
		plainLoad(planes, rows(x, n, n+1, in*cells), rows(xMask, n, n+1, in*cells), in, d)
		for o := range out {
			clear(sum)
			for i := range in {
				plane, w := planes[i*size:(i+1)*size], u[(o*in+i)*taps:]
				if taps == 1 {
					for j, v := range plane {
						sum[j] += w[0] * v
					}
				} else {
					addTaps(sum[first:last], plane, int(d.w)+2, (*[9]float32)(w))
				}
			}
			plainStore(rows(y, n, n+1, out*cells), sum, o, bias, rows(add, n, n+1, out*cells), rows(yMask, n, n+1, out*cells), d)
		}
	}
}

// addTaps adds the 3x3 convolution of plane with w to each output. stride is the distance between a plane's rows.
func addTaps(sum, plane []float32, stride int, w *[9]float32) {
	a, b, c := plane[:len(sum)+2], plane[stride:][:len(sum)+2], plane[2*stride:][:len(sum)+2]
	for j := range sum {
		sum[j] += w[0]*a[j] + w[1]*a[j+1] + w[2]*a[j+2] + w[3]*b[j] + w[4]*b[j+1] + w[5]*b[j+2] +
			w[6]*c[j] + w[7]*c[j+1] + w[8]*c[j+2]
	}
}

func plainStore(y, sum []float32, o int, bias, add, mask []float32, d *dims) {
	_, border := d.plane()
	for cell := range int(d.h * d.w) {
		v, at := sum[d.padded(cell, border)], cell*int(d.o)+o
		if bias != nil {
			v += bias[o]
		}
		if add != nil {
			v += add[at]
		}
		if d.relu != 0 && v < 0 || mask != nil && mask[at] <= 0 {
			v = 0
		}
		y[at] = v
	}
}

func plainSums(sums, dbias, x, dy, y, scratch []float32, d *dims) {
	size, border := d.plane()
	in, out, cells, taps := int(d.i), int(d.o), int(d.h*d.w), int(d.k*d.k)
	planes, grads := scratch[:in*size], scratch[in*size:][:out*size]
	first, last := d.padded(0, border), d.padded(cells-1, border)+1
	clear(sums)
	clear(dbias)
	for n := range int(d.n) {
		plainLoad(planes, rows(x, n, n+1, in*cells), nil, in, d)
		plainLoad(grads, rows(dy, n, n+1, out*cells), rows(y, n, n+1, out*cells), out, d)
		for o := range out {
			grad := grads[o*size : (o+1)*size]
			for _, v := range grad {
				dbias[o] += v
			}
			for i := range in {
				plane, w := planes[i*size:(i+1)*size], sums[(o*in+i)*taps:]
				if taps == 1 {
					for j, v := range grad {
						w[0] += v * plane[j]
					}
				} else {
					sumTaps((*[9]float32)(w), grad[first:last], plane, int(d.w)+2)
				}
			}
		}
	}
}

// sumTaps adds to each element of the kernel the products of the gradients and of the cells that the element multiplies.
func sumTaps(w *[9]float32, grad, plane []float32, stride int) {
	a, b, c := plane[:len(grad)+2], plane[stride:][:len(grad)+2], plane[2*stride:][:len(grad)+2]
	var w0, w1, w2, w3, w4, w5, w6, w7, w8 float32
	for j, g := range grad {
		w0, w1, w2 = w0+g*a[j], w1+g*a[j+1], w2+g*a[j+2]
		w3, w4, w5 = w3+g*b[j], w4+g*b[j+1], w5+g*b[j+2]
		w6, w7, w8 = w6+g*c[j], w7+g*c[j+1], w8+g*c[j+2]
	}
	for t, v := range [9]float32{w0, w1, w2, w3, w4, w5, w6, w7, w8} {
		w[t] += v
	}
}
