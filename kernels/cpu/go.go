package cpu

import "unsafe"

// goKernel is plain Go, for every machine.
func goKernel() kernel {
	return kernel{name: Go, lanes: 2, panel: 2, inWords: 1, run: convGo, sparse: &sparse{run: sparseGo, below: [2]float64{0.6, 0.6}}}
}

// convGo computes three cells and two outputs at a time, which are six independent sums. With Go's compiler, the registers of amd64 hold no
// more.
func convGo(c conv) {
	panel, last := c.tapCount*c.words, len(c.cells)-1
	weights := unsafe.Slice((*[2]float32)(unsafe.Pointer(unsafe.SliceData(c.weights))), len(c.weights)/2)
	for o := 0; o < c.width; o += 2 {
		w := weights[o/2*panel : (o/2+1)*panel]
		for m := 0; m <= last; m += 3 {
			// After the last cell, that cell is computed again but not stored.
			cells := [3]int{int(c.cells[m]), int(c.cells[min(m+1, last)]), int(c.cells[min(m+2, last)])}
			near := uint16(0xffff)
			if c.near != nil {
				near = c.near[m] | c.near[min(m+1, last)] | c.near[min(m+2, last)]
			}
			sums := c.tileGo(cells, near, w, c.bias[o], c.bias[o+1])
			for i := range min(3, last+1-m) {
				c.store(cells[i]*c.width+o, sums[i])
			}
		}
	}
}

// tileGo sums two outputs of three cells over all inputs of the taps in near.
func (c *conv) tileGo(cells [3]int, near uint16, weights [][2]float32, bias0, bias1 float32) [3][2]float32 {
	x0, x1, y0, y1, z0, z1 := bias0, bias1, bias0, bias1, bias0, bias1
	for t, tap := range c.taps {
		if near>>t&1 == 0 {
			weights = weights[c.words:]
			continue
		}
		x := c.src[(cells[0]+int(tap))*c.stride:][:c.words]
		y := c.src[(cells[1]+int(tap))*c.stride:][:len(x)]
		z := c.src[(cells[2]+int(tap))*c.stride:][:len(x)]
		w := weights[:len(x)]
		weights = weights[len(x):]
		for i, u := range x {
			k0, k1, v, q := w[i][0], w[i][1], y[i], z[i]
			x0 += u * k0
			x1 += u * k1
			y0 += v * k0
			y1 += v * k1
			z0 += q * k0
			z1 += q * k1
		}
	}
	return [3][2]float32{{x0, x1}, {y0, y1}, {z0, z1}}
}

// store adds add to two outputs, applies relu, and stores them.
func (c *conv) store(at int, sums [2]float32) {
	dst := c.dst[at : at+2]
	for i, y := range sums {
		if c.add != nil {
			y += c.add[at+i]
		}
		if c.relu && y < 0 {
			y = 0
		}
		dst[i] = y
	}
}
