package pattern

import (
	"math"

	kernel "github.com/evald/evald/kernels/cpu/pattern"
)

// Real is a network with real numbers, as in training. The weights of its layers are ordered by input, unlike those of a Network.
type Real struct {
	Lanes int
	Bias  []float32 // [Lanes]
	Table []float32 // [RowCount(), Lanes]
	Dense [3]RealLayer
}

// RealLayer is a dense layer.
type RealLayer struct {
	Weight []float32 // [in, out]
	Bias   []float32 // [out]
}

// The integers that represent a weight of 1, by layer. Package kernels/cpu/pattern defines them.
var weightUnits = [3]float64{64, 64, 32}

const (
	laneUnit  = 255 // represents 1 in a lane that is an input of the layers
	extraUnit = 127 // represents 1 in the last lanes, which are added to the results
	layerUnit = 127 // represents 1 in a layer's output
)

// MaxWeight is the largest weight of a layer that an integer can represent.
func MaxWeight(layer int) float32 { return float32(127 / weightUnits[layer]) }

// Round converts the network to integers. The numbers of a table row become bytes times a factor: the smallest factor, from step on, for
// which all bytes fit. A larger step makes the compressed file smaller. The error names values that do not fit.
func (r *Real) Round(step int) (*Network, error) {
	w := kernel.Weights{Lanes: r.Lanes, Bias: make([]int16, r.Lanes), Table: make([]int16, len(r.Table))}
	for i, x := range r.Bias {
		w.Bias[i] = int16(whole(float64(x)*r.unit(i), math.MaxInt16))
	}
	for row := range len(r.Table) / r.Lanes {
		from := r.Table[row*r.Lanes : (row+1)*r.Lanes]
		most := 0.0
		for i, x := range from {
			most = max(most, math.Abs(float64(x)*r.unit(i)))
		}
		factor := min(max(float64(step), math.Ceil(most/127)), maxFactor)
		for i, x := range from {
			w.Table[row*r.Lanes+i] = int16(factor * whole(float64(x)*r.unit(i)/factor, 127))
		}
	}
	for k, l := range r.Dense {
		out := len(l.Bias)
		in := len(l.Weight) / out
		d := kernel.Layer{Weight: make([]int8, len(l.Weight)), Bias: make([]int32, out)}
		for o := range out {
			for i := range in {
				d.Weight[o*in+i] = int8(whole(float64(l.Weight[i*out+o])*weightUnits[k], 127))
			}
			d.Bias[o] = int32(whole(float64(l.Bias[o])*layerUnit*weightUnits[k], 1<<29))
			if k < 2 {
				d.Bias[o] += int32(weightUnits[k] / 2) // the kernel's shift rounds down
			}
		}
		w.Dense[k] = d
	}
	return New(w)
}

// unit returns the integer that represents 1 at index i of one or several consecutive rows.
func (r *Real) unit(i int) float64 {
	if i%r.Lanes < r.Lanes-kernel.Outputs {
		return laneUnit
	}
	return extraUnit
}

// whole returns x rounded to a whole number from -most to most.
func whole(x, most float64) float64 { return min(max(math.Round(x), -most), most) }

// Real converts the network to real numbers. If the rows fit into bytes, rounding them with step 1 restores the network.
func (n *Network) Real() *Real {
	w := &n.Weights
	r := &Real{Lanes: w.Lanes, Bias: make([]float32, w.Lanes), Table: make([]float32, len(w.Table))}
	for i, x := range w.Bias {
		r.Bias[i] = float32(x) / float32(r.unit(i))
	}
	for i, x := range w.Table {
		r.Table[i] = float32(x) / float32(r.unit(i))
	}
	for k, d := range w.Dense {
		out := len(d.Bias)
		in := len(d.Weight) / out
		l := RealLayer{Weight: make([]float32, len(d.Weight)), Bias: make([]float32, out)}
		for o := range out {
			for i := range in {
				l.Weight[i*out+o] = float32(float64(d.Weight[o*in+i]) / weightUnits[k])
			}
			bias := float64(d.Bias[o])
			if k < 2 {
				bias -= weightUnits[k] / 2
			}
			l.Bias[o] = float32(bias / (layerUnit * weightUnits[k]))
		}
		r.Dense[k] = l
	}
	return r
}
