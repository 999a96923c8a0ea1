package train

import (
	"fmt"
	"math"

	"gorgonia.org/gorgonia"
)

// The optimisers' constants.
const (
	momentum = 0.9 // of SGD
	beta1    = 0.9
	beta2    = 0.999
	epsilon  = 1e-8
)

// solver is AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019) or SGD with momentum, as a
// Solver of gorgonia. Gorgonia's own keep their state to themselves, and a run could not go on from it.
type solver struct {
	adam        bool
	clip, decay float64
	moments     map[string]*moments // by the parameter's name
	steps       int                 // done

	rate float64 // of the next step
	norm float64 // of the last step's gradient, before it was cut
}

// moments are a parameter's running means: of the gradient, and (AdamW) of its square.
type moments struct{ first, second []float32 }

// Step changes every parameter by its gradient, and sets the gradients to 0. A gradient that is not finite is an error,
// and nothing is changed.
func (s *solver) Step(model []gorgonia.ValueGrad) error {
	grads := make([][]float32, len(model))
	square := 0.0
	for i, p := range model {
		grad, err := p.Grad()
		if err != nil {
			return fmt.Errorf("gradient of %s: %w", name(p), err)
		}
		grads[i] = floats(grad)
		for _, g := range grads[i] {
			square += float64(g) * float64(g)
		}
	}
	s.norm = math.Sqrt(square)
	if math.IsNaN(square) || math.IsInf(square, 0) {
		return fmt.Errorf("the gradient's norm is %v: the run has diverged; a lower learning rate or a limit on the norm may help", s.norm)
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
		if s.adam {
			m.adam(floats(p.Value()), grads[i], s.rate, float32(scale), float32(1-decay), s.steps)
		} else {
			m.sgd(floats(p.Value()), grads[i], float32(s.rate), float32(scale), float32(1-decay))
		}
		clear(grads[i])
	}
	return nil
}

func name(p gorgonia.ValueGrad) string { return p.(gorgonia.Namer).Name() }

// adam is one step of w; keep is what the weight decay leaves of a weight.
func (m *moments) adam(w, grad []float32, rate float64, scale, keep float32, steps int) {
	// The corrections for means that began at 0 are the same for all: put into rate and epsilon.
	second := math.Sqrt(1 - math.Pow(beta2, float64(steps)))
	size := float32(rate * second / (1 - math.Pow(beta1, float64(steps))))
	eps := float32(epsilon * second)
	for i, g := range grad {
		g *= scale
		a := beta1*m.first[i] + (1-beta1)*g
		b := beta2*m.second[i] + (1-beta2)*g*g
		m.first[i], m.second[i] = a, b
		w[i] = keep*w[i] - size*a/(float32(math.Sqrt(float64(b)))+eps)
	}
}

func (m *moments) sgd(w, grad []float32, rate, scale, keep float32) {
	for i, g := range grad {
		m.first[i] = momentum*m.first[i] + g*scale
		w[i] = keep*w[i] - rate*m.first[i]
	}
}
