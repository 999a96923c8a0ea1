package train

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/net"
)

// Source fills dst with the examples of a step, counted from 0. A step always gets the same examples, so that a run can be resumed.
type Source func(step int, dst []Example) error

// Compute selects what computes a run's steps, and with how many threads. A run may be resumed with another Compute. gorgonia's weights are
// the same bit for bit with any number of threads; those of PyTorch and gorgonia are nearly the same.
type Compute struct {
	Threads int    // 0 for all processors
	Python  string // path of a Python with PyTorch, which computes the steps; "" for gorgonia in this process

	// BFloat16 makes PyTorch multiply in bfloat16 on the CPU if that is much faster. The weights stay float32.
	BFloat16 bool
}

// Lesson is the examples of one game of a run. The games of Config.Rules share the run's steps; the source is called with the numbers of
// this game's steps alone, counted from 0.
type Lesson struct {
	Board  *game.Board
	Source Source
}

// computer computes the steps of a Trainer. It may hold the state itself.
type computer interface {
	// step makes the step after t.step. It updates the weights with the gradient of the batch's losses, and then their moving average. norm
	// is the gradient's norm before clipping. After an error the state is not valid.
	step(rate, keep float64) (l *Losses, norm float64, err error)

	judge(game int, examples []Example) (*Losses, error) // losses of the moving average on measureBatch examples

	fetch() error // copies the state to the Trainer
	send() error  // copies the state from the Trainer
	about() string
	close()
}

// Trainer makes the steps of one run. It is not safe for concurrent use.
type Trainer struct {
	config   Config
	lessons  []Lesson // in the order of Config.Rules
	turns    *game.Turns
	net      *net.Network        // the weights that the steps change
	average  *net.Network        // the moving average, or net if there is none
	moments  map[string]*moments // the optimizer's state, by name of the trained tensor
	computer computer
	examples []Example
	step     int // steps done
}

// Report describes one step.
type Report struct {
	Step  int // counted from 1
	Began time.Time
	Rate  float64
	Norm  float64 // norm of the gradient before clipping
	Losses
}

// New prepares a run. The run starts from a copy of the initial network, grown to the configuration's shape (net.Network.Grow), or from a
// fresh symmetric network if initial is nil. A symmetric network stays symmetric. The caller must close the Trainer.
func New(c Config, initial *net.Network, lessons []Lesson, by Compute) (*Trainer, error) {
	shape, mix, err := c.Validate()
	if err != nil {
		return nil, err
	}
	if err := sameGames(mix, lessons); err != nil {
		return nil, err
	}
	t := &Trainer{config: c, lessons: lessons, turns: game.NewTurns(mix), examples: make([]Example, c.Batch), moments: map[string]*moments{}}
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
		if t.average, err = t.net.Grow(shape, c.Seed); err != nil { // adds no blocks, so it is a copy
			return nil, err
		}
	}
	symmetric := t.net.Symmetric()
	for _, s := range shape.Specs() {
		if c.Weights.train(s.Name) {
			t.moments[s.Name] = newMoments(c.Optimizer, s, symmetric)
		}
	}
	if by.Python != "" {
		t.computer, err = startTorch(t, by)
	} else {
		t.computer, err = newGorgonia(t, by.Threads)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// sameGames returns an error unless there is a lesson for each game, in order.
func sameGames(mix game.Mix, lessons []Lesson) error {
	for i, p := range mix {
		if i >= len(lessons) || lessons[i].Board.Rules() != p.Rules {
			return fmt.Errorf("lesson %d must be of %v: each game of %v needs one, in this order", i+1, p.Rules, mix)
		}
	}
	if len(lessons) > len(mix) {
		return fmt.Errorf("%d lessons, and %v has %d games", len(lessons), mix, len(mix))
	}
	return nil
}

// Close ends the goroutines and processes that compute the steps. It may be called twice.
func (t *Trainer) Close() { t.computer.close() }

// About describes what computes the steps.
func (t *Trainer) About() string { return t.computer.about() }

// Done returns the number of steps done.
func (t *Trainer) Done() int { return t.step }

// Network returns the moving average of the weights, or the weights themselves if there is no average. Steps may change it at once, or only
// when a Run is saved.
func (t *Trainer) Network() *net.Network { return t.average }

// Step makes one training step: it takes a batch from the source, replaces each example by a random image of it (game.Board.Image), computes
// the losses and their gradient, and updates the weights.
func (t *Trainer) Step() (Report, error) {
	began, rate := time.Now(), t.config.Rate(t.step)
	losses, norm, err := t.computer.step(rate, t.config.decay(t.step))
	if err != nil {
		return Report{}, fmt.Errorf("step %d: %w", t.step+1, err)
	}
	t.step++
	return Report{t.step, began, rate, norm, *losses}, nil
}

// Judge measures Network on examples of a game of Config.Rules.
func (t *Trainer) Judge(game int, examples []Example) (Losses, error) {
	judge := func(batch []Example) (*Losses, error) { return t.computer.judge(game, batch) }
	return MeasureBy(context.Background(), judge, func(step int, dst []Example) error {
		for i := range dst {
			dst[i] = Example{GameOver: -1}
		}
		copy(dst, examples[step*len(dst):])
		return nil
	}, len(examples), nil)
}

// trainingKey is the key of the network's metadata that contains the checkpoint's header.
const trainingKey = "evald.training"

// rangeKey is the key of the network's metadata that contains the ranges of games (game.Ranges) that it supports in addition to those on
// which it was trained.
const rangeKey = "evald.range"

// Files fetches the state and returns two files: the network, with the checkpoint's header in its metadata, and the checkpoint.
func (t *Trainer) Files() (network, checkpoint []byte, err error) {
	if err := t.computer.fetch(); err != nil {
		return nil, nil, err
	}
	t.Network().Metadata[trainingKey] = string(t.config.Header(t.step))
	delete(t.Network().Metadata, rangeKey) // it may come from the initial network
	if t.config.Rules == game.AnyMix {
		t.Network().Metadata[rangeKey] = strings.Join(game.AnyRange().Strings(), ",")
	}
	if network, err = t.Network().Marshal(); err != nil {
		return nil, nil, err
	}
	return network, t.Checkpoint(), nil
}

// fill fills the batch of a step's game with the step's examples. batch returns the batch of each game.
func (t *Trainer) fill(step int, batch func(game int) (*Batch, error)) (*Batch, error) {
	turn, had := t.turns.At(step)
	lesson := t.lessons[turn]
	b, err := batch(turn)
	if err != nil {
		return nil, err
	}
	if err := lesson.Source(had, t.examples); err != nil {
		return nil, err
	}
	random := randomOf(t.config.Seed, forImages, step)
	for i := range t.examples {
		if symmetry := random.IntN(lesson.Board.Symmetries()); symmetry > 0 {
			t.examples[i] = t.examples[i].Image(lesson.Board, symmetry)
		}
	}
	return b, b.Fill(t.examples)
}

// Uses of random numbers. Each use has its own sequence of random numbers for every step.
const (
	forImages = iota + 1
	forLearning
	forMeasuring
	forShuffling
	forShare
	forDeciding
	forHoldingOut
	forHoldingOutUnnumbered
)

func randomOf(seed uint64, use, step int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(use)<<40+uint64(step)))
}
