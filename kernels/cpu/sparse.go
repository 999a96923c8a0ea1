package cpu

// The inputs of a block's convolutions come from a relu, and many are zero: in the default network 60% of the first convolution's inputs
// and 95% of the second's. A path with a sparse form lists the other inputs. For each cell and output, it sums the products of the listed
// inputs around the cell, in float32.
//
// Which form computes a position depends only on the position, so that its answer does not depend on its block.

// sparse is a path's implementation of a 3x3 convolution whose inputs are mostly zero.
type sparse struct {
	run func(sparseCall) // dst = relu(add + bias + convolution of src) for the positions with many zeros
	// below is the share of non-zero inputs below which run is faster than a dense convolution, for a block's first and second convolution.
	// 0 means that run is never used.
	below [2]float64
	// halves, if not 0, means that weights are bfloat16. Two weights, whose outputs have this distance, share a word (twoWeights). So
	// weights take half the space in the cache, on paths that round numbers anyway.
	halves int
}

type sparseLayer struct {
	*layer
	row  int // words per input and tap: weights is [in][9][row]
	full int // outputs with two weights per word, a multiple of sparseStrip
}

// sparseStrip is STRIP in sparse.h.
const sparseStrip = 64

type sparseCall struct {
	*sparseLayer
	cells      []int32   // the cells of a position, ascending
	taps       []int32   // [9] the distances of 3x3, ascending
	near       []uint16  // for each of the cells: the taps that are on the board
	spans      []int32   // [cells][3][2] for each row around a cell, the first index in cells and the end: the same taps as near
	few        int       // run does not compute positions with this many or more non-zero inputs
	columns    int       // of the board
	padded     int       // cells from one position to the next
	src        []float32 // [position][padded cell][width]
	add        bool      // add is dst
	dst, pairs []float32 // as in conv
	nonzeros   []int32   // [positions] output: the number of non-zero inputs, or few or more
	work       *sparseWork
}

// sparseWork is run's memory. Because run writes whole vectors, it has some spare elements at the end.
type sparseWork struct {
	values, around []float32 // the non-zero inputs of a position, and those around one cell
	places, at     []int32   // offsets of their weights
	starts         []int32   // [cells+1] the first value of each cell
}

func newSparseWork(cells, width int) *sparseWork {
	all, around := (cells+1)*width, 10*width
	return &sparseWork{make([]float32, all), make([]float32, around), make([]int32, all), make([]int32, around), make([]int32, cells+1)}
}

// packSparse packs weights [out][in][9] and a bias [out]; halves is as in sparse.
func (k *kernel) packSparse(weight, bias []float32, halves int) *sparseLayer {
	rows := len(weight) / len(bias) // one row for each input and tap
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

// sparsePiece is the number of positions per call. It is small because Go gives the processor to another thread during a long C call.
const sparsePiece = 6

// convolveSparse computes convolution `which` of a block, 0 or 1, with input x, for those of n positions with many zeros in x, and returns
// the other positions. c is the rest of the operation; its add is nil or dst.
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
