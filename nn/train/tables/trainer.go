package tables

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/nn/pattern"
	"github.com/evald/evald/nn/train"
)

// Trainer makes the steps of one run. It implements train.Steps, and is not safe for concurrent use.
type Trainer struct {
	config   train.Config
	board    *game.Board
	net      *pattern.Real
	layers   []*values // bias, and weights and biases of the layers
	table    *values
	source   train.Source
	pool     *jobs.Pool[func(i int)]
	examples []train.Example
	step     int // steps done
	batch    batch
}

// values are trained numbers with Adam's running means of the gradient and of its square.
type values struct {
	now, first, second []float32
	most               float32 // maximum absolute value, or 0 for no limit
}

// Rounding is the step of Real.Round for the saved network. It has no measurable effect on the accuracy, and reduces the compressed file to
// two thirds.
const Rounding = 4

// New prepares a run with the given number of threads; 0 means all processors. The run starts from the initial network, or from a fresh one
// if that is nil. The error names the invalid field of the configuration.
func New(c train.Config, initial *pattern.Network, source train.Source, threads int) (*Trainer, error) {
	lanes, h1, h2, err := pattern.ParseShape(c.Network)
	if err != nil {
		return nil, err
	}
	games, err := c.Check()
	if err != nil {
		return nil, err
	}
	switch {
	case c.Optimizer != train.Adam:
		return nil, fmt.Errorf("optimizer is %q, want %s for networks of pattern tables", c.Optimizer, train.Adam)
	case len(games) > 1 || games[0].Rules != game.Connect4:
		return nil, fmt.Errorf("rules are %v: networks of pattern tables know %v alone", games, game.Connect4)
	case initial != nil && initial.String() != c.Network:
		return nil, fmt.Errorf("the initial network is %s, and the run trains %s: give its shape", initial, c.Network)
	}
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	t := &Trainer{config: c, board: game.MustBoard(game.Connect4), source: source, examples: make([]train.Example, c.Batch)}
	t.pool = jobs.NewPool(threads, func(_ int, f func(int), i, _ int) error {
		f(i)
		return nil
	})
	if initial != nil {
		t.net = initial.Real()
	} else {
		t.net = fresh(lanes, h1, h2, rand.New(rand.NewPCG(c.Seed, forWeights)))
	}
	add := func(now []float32, most float32) *values {
		return &values{now, make([]float32, len(now)), make([]float32, len(now)), most}
	}
	t.table = add(t.net.Table, 0)
	t.layers = append(t.layers, add(t.net.Bias, 0))
	for k, l := range t.net.Dense {
		t.layers = append(t.layers, add(l.Weight, pattern.MaxWeight(k)), add(l.Bias, 0))
	}
	return t, nil
}

// Uses of random numbers. Each use has its own sequence of random numbers for every step.
const (
	forWeights = iota + 1
	forMirrors
)

// fresh returns a network whose table is all 0. Its activations are in the middle of their range.
func fresh(lanes, h1, h2 int, r *rand.Rand) *pattern.Real {
	n := &pattern.Real{Lanes: lanes, Bias: make([]float32, lanes), Table: make([]float32, pattern.RowCount()*lanes)}
	inputs := (lanes - kernel.Outputs) / 2
	for i := range 2 * inputs {
		n.Bias[i] = 0.5
	}
	sizes := [4]int{inputs, h1, h2, kernel.Outputs}
	for k, gain := range [3]float64{1.2, 1.5, 0.3} {
		l := pattern.RealLayer{Weight: make([]float32, sizes[k]*sizes[k+1]), Bias: make([]float32, sizes[k+1])}
		for i := range l.Weight {
			l.Weight[i] = float32(r.NormFloat64() * gain / math.Sqrt(float64(sizes[k])))
		}
		if k < 2 {
			for i := range l.Bias {
				l.Bias[i] = 0.2
			}
		}
		n.Dense[k] = l
	}
	return n
}

// Done returns the number of steps done.
func (t *Trainer) Done() int { return t.step }

// Network returns the network, rounded to integers. The error names values that do not fit.
func (t *Trainer) Network() (*pattern.Network, error) {
	n, err := t.net.Round(Rounding)
	if err != nil {
		return nil, err
	}
	n.Metadata["evald.training"] = string(t.config.Header(t.step))
	return n, nil
}

// Step makes one training step: it takes a batch from the source, mirrors each example with probability 1/2, computes the
// losses and their gradient, and updates the weights.
func (t *Trainer) Step() (train.Report, error) {
	r := train.Report{Step: t.step + 1, Began: time.Now(), Rate: t.config.Rate(t.step)}
	if err := t.source(t.step, t.examples); err != nil {
		return r, fmt.Errorf("step %d: %w", r.Step, err)
	}
	random := rand.New(rand.NewPCG(t.config.Seed, forMirrors<<40+uint64(t.step)))
	for i := range t.examples {
		if random.IntN(2) == 1 {
			t.examples[i] = t.examples[i].Image(t.board, 1)
		}
	}
	r.Losses = t.losses(t.examples, true)
	square := t.update(float32(r.Rate))
	r.Norm = math.Sqrt(square)
	if math.IsNaN(square) || math.IsInf(square, 0) {
		return r, fmt.Errorf("step %d: the gradient's norm is %v: the run has diverged; a lower learning rate may help", r.Step, r.Norm)
	}
	t.step++
	return r, nil
}

// Judge measures the network before rounding.
func (t *Trainer) Judge(_ int, examples []train.Example) (train.Losses, error) {
	return t.losses(examples, false), nil
}

// Measure measures the network before rounding on a number of examples of the source, rounded up to whole batches. progress, if not nil, is
// called with the number of examples so far.
func (t *Trainer) Measure(ctx context.Context, source train.Source, examples int64, progress func(done int)) (train.Losses, error) {
	return train.MeasureBy(ctx, func(batch []train.Example) (*train.Losses, error) {
		l := t.losses(batch, false)
		return &l, nil
	}, source, int(examples), progress)
}

// Files returns the rounded network and the checkpoint.
func (t *Trainer) Files() (network, checkpoint []byte, err error) {
	n, err := t.Network()
	if err != nil {
		return nil, nil, err
	}
	if network, err = n.Marshal(); err != nil {
		return nil, nil, err
	}
	return network, train.PackCheckpoint(t.config.Header(t.step), t.state()), nil
}

// Restore resumes the run from a checkpoint of the same configuration. If it returns an error, it has changed nothing.
func (t *Trainer) Restore(checkpoint []byte) error {
	step, err := t.config.UnpackCheckpoint(checkpoint, t.state())
	if err == nil {
		t.step = step
	}
	return err
}

// state returns all numbers that steps change, in the order of the checkpoint.
func (t *Trainer) state() (parts [][]float32) {
	for _, v := range append(t.layers, t.table) {
		parts = append(parts, v.now, v.first, v.second)
	}
	return parts
}

// parallel calls f for the numbers 0 to n-1, on all goroutines of the pool.
func (t *Trainer) parallel(n int, f func(i int)) {
	if err := t.pool.Do(context.Background(), f, n, 1); err != nil {
		panic(err) // a panic of f: calls have no other errors
	}
}
