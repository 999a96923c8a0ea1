package train

import (
	"fmt"
	"math/rand/v2"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/net"
)

// Source fills dst with the examples of a step, counted from 0. The same step always gets the same examples, so a killed run
// can be resumed.
type Source func(step int, dst []Example) error

// Trainer makes the steps of one run. It is not safe for concurrent use.
type Trainer struct {
	config   Config
	board    *game.Board
	net      *net.Network // the weights that the steps change
	average  *net.Network // the moving average, or net itself
	graph    *graph
	solver   *solver
	source   Source
	examples []Example
	step     int // steps done
}

// Report describes one step.
type Report struct {
	Step  int // counted from 1
	Began time.Time
	Rate  float64
	Norm  float64 // of the gradient before clipping
	Losses
}

// New prepares a run. It begins with a copy of the initial network, grown to the configuration's shape (net.Network.Grow),
// or with a fresh symmetric network if initial is nil. A symmetric network stays symmetric. threads is the number of
// goroutines of the kernels, 0 for all processors; results do not depend on it. The caller must Close the Trainer.
func New(c Config, initial *net.Network, source Source, threads int) (*Trainer, error) {
	shape, board, err := c.Validate()
	if err != nil {
		return nil, err
	}
	t := &Trainer{config: c, board: board, source: source, examples: make([]Example, c.Batch)}
	if initial == nil {
		t.net, err = net.NewSymmetric(shape, c.Seed)
	} else {
		t.net, err = initial.Grow(shape, c.Seed)
	}
	if err != nil {
		return nil, err
	}
	t.average = t.net
	if c.EMA > 0 {
		if t.average, err = t.net.Grow(shape, c.Seed); err != nil { // adds no blocks: a copy
			return nil, err
		}
	}
	if t.graph, err = newGraph(t.net, board, c.Batch, c.Weights, true, threads); err != nil {
		return nil, err
	}
	t.solver = &solver{clip: c.Clip, decay: c.L2, pool: t.graph.pool, moments: map[string]*moments{}}
	symmetric := t.net.Symmetric()
	for _, p := range t.graph.params {
		t.solver.moments[p.Name()] = newMoments(c.Optimizer, net.Spec{Name: p.Name(), Shape: p.Shape()}, symmetric)
	}
	return t, nil
}

// Close ends the kernels' goroutines. It may be called twice.
func (t *Trainer) Close() { t.graph.close() }

// Done is the number of steps made so far.
func (t *Trainer) Done() int { return t.step }

// Network is the moving average of the weights so far, or the weights themselves if there is no average. It changes with
// every step.
func (t *Trainer) Network() *net.Network { return t.average }

// Step makes one training step: it takes a batch from the source, mirrors each example with probability 1/2, computes the
// losses and their gradient, and updates the weights.
func (t *Trainer) Step() (Report, error) {
	report, err := t.doStep()
	if err != nil {
		return report, fmt.Errorf("step %d: %w", t.step+1, err)
	}
	t.step++
	return report, nil
}

func (t *Trainer) doStep() (r Report, err error) {
	began := time.Now()
	if err := t.source(t.step, t.examples); err != nil {
		return r, err
	}
	random := randomOf(t.config.Seed, forMirrors, t.step)
	for i := range t.examples {
		if random.IntN(2) == 1 {
			t.examples[i] = t.examples[i].Mirror(t.board)
		}
	}
	if err := t.graph.batch.Fill(t.examples); err != nil {
		return r, err
	}
	losses, err := t.graph.run()
	if err != nil {
		return r, err
	}
	t.solver.rate = t.config.Rate(t.step)
	if err := t.solver.Step(gorgonia.NodesToValueGrads(t.graph.params)); err != nil {
		return r, err
	}
	if t.average != t.net {
		keep := float32(t.config.decay(t.step))
		for _, p := range t.graph.params {
			follow(t.average.Weight(p.Name()).Float32s(), floats(p.Value()), keep)
		}
	}
	return Report{t.step + 1, began, t.solver.rate, t.solver.norm, *losses}, nil
}

// follow updates the moving average: average = keep*average + (1-keep)*values.
func follow(average, values []float32, keep float32) {
	for i, v := range values {
		average[i] = keep*average[i] + (1-keep)*v
	}
}

// The uses of random numbers. Each use has its own sequence for every step.
const (
	forMirrors = iota + 1
	forLearning
	forMeasuring
	forShuffling
	forShare
	forDeciding
	forHoldingOut
	forHoldingOutUnnumbered
)

// randomOf returns the random numbers of one use at one step.
func randomOf(seed uint64, use, step int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(use)<<40+uint64(step)))
}
