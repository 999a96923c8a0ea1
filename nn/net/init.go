package net

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"

	"gorgonia.org/tensor"
)

// New returns a fresh network that depends only on configuration and seed. Until it is trained, its outputs are nearly equal for all moves
// and outcomes.
//
// Layers followed by a relu are He-normal, with standard deviation sqrt(2/fan-in). In the blocks conv1 is also scaled by
// 1/sqrt(Blocks) and conv2 is zero, so that the tower starts as the identity (Fixup). The output layers (wdl, gameover,
// policy.logit) have a standard deviation of 0.1/sqrt(fan-in). Biases are zero.
func New(c Config, seed uint64) (*Network, error) {
	return initialise(c, seed, func(s Spec) float64 {
		if strings.HasSuffix(s.Name, ".conv2.weight") || len(s.Shape) == 1 {
			return 0
		}
		switch s.Name {
		case "value.wdl.weight", "value.gameover.weight", "policy.logit.weight":
			return 0.1 / math.Sqrt(fanIn(s))
		}
		return hidden(c, s)
	})
}

// NewSymmetric is New with Symmetric weights: of each mirrored pair, both get the first one's value.
func NewSymmetric(c Config, seed uint64) (*Network, error) {
	n, err := New(c, seed)
	if err != nil {
		return nil, err
	}
	for _, s := range c.Specs() {
		values := n.weights[s.Name].Float32s()
		for i, j := range s.Mirror() {
			values[max(i, int(j))] = values[min(i, int(j))]
		}
	}
	return n, nil
}

// Grow returns a copy of the network with c.Blocks blocks, at least as many as the network has; c must otherwise equal its configuration.
// The added blocks come last. Their weights are drawn with seed; the blocks have no effect until they are trained. The copy has no Ranges.
// A symmetric network stays symmetric.
func (n *Network) Grow(c Config, seed uint64) (*Network, error) {
	if small := n.config; small.Blocks > c.Blocks || (Config{c.Blocks, small.Channels, small.HeadChannels, small.Hidden}) != c {
		return nil, fmt.Errorf("network %v cannot become %v: more blocks are all that can be added", small, c)
	}
	fresh := New
	if n.Symmetric() {
		fresh = NewSymmetric
	}
	grown, err := fresh(c, seed)
	if err != nil {
		return nil, err
	}
	for _, s := range n.config.Specs() {
		copy(grown.weights[s.Name].Float32s(), n.weights[s.Name].Float32s())
	}
	maps.Copy(grown.Metadata, n.Metadata)
	delete(grown.Metadata, RangesKey) // trained weights will have other ranges
	return grown, nil
}

// NewScrambled returns a network for tests that depends only on configuration and seed. All its weights and biases differ from zero. With a
// fresh network, a test would not notice a kernel that omits a second convolution or a bias.
func NewScrambled(c Config, seed uint64) (*Network, error) {
	return initialise(c, seed, func(s Spec) float64 {
		if len(s.Shape) == 1 {
			return 0.1
		}
		return hidden(c, s)
	})
}

// hidden is the standard deviation of a weight whose layer is followed by a relu.
func hidden(c Config, s Spec) float64 {
	std := math.Sqrt(2 / fanIn(s))
	if strings.HasPrefix(s.Name, "blocks.") {
		std /= math.Sqrt(float64(c.Blocks))
	}
	return std
}

// fanIn is the number of inputs that an output of the layer sums: the product of all dimensions of the weight except the first.
func fanIn(s Spec) float64 { return float64(s.Size() / s.Shape[0]) }

// initialise draws the values of each tensor, in the order of Specs, from a normal distribution with mean zero. If a tensor's standard
// deviation is zero, it draws nothing.
func initialise(c Config, seed uint64, deviation func(Spec) float64) (*Network, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(seed, 0))
	weights := make(map[string]*tensor.Dense)
	for _, s := range c.Specs() {
		values := make([]float32, s.Size())
		if std := deviation(s); std != 0 {
			for i := range values {
				values[i] = float32(random.NormFloat64() * std)
			}
		}
		weights[s.Name] = newTensor(values, s.Shape...)
	}
	return FromWeights(c, weights)
}
