package cpu

// Winograd's convolution (Winograd, Arithmetic complexity of computations, 1980; Lavin and Gray, Fast algorithms for convolutional neural
// networks, 2016). A 3x3 convolution with m x n outputs is a product of polynomials. Both factors are evaluated at some points and
// multiplied point by point, which needs (m+2)*(n+2) products instead of 9*m*n. For each point
//
//	products[point] = weights at the point * values at the point
//
// is a 1x1 convolution over all tiles of a block, which the path's operation computes. The weights' values at the points are computed once,
// when the network is packed. The inputs' values are computed before these products, and the outputs from them (winograd.h).
//
// A board's rows and columns are cut into tiles of 3 and 4 outputs, for example 7x6 into 4+3 and 3+3. That needs 110 products instead of
// the 304 of the direct form. The points are 0, 1, -1, 2, -2 and infinity. 3 outputs use the same points without -2, so that tiles of all
// sizes share their weights.

// points is the number of points in each direction.
const points = 6

// winograd is a path's code for the three steps of a convolution. products computes only the points from from to to-1.
type winograd struct{ in, products, out func(winogradCall) }

// winogradCall is the argument of these steps.
type winogradCall struct {
	*tiled
	positions, cells int // cells: padded cells of a position
	width            int
	src              []float32 // in: [position][cell][width]
	bias, add, dst   []float32 // out: as in conv
	weights          *layer    // products: at all points, one after the other
	from, to         int       // products: range of the points, without to
}

// winogradTile is one tile of a position. It has the memory layout of winograd_tile in C.
type winogradTile struct {
	rows, columns int32                  // number of outputs, 3 or 4 each
	in            [points * points]int32 // cell of each input, 6 in a row; a border cell if it is off the board
	out           [16]int32              // cell of each output, 4 in a row; -1 if it is off the board
	at            [points * points]int32 // slot of each point, for the block's first position
}

// tilings cuts a line of outputs into the tiles with the fewest points in all: 4 as 4, 6 as 3+3, 7 as 4+3.
func tilings(outputs int) (sizes []int) {
	best, fours := 1<<30, 0
	for n := 0; n <= (outputs+3)/4; n++ {
		threes := (max(0, outputs-4*n) + 2) / 3
		if cost := 6*n + 5*threes; cost < best {
			best, fours = cost, n
		}
	}
	for range fours {
		sizes = append(sizes, 4)
		outputs -= 4
	}
	for ; outputs > 0; outputs -= 3 {
		sizes = append(sizes, 3)
	}
	return sizes
}

// tiled describes how a scratch's boards are cut into tiles.
type tiled struct {
	positions        int // positions computed together
	tiles            []winogradTile
	each             [points * points]int32 // number of slots of a position at each point
	first            [points * points]int32 // slot of a point's first value
	slots            []int32                // 0, 1, 2 ..
	points, products []float32              // values at the points, and their products: [slot][width]
}

// newTiled cuts boards of the given size into tiles, for the memory layout of Scratch.
func newTiled(rows, columns, padded, positions, width int) *tiled {
	t := &tiled{positions: positions}
	stride := columns + 1
	top := 0
	for _, m := range tilings(rows) {
		left := 0
		for _, n := range tilings(columns) {
			tile := winogradTile{rows: int32(m), columns: int32(n)}
			for i := range points {
				for j := range points {
					r, c := top+i-1, left+j-1
					if i < m+2 && j < n+2 && r >= 0 && r < rows && c >= 0 && c < columns {
						tile.in[points*i+j] = int32((r+1)*stride + c + 1)
					}
					if (i != 4 || m == 4) && (j != 4 || n == 4) {
						tile.at[points*i+j] = t.each[points*i+j]
						t.each[points*i+j]++
					}
				}
			}
			for i := range 4 {
				for j := range 4 {
					tile.out[4*i+j] = -1
					if r, c := top+i, left+j; i < m && j < n && r < rows && c < columns {
						tile.out[4*i+j] = int32((r+1)*stride + c + 1)
					}
				}
			}
			t.tiles = append(t.tiles, tile)
			left += n
		}
		top += m
	}
	slots := 0
	for p, n := range t.each {
		t.first[p] = int32(slots)
		for i := range t.tiles {
			t.tiles[i].at[p] += int32(slots)
		}
		slots += int(n) * positions
	}
	for i := range positions * len(t.tiles) {
		t.slots = append(t.slots, int32(i))
	}
	t.points, t.products = aligned(slots*width), aligned(slots*width)
	return t
}

// products returns winograd's number of products per position, input and output.
func products(rows, columns int) (sum int) {
	for _, m := range tilings(rows) {
		for _, n := range tilings(columns) {
			sum += (m + 2) * (n + 2)
		}
	}
	return sum
}

// direct returns the number of products without winograd: all taps on the board.
func direct(rows, columns int) int { return (3*rows - 2) * (3*columns - 2) }

// pays reports whether winograd saves enough products to outweigh its other work.
func pays(rows, columns int) bool { return 5*products(rows, columns) < 3*direct(rows, columns) }

// Products returns the numbers of multiply-adds in the two 3x3 convolutions of a residual block on this path, per position, input and
// output, if no input is zero.
func (p Path) Products(rows, columns int) (first, second int) {
	k, err := p.kernel()
	if err != nil || k.winograd == nil || !pays(rows, columns) {
		return direct(rows, columns), direct(rows, columns)
	}
	if k.int8 != nil {
		return direct(rows, columns), products(rows, columns)
	}
	return products(rows, columns), products(rows, columns)
}

// atPoints evaluates the weights [out][in][9] of a 3x3 convolution at each point, and packs them as consecutive 1x1 convolutions
// without bias.
func (k *kernel) atPoints(weight []float32, out int) *layer {
	powers := [points][3]float64{{1, 0, 0}, {1, 1, 1}, {1, -1, 1}, {1, 2, 4}, {1, -2, 4}, {0, 0, 1}}
	var all *layer
	var weights []float32
	values, bias := make([]float32, len(weight)/9), make([]float32, out)
	for p := range points * points {
		var factors [9]float64
		for t := range factors {
			factors[t] = powers[p/points][t/3] * powers[p%points][t%3]
		}
		for i := range values {
			sum, of := 0.0, (*[9]float32)(weight[9*i:])
			for t, f := range factors {
				sum += f * float64(of[t])
			}
			values[i] = float32(sum)
		}
		all = k.pack(values, bias, 1)
		if p == 0 {
			weights = aligned(points * points * len(all.weights))
		}
		copy(weights[p*len(all.weights):], all.weights)
	}
	all.weights = weights
	return all
}

// winograd computes conv c for n positions from `first` on, with the weights at the points: dst = relu(add + bias + convolution of src).
func (t *Tower) winograd(s *Scratch, first, n int, weights *layer, c conv) {
	g := s.tiled
	for last := first + n; first < last; first += g.positions {
		some, from := min(g.positions, last-first), first*s.padded*c.width
		call := winogradCall{
			tiled: g, positions: some, cells: s.padded, width: c.width,
			src: c.src[from:], bias: c.bias, dst: c.dst[from:], weights: weights,
		}
		if c.add != nil {
			call.add = c.add[from:]
		}
		t.kernel.winograd.in(call)
		most := max(pieceProducts/(some*len(g.tiles)*weights.words*weights.width), 1)
		for call.from = 0; call.from < points*points; call.from = call.to {
			call.to = min(call.from+most, points*points)
			t.kernel.winograd.products(call)
		}
		t.kernel.winograd.out(call)
	}
}
