package conv

// The loops that the fast kernels are compared with.

// at is the index of channel c of channels, row r and column col of board n.
func (s Shape) at(n, c, channels, r, col int) int {
	return ((n*s.H+r)*s.W+col)*channels + c
}

// taps calls f for each element t of the kernel, each output cell (r,c), and the input cell (xr,xc) that t multiplies.
func (s Shape) taps(f func(t, r, c, xr, xc int)) {
	for t := range s.K * s.K {
		dr, dc := t/s.K-s.K/2, t%s.K-s.K/2
		for r := max(0, -dr); r < min(s.H, s.H-dr); r++ {
			for c := max(0, -dc); c < min(s.W, s.W-dc); c++ {
				f(t, r, c, r+dr, c+dc)
			}
		}
	}
}

func referenceForward(y, x, weight, bias []float32, s Shape, then Then) {
	sum := make([]float32, s.H*s.W)
	for n := range s.N {
		for o := range s.O {
			clear(sum)
			for i := range s.I {
				w := weight[(o*s.I+i)*s.K*s.K:]
				s.taps(func(t, r, c, xr, xc int) { sum[r*s.W+c] += w[t] * x[s.at(n, i, s.I, xr, xc)] })
			}
			for cell, v := range sum {
				at := s.at(n, o, s.O, cell/s.W, cell%s.W)
				v += bias[o]
				if then.Add != nil {
					v += then.Add[at]
				}
				if then.ReLU && v < 0 {
					v = 0
				}
				y[at] = v
			}
		}
	}
}

func referenceInputGrad(dx, dy, weight []float32, s Shape, g Grad) {
	sum := make([]float32, s.H*s.W)
	for n := range s.N {
		for i := range s.I {
			clear(sum)
			for o := range s.O {
				w := weight[(o*s.I+i)*s.K*s.K:]
				s.taps(func(t, r, c, xr, xc int) { sum[xr*s.W+xc] += w[t] * masked(dy, g.Y, s.at(n, o, s.O, r, c)) })
			}
			for cell, v := range sum {
				at := s.at(n, i, s.I, cell/s.W, cell%s.W)
				if g.Add != nil {
					v += g.Add[at]
				}
				if g.X != nil && g.X[at] <= 0 {
					v = 0
				}
				dx[at] = v
			}
		}
	}
}

func referenceWeightGrad(dweight, dbias, dy, x []float32, s Shape, y []float32) {
	for o := range s.O {
		for i := range s.I {
			dw := dweight[(o*s.I+i)*s.K*s.K:][:s.K*s.K]
			clear(dw)
			for n := range s.N {
				s.taps(func(t, r, c, xr, xc int) {
					dw[t] += masked(dy, y, s.at(n, o, s.O, r, c)) * x[s.at(n, i, s.I, xr, xc)]
				})
			}
		}
		dbias[o] = 0
		for n := range s.N {
			for cell := range s.H * s.W {
				dbias[o] += masked(dy, y, s.at(n, o, s.O, cell/s.W, cell%s.W))
			}
		}
	}
}

// masked is dy[at], or zero if the ReLU's output y is not positive; NaN counts as positive.
func masked(dy, y []float32, at int) float32 {
	if y != nil && y[at] <= 0 {
		return 0
	}
	return dy[at]
}
