package cpu

// conv is one call of the operation that the package documentation defines. A word is one float32, or, in the same space, two
// bfloat16 (the even channel in the low half) or four bytes (int8.go).
type conv struct {
	*layer
	cells  []int32   // cells to compute, as indices into all slices below
	near   []uint16  // near[i] has bit t set if tap t of cells[i] may be non-zero; nil means all taps. Kernels may ignore it
	taps   []int32   // [taps] distances in cells
	src    []float32 // [cell][stride] words, of which the first `words` are inputs
	stride int
	add    []float32 // [cell][width], or nil; may be dst
	dst    []float32 // [cell][width] float32, or nil
	pairs  []float32 // [cell][width/2] the same in bfloat16, or nil
	relu   bool
}

// layer is the weights of a conv, packed for one kernel.
type layer struct {
	tapCount int
	words    int       // inputs per tap, in words
	width    int       // outputs, rounded up to the kernel's lanes
	weights  []float32 // [panel][tap][word][outputs of the panel]; of matrices [panel][tap][word/2][outputs of the panel][2 words]
	bias     []float32 // [width]
	scale    []float32 // [width] factors of sums of bytes; nil: words are not bytes
}

type kernel struct {
	name     Path
	bf16     bool // words are pairs of bfloat16
	lanes    int  // the number of outputs is rounded up to a multiple of this
	panel    int  // outputs per panel: lanes times a power of two
	inWords  int  // the number of words of a tap is rounded up to a multiple of this
	matrices bool // two words of a tap are multiplied at once; they are adjacent in the weights
	run      func(conv)
	tiles    bool           // multiplies tiles; positions are side by side (Scratch.standTogether)
	heads    func() kernel  // returns the float32 kernel for the heads; nil: this kernel
	pool     func(poolCall) // of heads
	winograd *winograd      // for 3x3 convolutions; nil: the path has none
	sparse   *sparse        // for inputs that are mostly zero
	int8     *int8Form      // for the first convolutions of blocks; nil: the path has no 8-bit form
	peak     func(n int)    // runs n rounds of multiply-adds in registers; nil: the path's peak is not measured
	peakMACs int            // multiply-adds per round
}

// panelWidth returns the number of outputs in the next panel. left, a multiple of the lanes, is the number of outputs not packed yet.
func (k *kernel) panelWidth(left int) int {
	w := k.panel
	for w > left {
		w /= 2
	}
	return w
}

// pack packs weights [out][in][taps] and a bias [out] into a layer.
func (k *kernel) pack(weight, bias []float32, taps int) *layer {
	out := len(bias)
	in := len(weight) / out / taps
	each := 1 // inputs per word
	if k.bf16 {
		each = 2
	}
	at := func(o, i, t int) float32 {
		if i >= in {
			return 0
		}
		return weight[(o*in+i)*taps+t]
	}
	return k.packWords(bias, taps, roundUp((in+each-1)/each, k.inWords), func(o, w, t int) float32 {
		if k.bf16 {
			return pair(at(o, 2*w, t), at(o, 2*w+1, t))
		}
		return at(o, w, t)
	})
}

// packWords packs the words that at returns for output o, input word w and tap t.
func (k *kernel) packWords(bias []float32, taps, words int, at func(o, w, t int) float32) *layer {
	l := &layer{tapCount: taps, words: words, width: roundUp(len(bias), k.lanes)}
	l.weights, l.bias = aligned(taps*l.words*l.width), aligned(l.width)
	copy(l.bias, bias)
	together := 1 // words per output
	if k.matrices {
		together = 2
	}
	next := 0
	for first := 0; first < l.width; {
		panel := k.panelWidth(l.width - first)
		for t := range taps {
			for from := 0; from < words; from += together {
				for o := first; o < first+panel; o++ {
					for w := from; w < from+together; w++ {
						if o < len(bias) {
							l.weights[next] = at(o, w, t)
						}
						next++
					}
				}
			}
		}
		first += panel
	}
	return l
}

func roundUp(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }
