package cpu

// Scratch is the memory for evaluating blocks of positions of one board size. Only one goroutine may use it at a time.
type Scratch struct {
	Positions int // maximum number of positions in a block

	// The answers for the last block: logits for the side to move.
	WDL      []float32 // [n,3] win, draw, loss
	GameOver []float32 // [n,4] not over, own win, other's win, draw
	Cells    []float32 // [n,H*W] logits of landing in each cell, top row first

	// Trace, if not nil, is called with each layer's output, position by position, with the names and shapes of Network.Trace in nn/net.
	// The values are valid during the call only.
	Trace func(layer string, position int, values []float32)

	rows, columns, cells, padded int // of one position

	together int         // number of positions side by side; 1 means one after another
	index    []int32     // [Positions*cells] the padded cell of each cell, top row first
	near     []uint16    // [cells] has bit t set if tap t of the cell is on the board
	all      order       // cells of the last block
	some     order       // cells of the last dense convolution
	work     *sparseWork // nil if the path has no sparse form
	nonzeros []int32     // [Positions] numbers of non-zero inputs, from sparse
	dense    []int32     // positions of the last convolution that sparse did not compute
	spans    []int32     // [cells][3][2] for each row around a cell, the first index in cells and the end (sparseCall)
	taps     []int32     // [9] distances from a cell to its 3x3 neighbourhood, in the order of a kernel's elements
	here     []int32     // [1] the only tap of a 1x1 convolution: 0
	each     []int32     // [Positions] 0, 1, 2 ..: the "cells" of layers with one value per position

	planes   []float32 // [Positions*padded][stem.words]
	x        []float32 // [Positions*padded][width] the residual stream
	pairs    []float32 // [Positions*padded][width/2] the same in bfloat16; nil if the path does not use it
	mid      []float32 // [Positions*padded][width] between the two convolutions of a block; nil if only midPairs is read
	bytes    []float32 // [Positions*padded][words] the input of a first convolution in bytes; nil if the path does not use it
	midPairs []float32 // [Positions*padded][width/2] the same in bfloat16; nil if the path does not use it
	head     []float32 // [Positions*padded][conv.width] outputs of value.conv and policy.conv
	logits   []float32 // [Positions*padded][policyLogits.width]
	tiled    *tiled    // nil if convolutions are computed directly
	pool     []float32 // [Positions][2V]
	hidden   []float32 // [Positions][fc.width]
	out      []float32 // [Positions][out.width]
}

// slack is the number of cells after the last one that kernels may read, because they process cells in runs.
const slack = 40

// blockBytes is the approximate size of a block's activations. Together with a layer's weights they fit into a second-level cache.
const blockBytes = 400 << 10

// group is the number of positions that arrange computes together: a multiple of the cells of every kernel's tile.
const group = 6

// tiledPositions is the number of positions that winograd computes together. Their values, their products and a layer's weights fit into a
// second-level cache. It is a multiple of the cells of every kernel's tile.
const tiledPositions = 6

// tileRows is the number of cells in a tile, and of positions in a block of a kernel that multiplies tiles.
const tileRows = 16

// Block returns the number of positions that are computed together on boards of the given size.
func (t *Tower) Block(rows, columns int) int {
	if t.kernel.tiles {
		return tileRows
	}
	padded := (rows+2)*(columns+1) + 1
	return min(max(blockBytes/(2*4*padded*t.stem.width)/group, 1), 2) * group
}

// NewScratch allocates memory for boards of the given size.
func (t *Tower) NewScratch(rows, columns int) *Scratch {
	s := &Scratch{rows: rows, columns: columns, cells: rows * columns, padded: (rows+2)*(columns+1) + 1}
	width := t.stem.width
	n := t.Block(rows, columns)
	s.Positions = n
	s.WDL, s.GameOver = make([]float32, n*t.wdls), make([]float32, n*t.gameOvers)
	s.Cells = make([]float32, n*s.cells)

	for i := range n {
		s.each = append(s.each, int32(i))
	}
	s.here = []int32{0}
	for _, o := range []*order{&s.all, &s.some} {
		o.cells, o.near = make([]int32, 0, n*s.cells), make([]uint16, 0, n*s.cells)
	}
	s.dense = make([]int32, 0, n)

	all := n*s.padded + slack
	s.planes, s.x = aligned(all*t.stem.words), aligned(all*width)
	if !t.kernel.bf16 || t.kernel.sparse != nil || t.kernel.int8 != nil {
		s.mid = aligned(all * width)
	}
	s.layOut(1)
	s.nonzeros = make([]int32, n)
	if t.kernel.sparse != nil {
		s.work = newSparseWork(s.cells, width)
	}
	for cell := range s.cells {
		s.near = append(s.near, s.nearOf(cell))
		row, column := cell/columns, cell%columns
		for r := row - 1; r <= row+1; r++ {
			first, end := r*columns+max(column-1, 0), r*columns+min(column+2, columns)
			if r < 0 || r >= rows {
				first, end = 0, 0
			}
			s.spans = append(s.spans, int32(first), int32(end))
		}
	}
	if t.kernel.bf16 {
		s.pairs, s.midPairs = aligned(all*width/2), aligned(all*width/2)
	}
	if t.kernel.int8 != nil {
		s.bytes = aligned(all * t.kernel.int8Words(width))
	}
	if t.kernel.winograd != nil && pays(rows, columns) {
		s.tiled = newTiled(rows, columns, s.padded, tiledPositions, width)
	}
	s.head, s.logits = aligned(all*t.conv.width), aligned(all*t.policyLogits.width)
	s.pool, s.hidden, s.out = aligned(n*t.fc.words), aligned(n*t.fc.width), aligned(n*t.out.width)
	return s
}

// Fits reports whether the scratch is for boards of the given size.
func (s *Scratch) Fits(rows, columns int) bool { return s.rows == rows && s.columns == columns }

// order is the cells of a block in the order in which the kernel computes them.
type order struct {
	cells []int32  // padded cells
	near  []uint16 // for each cell, the taps on the board; see conv.near. nil: unknown
}

// layOut computes the indices of all cells, with `together` positions side by side in each padded cell, and the distances of taps.
func (s *Scratch) layOut(together int) {
	s.together = together
	s.index, s.taps = s.index[:0], s.taps[:0]
	stride := s.columns + 1
	for i := range s.Positions {
		first := i / together * s.padded * together
		for r := range s.rows {
			for c := range s.columns {
				s.index = append(s.index, int32(first+((r+1)*stride+c+1)*together+i%together))
			}
		}
	}
	for r := -1; r <= 1; r++ {
		for c := -1; c <= 1; c++ {
			s.taps = append(s.taps, int32((r*stride+c)*together))
		}
	}
}

// standTogether lays out a block of n positions side by side. It clears all values, because those off the board must be zero.
func (s *Scratch) standTogether(n int) {
	s.layOut(n)
	for _, x := range [][]float32{s.planes, s.pairs, s.midPairs} {
		clear(x)
	}
}

// arrange orders cells so that a kernel's tile contains cells with the same neighbours: the same cell of each position of a group.
// Positions that do not fill a group are ordered column by column. Then a whole tile can skip its taps off the board (a fifth of all
// products on 7x6).
func (s *Scratch) arrange(o *order, positions []int32, tiles bool) {
	o.cells, o.near = o.cells[:0], o.near[:0]
	if tiles {
		s.arrangeTiles(o, len(positions))
		return
	}
	grouped := len(positions) / group * group
	for first := 0; first < grouped; first += group {
		for cell := range s.cells {
			for _, i := range positions[first : first+group] {
				s.place(o, int(i), cell)
			}
		}
	}
	for _, i := range positions[grouped:] {
		for c := range s.columns {
			for r := range s.rows {
				s.place(o, int(i), r*s.columns+c)
			}
		}
	}
}

// arrangeTiles orders the cells of n positions that are side by side. If these nearly fill a tile, the rows of a tile are one cell of all
// positions, and the next tile is the cell below, because nearly all pairs of cells then share their taps. With fewer positions, a tile
// also contains the next cells of the row.
func (s *Scratch) arrangeTiles(o *order, n int) {
	const enough = tileRows * 3 / 4
	for m := range s.cells {
		cell := m
		if n >= enough {
			cell = m%s.rows*s.columns + m/s.rows
		}
		for i := range n {
			s.place(o, i, cell)
		}
	}
}

// place appends a cell of a position to the order.
func (s *Scratch) place(o *order, position, cell int) {
	o.cells = append(o.cells, s.index[position*s.cells+cell])
	o.near = append(o.near, s.near[cell])
}

// nearOf returns a mask with bit t set if tap t of the cell is on the board.
func (s *Scratch) nearOf(cell int) (near uint16) {
	row, column := cell/s.columns, cell%s.columns
	for t := range 9 {
		r, c := row+t/3-1, column+t%3-1
		if r >= 0 && r < s.rows && c >= 0 && c < s.columns {
			near |= 1 << t
		}
	}
	return near
}

// load copies the planes [n,planes,H,W] into s.planes.
func (s *Scratch) load(t *Tower, planes []float32, n int) {
	words, count := t.stem.words, t.planes
	for i := range n {
		of := planes[i*count*s.cells : (i+1)*count*s.cells]
		for cell, padded := range s.index[i*s.cells : (i+1)*s.cells] {
			x := s.planes[int(padded)*words : (int(padded)+1)*words]
			if !t.kernel.bf16 {
				for p := range count {
					x[p] = of[p*s.cells+cell]
				}
				continue
			}
			for p := 0; p < count; p += 2 {
				high := float32(0)
				if p+1 < count {
					high = of[(p+1)*s.cells+cell]
				}
				x[p/2] = pair(of[p*s.cells+cell], high)
			}
		}
	}
}

// show calls Trace with the channels from from to from+channels-1 of x [padded][width], as [channels,H,W].
func (s *Scratch) show(layer string, n int, x []float32, width, from, channels int) {
	if s.Trace == nil {
		return
	}
	values := make([]float32, channels*s.cells)
	for i := range n {
		for cell, padded := range s.index[i*s.cells : (i+1)*s.cells] {
			for c := range channels {
				values[c*s.cells+cell] = x[int(padded)*width+from+c]
			}
		}
		s.Trace(layer, i, values)
	}
}

// showRows calls Trace with the first count values of each row of x [n][width].
func (s *Scratch) showRows(layer string, n int, x []float32, width, count int) {
	if s.Trace == nil {
		return
	}
	for i := range n {
		s.Trace(layer, i, x[i*width:i*width+count])
	}
}
