package conv

import "github.com/evald/evald/kernels/cpu"

// kernels is one implementation of the functions that train.h documents: for a set of instructions, or in plain Go. A slice is nil where
// train.h has NULL.
type kernels struct {
	name      cpu.Path
	path      uintptr // value for dims.path
	sizes     func(d *dims) (scratch, weights, sums int)
	weights   func(u, weight []float32, so, si int, flip bool, i0, i1 int, d *dims)
	gradients func(dweight, sums []float32, partials, i0, i1 int, d *dims)
	forward   func(y, x, xMask, u, bias, add, yMask, scratch []float32, d *dims)
	sums      func(sums, dbias, x, dy, y, scratch []float32, d *dims)
}

// dims is train_dims of train.h.
type dims struct {
	path                          uintptr // the address of a C train_path, not Go memory; 0 for plain Go
	n, block, i, o, h, w, k, relu int32
}

// arguments are the caller's buffers, and the layout of the weights.
type arguments struct {
	y, x, xMask, bias, add, mask []float32 // y = relu(conv(x where xMask > 0) + bias + add) where mask > 0
	weight                       []float32
	so, si                       int // strides of weight by output and input channel
	flip                         bool
	dweight, dy                  []float32 // for a gradient with respect to the weights; y and x are then those of the forward pass
}

// job is the convolution in progress. The gradient with respect to the input is also a convolution, from O to I channels, with weights
// rotated by 180 degrees.
type job struct {
	*kernels
	d dims
	arguments
	part, parts int // boards per piece of work; number of partial gradients

	u, sums, dbiases buffer // transformed weights, partial gradients with respect to weights and bias
}

const (
	blockTiles   = 48      // approximate number of 2x2 tiles transformed together
	pieceBlocks  = 4       // maximum number of blocks in a piece of work
	channelSlice = 8       // input channels whose weights are transformed in one piece
	maxParts     = 16      // maximum number of partial gradients
	minPart      = 8       // minimum number of boards per partial gradient
	maxSums      = 8 << 20 // maximum number of floats in all partial gradients; limits their number if there are many channels
)

// prepare sets the pool's job to a convolution from i to o channels.
func (p *Pool) prepare(s Shape, i, o int, a arguments) {
	d := dims{path: p.kernels.path, n: int32(s.N), i: int32(i), o: int32(o), h: int32(s.H), w: int32(s.W), k: int32(s.K)}
	tiles := (s.H + 1) / 2 * ((s.W + 1) / 2)
	d.block = int32((blockTiles + tiles - 1) / tiles)
	p.job.kernels, p.job.d, p.job.arguments = p.kernels, d, a
}

// convolve runs the job and drops its references to the caller's buffers.
func (p *Pool) convolve() {
	j := &p.job
	_, size, _ := j.sizes(&j.d)
	j.u.of(size)
	p.run(channelSlices(int(j.d.i)), (*job).weightsPiece)
	// Boards are independent, so the size of a piece may depend on the number of threads.
	j.part = int(j.d.block) * max(1, min(pieceBlocks, int(j.d.n/j.d.block)/(4*len(p.workers))))
	p.run((int(j.d.n)+j.part-1)/j.part, (*job).forwardPiece)
	j.arguments = arguments{}
}

func channelSlices(channels int) int { return (channels + channelSlice - 1) / channelSlice }

func (j *job) weightsPiece(_ *worker, piece int) {
	i := piece * channelSlice
	j.weights(j.u.floats, j.weight, j.so, j.si, j.flip, i, min(i+channelSlice, int(j.d.i)), &j.d)
}

func (j *job) forwardPiece(w *worker, piece int) {
	from := piece * j.part
	to := min(from+j.part, int(j.d.n))
	in, out := int(j.d.i*j.d.h*j.d.w), int(j.d.o*j.d.h*j.d.w)
	j.kernels.forward(rows(j.y, from, to, out), rows(j.x, from, to, in), rows(j.xMask, from, to, in), j.u.floats, j.bias,
		rows(j.add, from, to, out), rows(j.mask, from, to, out), w.prepare(j, to-from), &w.d)
}

func (j *job) sumsPiece(w *worker, piece int) {
	from, to := min(piece*j.part, int(j.d.n)), min((piece+1)*j.part, int(j.d.n))
	in, out := int(j.d.i*j.d.h*j.d.w), int(j.d.o*j.d.h*j.d.w)
	_, _, each := j.sizes(&j.d)
	j.kernels.sums(rows(j.sums.floats, piece, piece+1, each), rows(j.dbiases.floats, piece, piece+1, int(j.d.o)),
		rows(j.x, from, to, in), rows(j.dy, from, to, out), rows(j.y, from, to, out), w.prepare(j, to-from), &w.d)
}

func (j *job) gradientsPiece(_ *worker, piece int) {
	i := piece * channelSlice
	j.gradients(j.dweight, j.sums.floats, j.parts, i, min(i+channelSlice, int(j.d.i)), &j.d)
}

// prepare sets w's sizes to those of the job, with n boards, and returns scratch memory for them.
func (w *worker) prepare(j *job, n int) []float32 {
	w.d = j.d
	w.d.n = int32(n)
	size, _, _ := j.sizes(&w.d)
	return w.scratch.of(size)
}

// rows returns rows from to to-1 of x, which have the given width, or nil if x is nil.
func rows(x []float32, from, to, width int) []float32 {
	if x == nil {
		return nil
	}
	return x[from*width : to*width]
}
