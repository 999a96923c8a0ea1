package pattern

import (
	"fmt"
	"slices"
)

// Layer is a dense layer.
type Layer struct {
	Weight []int8  // [out, in]
	Bias   []int32 // [out]
}

// Weights are a network's numbers.
type Weights struct {
	Lanes int      // width of a row: a multiple of 32, from 64 to MaxLanes
	Bias  []int16  // [Lanes]
	Table []int16  // [rows, Lanes]
	Dense [3]Layer // (Lanes-Outputs)/2 -> H1 -> H2 -> Outputs
}

// MaxLanes and MaxHidden are the maximum widths of a row and of a hidden layer.
const (
	MaxLanes  = 1024
	MaxHidden = 256
)

// Rows returns the number of rows of the table.
func (w *Weights) Rows() int { return len(w.Table) / w.Lanes }

// Sizes returns the widths of the inputs of the dense layers, and then the width of the output.
func (w *Weights) Sizes() [4]int {
	return [4]int{(w.Lanes - Outputs) / 2, len(w.Dense[0].Bias), len(w.Dense[1].Bias), len(w.Dense[2].Bias)}
}

// CheckShape returns an error that names a width out of range.
func CheckShape(lanes, h1, h2 int) error {
	if lanes%32 != 0 || lanes < 64 || lanes > MaxLanes {
		return fmt.Errorf("lanes is %d, must be a multiple of 32 from 64 to %d", lanes, MaxLanes)
	}
	for i, h := range [2]int{h1, h2} {
		if h%16 != 0 || h < 16 || h > MaxHidden {
			return fmt.Errorf("hidden layer %d has %d outputs, must be a multiple of 16 up to %d", i+1, h, MaxHidden)
		}
	}
	return nil
}

// Check returns an error that names a part that has a wrong size or whose sums might overflow. groups contains the first row of each group
// of the table, and then the number of rows; a position has at most one row of each group.
func (w *Weights) Check(groups []int32) error {
	sizes := w.Sizes()
	if err := CheckShape(w.Lanes, sizes[1], sizes[2]); err != nil {
		return fmt.Errorf("pattern network: %w", err)
	}
	if len(w.Bias) != w.Lanes {
		return fmt.Errorf("pattern network: bias has %d lanes, want %d", len(w.Bias), w.Lanes)
	}
	rows := int(groups[len(groups)-1])
	if len(w.Table) != rows*w.Lanes {
		return fmt.Errorf("pattern network: table has %d numbers, want %d rows of %d lanes", len(w.Table), rows, w.Lanes)
	}
	if sizes[3] != Outputs {
		return fmt.Errorf("pattern network: %d outputs, want %d", sizes[3], Outputs)
	}
	for i, l := range w.Dense {
		if len(l.Weight) != sizes[i]*sizes[i+1] {
			return fmt.Errorf("pattern network: layer %d has %d weights, want %d x %d", i+1, len(l.Weight), sizes[i+1], sizes[i])
		}
		for _, b := range l.Bias {
			if b < -maxBias || b > maxBias {
				return fmt.Errorf("pattern network: layer %d has bias %d, must be within %d", i+1, b, maxBias)
			}
		}
	}
	return w.checkSums(groups)
}

// maxBias leaves room in an int32 for the products of a layer: 512 inputs of 127 * 128, and 32 times an int16.
const maxBias = 1 << 30

// checkSums checks that no accumulator can overflow int16, for any choice of one row per group.
func (w *Weights) checkSums(groups []int32) error {
	low, high := make([]int, w.Lanes), make([]int, w.Lanes)
	for lane, x := range w.Bias {
		low[lane], high[lane] = int(x), int(x)
	}
	least, most := make([]int16, w.Lanes), make([]int16, w.Lanes) // of a group
	for g := range len(groups) - 1 {
		clear(least)
		clear(most)
		for row := range slices.Chunk(w.Table[int(groups[g])*w.Lanes:int(groups[g+1])*w.Lanes], w.Lanes) {
			for lane, x := range row {
				least[lane], most[lane] = min(least[lane], x), max(most[lane], x)
			}
		}
		for lane := range w.Lanes {
			low[lane], high[lane] = low[lane]+int(least[lane]), high[lane]+int(most[lane])
		}
	}
	for lane := range w.Lanes {
		if low[lane] < -1<<15 || high[lane] > 1<<15-1 {
			return fmt.Errorf("pattern network: sums of lane %d reach from %d to %d, beyond int16: train it with smaller weights", lane, low[lane], high[lane])
		}
	}
	return nil
}

// Net is a network packed for a path. It is safe for concurrent use.
type Net struct {
	path  path
	lanes int
	table []int16
	bias  []int16
	dense [3]packed
}

// packed is a layer with weights [in/4, out, 4]. The number of inputs is padded with zeros to a multiple of four.
type packed struct {
	in, out int // in is a multiple of 4
	weight  []int8
	bias    []int32
}

func pack(l Layer, in int) packed {
	out := len(l.Bias)
	p := packed{in: (in + 3) &^ 3, out: out, bias: slices.Clone(l.Bias)}
	p.weight = make([]int8, p.in*out)
	for o := range out {
		for i := range in {
			p.weight[i/4*4*out+4*o+i%4] = l.Weight[o*in+i]
		}
	}
	return p
}

// New packs weights for a path. They must have passed Check. The Net keeps their Table and Bias.
func New(w *Weights, p Path) (*Net, error) {
	k, err := p.find()
	if err != nil {
		return nil, err
	}
	sizes := w.Sizes()
	n := &Net{path: k, lanes: w.Lanes, table: w.Table, bias: w.Bias}
	for i, in := range sizes[:3] {
		n.dense[i] = pack(w.Dense[i], in)
	}
	return n, nil
}

// Path returns the path that the network was packed for.
func (n *Net) Path() Path { return n.path.name }

// Forward computes the results of N positions, out [N, Outputs], from their table rows, rows [N, each]. All rows must be valid.
func (n *Net) Forward(rows []int32, each int, out []int32) {
	if len(rows) > 0 {
		n.path.forward(n, rows, each, out)
	}
}
