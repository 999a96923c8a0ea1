package cpu

// The inputs of a block's convolutions come from a relu, and many are zero: in the default network six of ten inputs of the
// first convolution, and nineteen of twenty of the second. A path that has code for it computes only the products of the
// others: it lists them, and sums for each cell and output the products of the listed inputs around it, in float32.
//
// Which form is used depends on the position alone, so that its answer does not depend on its block.

// sparse is a path's code for a 3x3 convolution of inputs that are mostly zero.
type sparse struct {
	run func(sparseCall) // dst = relu(add + bias + convolution of src) for the positions that have many zeros
	// below is the share of inputs that are not zero under which run is faster than a dense convolution, for the first and
	// the second convolution of a block. 0 is never.
	below [2]float64
	// halves: unless 0, weights are of bfloat16, two in a word (twoWeights), those of outputs that are so far apart. They take
	// half the room in the cache, on paths that round numbers anyway.
	halves int
}

// sparseLayer is the weights of a convolution for sparse.
type sparseLayer struct {
	*layer
	row  int // words of an input and a tap: weights is [in][9][row]
	full int // outputs whose weights are two in a word, a multiple of sparseStrip
}

// sparseStrip is STRIP in sparse.h.
const sparseStrip = 64

// sparseCall is the argument of sparse.run.
type sparseCall struct {
	*sparseLayer
	cells      []int32   // the cells of a position, ascending
	taps       []int32   // [9] the distances of 3x3, ascending
	near       []uint16  // for each of the cells: the taps that are on the board
	spans      []int32   // [cells][3][2] the same in another form: in each row around a cell, the first index in cells and the end
	few        int       // if a position has so many inputs that are not zero, it is not computed
	columns    int       // of the board
	padded     int       // cells from one position to the next
	src        []float32 // [position][padded cell][width]
	add        bool      // add is dst
	dst, pairs []float32 // as in conv
	nonzeros   []int32   // [positions] is set to the number of inputs that are not zero, or to few or more
	work       *sparseWork
}

// sparseWork is the memory of run. Vectors are written whole, so that there is some more at the end.
type sparseWork struct {
	values, around []float32 // the inputs of a position that are not zero, and those around one cell
	places, at     []int32   // where their weights are
	starts         []int32   // [cells+1] the first value of each cell
}

func newSparseWork(cells, width int) *sparseWork {
	all, around := (cells+1)*width, 10*width
	return &sparseWork{make([]float32, all), make([]float32, around), make([]int32, all), make([]int32, around), make([]int32, cells+1)}
}

// packSparse packs weights [out][in][9] and a bias [out]; halves is as in sparse.
func (k *kernel) packSparse(weight, bias []float32, halves int) *sparseLayer {
	rows := len(weight) / len(bias) // an input and a tap each
	width := roundUp(len(bias), k.lanes)
	l := &sparseLayer{&layer{tapCount: 9, words: rows / 9, width: width, bias: aligned(width)}, width, 0}
	copy(l.bias, bias)
	if halves > 0 {
		l.full = width / sparseStrip * sparseStrip
		l.row -= l.full / 2
	}
	l.weights = aligned(rows * l.row)
	for i := range rows {
		at := func(o int) float32 {
			if o < len(bias) {
				return weight[o*rows+i]
			}
			return 0
		}
		row := l.weights[i*l.row:][:l.row]
		for o := range l.full / 2 {
			low := o/halves*2*halves + o%halves
			row[o] = twoWeights(at(low), at(low+halves))
		}
		for o := l.full; o < width; o++ {
			row[o-l.full/2] = at(o)
		}
	}
	return l
}

// sparsePiece is the number of positions in a call: a call of C that takes long costs Go a change of threads.
const sparsePiece = 6

// convolveSparse computes convolution `which` of a block, 0 or 1, of x, for those of n positions that have many zeros in x,
// and returns the others. c says what is done with the sums; its add is nil or dst.
func (t *Tower) convolveSparse(s *Scratch, n int, l block, which int, c conv, x []float32) (dense []int32) {
	k := t.kernel.sparse
	if k == nil || k.below[which] == 0 {
		return s.each[:n]
	}
	call := sparseCall{
		sparseLayer: l.sparse, cells: s.index[:s.cells], taps: s.taps, near: s.near, spans: s.spans, columns: s.columns, padded: s.padded,
		few: int(k.below[which] * float64(s.cells*t.channels)), add: c.add != nil, work: s.work,
	}
	for i := 0; i < n; i += sparsePiece {
		at := i * s.padded * call.width
		call.src, call.dst, call.nonzeros = x[at:], c.dst[at:], s.nonzeros[i:min(i+sparsePiece, n)]
		if c.pairs != nil {
			call.pairs = c.pairs[at/2:]
		}
		k.run(call)
	}
	s.dense = s.dense[:0]
	for i, nonzeros := range s.nonzeros[:n] {
		if int(nonzeros) >= call.few {
			s.dense = append(s.dense, int32(i))
		}
	}
	return s.dense
}

func sparseGo(s sparseCall) {
	for i := range s.nonzeros {
		one := s
		one.src, one.dst, one.nonzeros = s.src[i*s.padded*s.width:], s.dst[i*s.padded*s.width:], s.nonzeros[i:]
		sparsePositionGo(one)
	}
}

// sparsePositionGo adds the products of each input to all cells around it.
func sparsePositionGo(s sparseCall) {
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
