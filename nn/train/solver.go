package train

import (
	"fmt"
	"math"
	"strings"

	"gorgonia.org/gorgonia"

	"github.com/evald/evald/kernels/cpu/conv"
	"github.com/evald/evald/nn/net"
)

// Constants of the optimizers.
const (
	muonMomentum = 0.95
	Beta1        = 0.9   // of Adam and AdamW
	Beta2        = 0.999 // of Adam and AdamW
	epsilon      = 1e-8
)

// solver is one of two optimizers, as a gorgonia Solver. It replaces gorgonia's own solvers, which do not expose the state that a resumed
// run needs.
//
//	AdamW  Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019)
//	Muon   for the blocks' weights: the orthogonal matrix nearest to the momentum (Jordan et al., "Muon: An optimizer for
//	       hidden layers in neural networks", 2024); AdamW for all other parameters
//
// A symmetric network (net.Network.Symmetric) stays symmetric: each gradient is averaged with its mirror image.
type solver struct {
	clip, decay float64
	pool        *conv.Pool
	moments     map[string]*moments // by the parameter's name
	steps       int                 // steps done

	rate float64 // rate of the next step
	norm float64 // norm of the last step's gradient before clipping
}

// moments are a parameter's running means: of the gradient and, for AdamW, of its square (nil for Muon).
type moments struct {
	first, second []float32
	muon          *muon   // nil unless Muon trains this parameter
	mirror        []int32 // net.Spec.Mirror if the network is symmetric, or nil
}

// newMoments makes the state of a parameter for a Config.Optimizer.
func newMoments(rule string, s net.Spec, symmetric bool) *moments {
	m := &moments{first: make([]float32, s.Size())}
	if rule == Muon && strings.HasPrefix(s.Name, "blocks.") && len(s.Shape) > 1 {
		m.muon = newMuon(s.Shape[0], s.Size()/s.Shape[0])
	} else {
		m.second = make([]float32, s.Size())
	}
	if symmetric {
		m.mirror = s.Mirror()
	}
	return m
}

// Step changes every parameter according to its gradient, and sets the gradients to 0. If a gradient is not finite, it returns an error and
// changes nothing.
func (s *solver) Step(model []gorgonia.ValueGrad) error {
	grads := make([][]float32, len(model))
	square := 0.0
	for i, p := range model {
		grad, err := p.Grad()
		if err != nil {
			return fmt.Errorf("gradient of %s: %w", name(p), err)
		}
		grads[i] = floats(grad)
		symmetrise(grads[i], s.moments[name(p)].mirror)
		for _, g := range grads[i] {
			square += float64(g) * float64(g)
		}
	}
	s.norm = math.Sqrt(square)
	if math.IsNaN(square) || math.IsInf(square, 0) {
		return diverged(s.norm)
	}
	scale := 1.0
	if s.clip > 0 && s.norm > s.clip {
		scale = s.clip / s.norm
	}
	s.steps++
	for i, p := range model {
		m := s.moments[name(p)]
		decay := 0.0
		if len(p.Value().Shape()) > 1 { // weights, not biases
			decay = s.rate * s.decay
		}
		w, g, scale, keep := floats(p.Value()), grads[i], float32(scale), float32(1-decay)
		if m.muon != nil {
			m.orthogonal(s.pool, w, g, s.rate, scale, keep)
		} else {
			m.adam(w, g, s.rate, scale, keep, s.steps)
		}
		clear(grads[i])
	}
	return nil
}

func diverged(norm float64) error {
	return fmt.Errorf("the gradient's norm is %v: the run has diverged; a lower learning rate or a limit on the norm may help", norm)
}

// symmetrise replaces each value by the mean of it and its mirror, values[mirror[i]]. It does nothing if mirror is nil.
func symmetrise(values []float32, mirror []int32) {
	for i, j := range mirror {
		if i < int(j) {
			mean := (values[i] + values[j]) / 2
			values[i], values[j] = mean, mean
		}
	}
}

func name(p gorgonia.ValueGrad) string { return p.(gorgonia.Namer).Name() }

// adam makes one step of AdamW on w. keep is the factor by which weight decay multiplies weights.
func (m *moments) adam(w, grad []float32, rate float64, scale, keep float32, steps int) {
	size, eps := AdamSize(rate, steps)
	for i, g := range grad {
		g *= scale
		a := Beta1*m.first[i] + (1-Beta1)*g
		b := Beta2*m.second[i] + (1-Beta2)*g*g
		m.first[i], m.second[i] = a, b
		w[i] = keep*w[i] - size*a/(float32(math.Sqrt(float64(b)))+eps)
	}
}

// AdamSize returns the step size and the epsilon of Adam and AdamW at a step, counted from 1. Both include the bias correction, which is
// the same for all values.
func AdamSize(rate float64, steps int) (size, eps float32) {
	second := math.Sqrt(1 - math.Pow(Beta2, float64(steps)))
	return float32(rate * second / (1 - math.Pow(Beta1, float64(steps)))), float32(epsilon * second)
}

// orthogonal makes one step of Muon with Nesterov momentum.
func (m *moments) orthogonal(pool *conv.Pool, w, grad []float32, rate float64, scale, keep float32) {
	for i, g := range grad {
		g *= scale
		m.first[i] = muonMomentum*m.first[i] + (1-muonMomentum)*g
		m.muon.update[i] = muonMomentum*m.first[i] + (1-muonMomentum)*g
	}
	m.muon.orthogonalise(pool)
	symmetrise(m.muon.update, m.mirror) // rounding has broken the symmetry
	size := float32(rate * muonScale * math.Sqrt(float64(m.muon.columns)))
	for i, u := range m.muon.update {
		w[i] = keep*w[i] - size*u
	}
}
