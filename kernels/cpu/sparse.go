package cpu

// The inputs of a block's convolutions come from a relu, and many are zero: in the default network six of ten inputs of the
// first convolution, and nineteen of twenty of the second. A path that has code for it computes only the products of the
// others, in float32, input by input: it adds an input's products to the outputs of all cells around it. An output is summed
// in the same order as in a dense convolution, but begins with add.
//
// Which form is used depends on the position alone, so that its answer does not depend on its block.

// sparse is a path's code for a 3x3 convolution of inputs that are mostly zero.
type sparse struct {
	run func(sparseCall) // dst = relu(add + bias + convolution of src) for one position, if it has many zeros
	// below is the share of inputs that are not zero under which run is faster than a dense convolution, for the first and
	// the second convolution of a block. 0 is never.
	below [2]float64
}

// sparseCall is the argument of sparse.run.
type sparseCall struct {
	*layer               // from packSparse
	cells, taps []int32  // the cells of a position, and the distances of 3x3, both ascending
	near        []uint16 // for each of the cells: the taps that are on the board
	few         int      // if so many inputs are not zero, nothing is computed
	src         []float32
	add         bool      // add is dst
	dst, pairs  []float32 // as in conv
	nonzeros    []int32   // [1] is set to the number of inputs that are not zero
}

// packSparse packs weights [out][in][9] and a bias [out] as [in][9][width] and [width].
func (k *kernel) packSparse(weight, bias []float32) *layer {
	rows := len(weight) / len(bias) // an input and a tap each
	l := &layer{tapCount: 9, words: rows / 9, width: roundUp(len(bias), k.lanes)}
	l.weights, l.bias = aligned(rows*l.width), aligned(l.width)
	copy(l.bias, bias)
	for o := range bias {
		for i := range rows {
			l.weights[i*l.width+o] = weight[o*rows+i]
		}
	}
	return l
}

// convolveSparse computes convolution `which` of a block, 0 or 1, of x, for those of n positions that have many zeros in x,
// and returns the others. c says what is done with the sums; its add is nil or dst.
func (t *Tower) convolveSparse(s *Scratch, n int, l block, which int, c conv, x []float32) (dense []int32) {
	k := t.kernel.sparse
	if k == nil || k.below[which] == 0 {
		return s.each[:n]
	}
	call := sparseCall{
		layer: l.sparse, cells: s.index[:s.cells], taps: s.taps, near: s.near, few: int(k.below[which] * float64(s.cells*t.channels)),
		add: c.add != nil, nonzeros: s.nonzeros,
	}
	s.dense = s.dense[:0]
	for i := range n { // one call each: a call of C that takes long costs Go a change of threads
		at := i * s.padded * call.width
		call.src, call.dst = x[at:], c.dst[at:]
		if c.pairs != nil {
			call.pairs = c.pairs[at/2:]
		}
		if k.run(call); int(s.nonzeros[0]) >= call.few {
			s.dense = append(s.dense, int32(i))
		}
	}
	return s.dense
}

func sparseGo(s sparseCall) {
	n := 0
	for _, cell := range s.cells {
		for _, x := range s.src[int(cell)*s.width:][:s.width] {
			if x != 0 {
				n++
			}
		}
	}
	if s.nonzeros[0] = int32(n); n >= s.few {
		return
	}
	for _, cell := range s.cells {
		y := s.dst[int(cell)*s.width:][:s.width]
		if !s.add {
			clear(y)
		}
		for o, b := range s.bias {
			y[o] += b
		}
	}
	for m, cell := range s.cells {
		for i, x := range s.src[int(cell)*s.width:][:s.words] {
			if x == 0 {
				continue
			}
			for t, tap := range s.taps {
				if s.near[m]>>t&1 == 0 {
					continue
				}
				// If the output is at tap t from the input, the input is at tap 8 - t from the output.
				y := s.dst[int(cell+tap)*s.width:][:s.width]
				for o, w := range s.weights[(9*i+8-t)*s.width:][:len(y)] {
					y[o] += x * w
				}
			}
		}
	}
	for _, cell := range s.cells {
		y := s.dst[int(cell)*s.width:][:s.width]
		for o, v := range y {
			if v < 0 {
				y[o] = 0
			}
		}
	}
}
