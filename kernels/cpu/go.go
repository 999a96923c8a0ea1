package cpu

import "unsafe"

// goKernel works everywhere.
func goKernel() kernel {
	return kernel{name: Go, lanes: 2, panel: 2, inWords: 1, run: convGo}
}

// convGo computes three cells and two outputs at a time: six sums that do not wait for each other. More do not fit the
// registers of amd64 as Go's compiler uses them.
func convGo(c conv) {
	panel, last := c.tapCount*c.words, len(c.cells)-1
	weights := unsafe.Slice((*[2]float32)(unsafe.Pointer(unsafe.SliceData(c.weights))), len(c.weights)/2)
	for o := 0; o < c.width; o += 2 {
		w := weights[o/2*panel : (o/2+1)*panel]
		for m := 0; m <= last; m += 3 {
			// Beyond the last cell that one is computed again, and stored once.
			cells := [3]int{int(c.cells[m]), int(c.cells[min(m+1, last)]), int(c.cells[min(m+2, last)])}
			sums := c.tileGo(cells, w, c.bias[o], c.bias[o+1])
			for i := range min(3, last+1-m) {
				c.store(cells[i]*c.width+o, sums[i])
			}
		}
	}
}

// tileGo sums two outputs of three cells over all taps and inputs.
func (c *conv) tileGo(cells [3]int, weights [][2]float32, bias0, bias1 float32) [3][2]float32 {
	x0, x1, y0, y1, z0, z1 := bias0, bias1, bias0, bias1, bias0, bias1
	for _, tap := range c.taps {
		x := c.src[(cells[0]+int(tap))*c.stride:][:c.words]
		y := c.src[(cells[1]+int(tap))*c.stride:][:len(x)]
		z := c.src[(cells[2]+int(tap))*c.stride:][:len(x)]
		w := weights[:len(x)]
		weights = weights[len(x):]
		for i, u := range x {
			k0, k1, v, t := w[i][0], w[i][1], y[i], z[i]
			x0 += u * k0
			x1 += u * k1
			y0 += v * k0
			y1 += v * k1
			z0 += t * k0
			z1 += t * k1
		}
	}
	return [3][2]float32{{x0, x1}, {y0, y1}, {z0, z1}}
}

// store finishes two outputs.
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
