package cpu

import "math"

// The first convolutions of blocks can have inputs and weights of 8 bits. Their inputs are the residual stream after a relu, so none is
// negative. A channel's values from 0 to its range (Network.Ranges) are represented by the numbers 0 to 255. The excess of a value beyond
// its range is multiplied in float32 and added. So no value is clipped, and ranges can be so small that a few values of a position exceed
// them. Weights are multiplied by their inputs' steps; then those of each output are represented by the numbers -127 to 127. Sums are of
// int32 and exact. Everything else, including the residual stream, is computed as on the path without 8 bits.
//
// RoundInt8 rounds a network's weights to values that these numbers represent. After that, only inputs are rounded.

// int8Form is a path's implementation of the 8-bit convolution. A word is four bytes.
type int8Form struct {
	quantize func(quantizeCall)
	halves   int        // of the weights for the excess; see sparse.halves
	run      func(conv) // dst = relu(add + bias + scale * convolution of src)
	peak     func(n int)
	peakMACs int
}

// quantizeCall is the argument of int8Form.quantize. For some cells, quantize sets dst to src * each, rounded to the nearest of 0 to 255
// (ties to even), and sums to the convolution of src's excess beyond the ranges.
type quantizeCall struct {
	*int8Layer
	cells []int32   // of one position after another
	taps  []int32   // [9]
	near  []uint16  // for each cell of a position: the taps that are on the board
	src   []float32 // [cell][width]
	dst   []float32 // [cell][words]
	sums  []float32 // [cell][width]
}

// int8Layer is the weights of a convolution for int8Form.
type int8Layer struct {
	*layer
	each, ranges []float32    // [width] for the inputs: factors from values to numbers, and the values of number 255
	excess       *sparseLayer // the weights for the excess
}

// largestInput and largestWeight are the largest numbers for an input and a weight.
const (
	largestInput  = 255
	largestWeight = 127
)

// int8Steps returns the steps of each output's weights [out][in][taps], in units of the inputs' steps.
func int8Steps(weight []float32, outputs int, ranges []float32) []float32 {
	s := make([]float32, outputs)
	size := len(weight) / outputs
	taps := size / len(ranges)
	for o := range s {
		for i, w := range weight[o*size : (o+1)*size] {
			s[o] = max(s[o], float32(math.Abs(float64(w*ranges[i/taps]/largestInput))))
		}
		s[o] /= largestWeight
	}
	return s
}

// int8Number returns the number for weight w, whose input has range r and whose output has the given step.
func int8Number(w, r, step float32) int8 {
	if step == 0 {
		return 0
	}
	return int8(math.RoundToEven(float64(w) * float64(r) / largestInput / float64(step)))
}

// RoundInt8 rounds each weight [out][in][taps] of a first convolution to the nearest value that 8 bits can represent, for inputs
// with these ranges [in].
func RoundInt8(weight []float32, outputs int, ranges []float32) {
	size := len(weight) / outputs
	taps := size / len(ranges)
	for o, step := range int8Steps(weight, outputs, ranges) {
		for i := range size {
			r, w := ranges[i/taps], &weight[o*size+i]
			*w = float32(float64(int8Number(*w, r, step)) * float64(step) * largestInput / float64(r))
		}
	}
}

// int8Words returns the number of words for width bytes.
func (k *kernel) int8Words(width int) int { return roundUp((width+3)/4, k.inWords) }

// packInt8 packs the weights of a 3x3 convolution.
func (k *kernel) packInt8(a Affine, ranges []float32) *int8Layer {
	out, in := len(a.Bias), len(ranges)
	scale := int8Steps(a.Weight, out, ranges)
	width := roundUp(in, k.lanes)
	l := k.packWords(a.Bias, 9, k.int8Words(width), func(o, w, t int) float32 {
		var bytes uint32
		for i := 4 * w; i < min(4*w+4, in); i++ {
			bytes |= uint32(uint8(int8Number(a.Weight[(o*in+i)*9+t], ranges[i], scale[o]))) << (i % 4 * 8)
		}
		return math.Float32frombits(bytes)
	})
	l.scale = aligned(l.width)
	copy(l.scale, scale)
	q := &int8Layer{l, aligned(width), aligned(width), k.packSparse(a.Weight, a.Bias, k.int8.halves)}
	for i, r := range ranges {
		q.each[i], q.ranges[i] = largestInput/r, r
	}
	return q
}

// convolveInt8 computes the first convolution of a block for n positions.
func (t *Tower) convolveInt8(s *Scratch, n int, l *int8Layer) {
	call := quantizeCall{int8Layer: l, taps: s.taps, near: s.near, src: s.x, dst: s.bytes, sums: s.mid}
	for i := 0; i < n; i += quantizePiece {
		call.cells = s.index[i*s.cells : min(i+quantizePiece, n)*s.cells]
		t.kernel.int8.quantize(call)
	}
	c := conv{layer: l.layer, taps: s.taps, src: s.bytes, stride: l.words, add: s.mid, dst: s.mid, pairs: s.midPairs, relu: true}
	t.eachPiece(c, &s.all, t.kernel.int8.run)
}

// quantizePiece is the number of positions per call; see sparsePiece.
const quantizePiece = 6

// int8Go is the implementation with which the tests compare all others.
var int8Go = int8Form{quantize: quantizeGo, run: convInt8Go}

func quantizeGo(q quantizeCall) {
	for _, cell := range q.cells {
		clear(q.sums[int(cell)*q.width:][:q.width])
	}
	for m, cell := range q.cells {
		for i, each := range q.each {
			x, number := q.src[int(cell)*q.width+i], uint32(largestInput)
			if y := math.RoundToEven(float64(x * each)); y < largestInput {
				number = uint32(y)
			}
			word, shift := &q.dst[int(cell)*q.words+i/4], i%4*8
			*word = math.Float32frombits(math.Float32bits(*word)&^(0xff<<shift) | number<<shift)
			if x <= q.ranges[i] {
				continue
			}
			for t, tap := range q.taps {
				if q.near[m%len(q.near)]>>t&1 == 0 {
					continue
				}
				// If the output is at tap t from the input, the input is at tap 8 - t from the output.
				sums := q.sums[int(cell+tap)*q.width:][:q.width]
				for o, w := range q.excess.weights[(9*i+8-t)*q.width:][:q.width] {
					sums[o] += (x - q.ranges[i]) * w
				}
			}
		}
	}
}

func convInt8Go(c conv) {
	size := c.tapCount * c.words // per output
	for m, cell := range c.cells {
		for o := 0; o < c.width; o += 2 {
			var sums [2]int32
			w := c.weights[o*size:][:2*size]
			for t, tap := range c.taps {
				if c.near != nil && c.near[m]>>t&1 == 0 {
					continue
				}
				for i, x := range c.src[int(cell+tap)*c.stride:][:c.words] {
					for j := range sums {
						sums[j] += dotInt8(x, w[(t*c.words+i)*2+j])
					}
				}
			}
			c.store(int(cell)*c.width+o, [2]float32{c.fromInt8(o, sums[0]), c.fromInt8(o+1, sums[1])})
		}
	}
}

// fromInt8 returns output o for its sum.
func (l *layer) fromInt8(o int, sum int32) float32 {
	return float32(float64(l.bias[o]) + float64(float32(sum))*float64(l.scale[o]))
}

func dotInt8(x, w float32) (sum int32) {
	a, b := math.Float32bits(x), math.Float32bits(w)
	for shift := 0; shift < 32; shift += 8 {
		sum += int32(uint8(a>>shift)) * int32(int8(b>>shift))
	}
	return sum
}
