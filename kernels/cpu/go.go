package cpu

// goKernel works everywhere.
func goKernel() kernel {
	return kernel{name: Go, lanes: 4, panel: 4, inWords: 1, run: convGo}
}

// convGo computes two cells and four outputs at a time, so that eight sums do not wait for each other.
func convGo(c conv) {
	panel := c.tapCount * c.words * 4
	for o := 0; o < c.width; o += 4 {
		weights := c.weights[o/4*panel : (o/4+1)*panel]
		for m := 0; m < len(c.cells); m += 2 {
			first, second := int(c.cells[m]), int(c.cells[min(m+1, len(c.cells)-1)])
			a, b := c.tileGo(first, second, weights, (*[4]float32)(c.bias[o:]))
			c.store(first*c.width+o, a)
			if m+1 < len(c.cells) {
				c.store(second*c.width+o, b)
			}
		}
	}
}

// tileGo sums four outputs of two cells over all taps and inputs.
func (c *conv) tileGo(first, second int, weights []float32, bias *[4]float32) (a, b [4]float32) {
	a0, a1, a2, a3 := bias[0], bias[1], bias[2], bias[3]
	b0, b1, b2, b3 := a0, a1, a2, a3
	for _, tap := range c.taps {
		x := c.src[(first+int(tap))*c.stride:][:c.words]
		y := c.src[(second+int(tap))*c.stride:][:len(x)]
		for i, u := range x {
			v, w := y[i], (*[4]float32)(weights[4*i:])
			a0, b0 = a0+u*w[0], b0+v*w[0]
			a1, b1 = a1+u*w[1], b1+v*w[1]
			a2, b2 = a2+u*w[2], b2+v*w[2]
			a3, b3 = a3+u*w[3], b3+v*w[3]
		}
		weights = weights[4*len(x):]
	}
	return [4]float32{a0, a1, a2, a3}, [4]float32{b0, b1, b2, b3}
}

// store finishes four outputs.
func (c *conv) store(at int, sums [4]float32) {
	dst := c.dst[at : at+4]
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
