package net

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"gorgonia.org/tensor"
)

// Network is a configuration and its weights. It is safe for concurrent use as long as its tensors and Metadata are not written.
type Network struct {
	// Metadata is free text stored in the file, such as "evald.name". It does not contain the keys of the configuration, the
	// format version and the checksum.
	Metadata map[string]string

	config  Config
	weights map[string]*tensor.Dense
	layers  layers
}

// affine is the weight and bias of a layer, as slices of their tensors' memory.
type affine struct{ weight, bias []float32 }

type block struct {
	name         string
	conv1, conv2 affine
}

// layers holds the same weights as the map, in the form that the forward pass uses.
type layers struct {
	stem                         affine
	blocks                       []block
	valueConv, fc, wdl, gameover affine
	policyConv, policyLogit      affine
}

// FromWeights makes a network from named weights and shares their memory. The names must be exactly those of Config.Specs. Tensors must be
// float32, row-major, finite and of the required shape; the error names the first that is not.
func FromWeights(c Config, weights map[string]*tensor.Dense) (*Network, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	specs := c.Specs()
	for _, s := range specs {
		if err := s.check(weights[s.Name]); err != nil {
			return nil, fmt.Errorf("network %s: tensor %q %w", c, s.Name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		if !slices.ContainsFunc(specs, func(s Spec) bool { return s.Name == name }) {
			return nil, fmt.Errorf("network %s: tensor %q is unknown", c, name)
		}
	}
	n := &Network{Metadata: map[string]string{}, config: c, weights: maps.Clone(weights)}
	n.bind()
	return n, nil
}

// check describes how the tensor, which may be nil, differs from the spec, as an error. It returns nil if it does not differ.
func (s Spec) check(t *tensor.Dense) error {
	if t == nil {
		return fmt.Errorf("is missing; its shape is %v", s.Shape)
	}
	if !slices.Equal(t.Shape(), s.Shape) {
		return fmt.Errorf("has shape %v, want %v", []int(t.Shape()), s.Shape)
	}
	values, err := values(t)
	if err != nil {
		return err
	}
	if i, ok := finite(values); !ok {
		return fmt.Errorf("has %v as value %d", values[i], i)
	}
	return nil
}

// bind sets the layers to slices of the tensors.
func (n *Network) bind() {
	layer := func(name string) affine {
		return affine{n.weights[name+".weight"].Float32s(), n.weights[name+".bias"].Float32s()}
	}
	l := &n.layers
	l.stem = layer("stem")
	for i := range n.config.Blocks {
		name := blockName(i)
		l.blocks = append(l.blocks, block{name, layer(name + ".conv1"), layer(name + ".conv2")})
	}
	l.valueConv, l.fc = layer("value.conv"), layer("value.fc")
	l.wdl, l.gameover = layer("value.wdl"), layer("value.gameover")
	l.policyConv, l.policyLogit = layer("policy.conv"), layer("policy.logit")
}

// Config is the network's shape.
func (n *Network) Config() Config { return n.config }

// Weight returns the tensor with that name (see Config.Specs), which shares the network's memory; nil if there is none.
func (n *Network) Weight(name string) *tensor.Dense { return n.weights[name] }

// values returns the numbers of a tensor in row-major order, without a copy.
func values(t *tensor.Dense) ([]float32, error) {
	switch {
	case t.Dtype() != tensor.Float32:
		return nil, fmt.Errorf("is of type %v, want float32", t.Dtype())
	case t.RequiresIterator() || !t.DataOrder().IsRowMajor() || !t.DataOrder().IsContiguous():
		return nil, errors.New("is a view or transposed, want contiguous row-major memory")
	}
	return t.Float32s(), nil
}

// newTensor makes a tensor that uses values as its memory. Their number must fit the shape.
func newTensor(values []float32, shape ...int) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(values))
}

// finite returns the index of the first value that is NaN or infinite, or ok.
func finite(values []float32) (at int, ok bool) {
	for i, x := range values {
		if math.Float32bits(x)&0x7f800000 == 0x7f800000 {
			return i, false
		}
	}
	return 0, true
}
