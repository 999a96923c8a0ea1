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

// Source fills dst with the examples of a step, counted from 0. The same step always gets the same examples, so a killed run
// can be resumed.
type Source func(step int, dst []Example) error

// Compute says what makes the steps of a run, and on how many threads. A run may go on with another Compute than it began
// with. gorgonia gives the same weights bit for bit with any number of threads, PyTorch and gorgonia nearly the same.
type Compute struct {
	Threads int    // 0 for all processors
	Python  string // a Python that has PyTorch, which then makes the steps; "" for gorgonia in this process

	// BFloat16 lets PyTorch multiply in bfloat16 on the CPU, where that is clearly faster. The weights stay float32.
	BFloat16 bool
}

// Lesson is the examples of one game of a run, whose steps the games of Config.Rules share. Its source is asked for the steps of this game
// alone, counted from 0.
type Lesson struct {
	Board  *game.Board
	Source Source
}

// computer makes the steps of a Trainer, and may keep a copy of its state.
type computer interface {
	// step makes the step after t.step: it changes the weights by the gradient of the losses of the step's batch, and the
	// moving average by the weights. norm is that of the gradient before clipping. After an error the state is useless.
	step(rate, keep float64) (l *Losses, norm float64, err error)

	judge(game int, examples []Example) (*Losses, error) // of the moving average on measureBatch examples

	fetch() error // brings the Trainer's state up to date
	send() error  // takes the Trainer's state over
	about() string
	close()
}

// Trainer makes the steps of one run. It is not safe for concurrent use.
type Trainer struct {
	config   Config
	lessons  []Lesson // by their place in Config.Rules
	turns    *game.Turns
	net      *net.Network        // the weights that the steps change
	average  *net.Network        // the moving average, or net itself
	moments  map[string]*moments // the solver's, by the names of the trained tensors
	computer computer
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
// or with a fresh symmetric network if initial is nil. A symmetric network stays symmetric. The caller must Close the
// Trainer.
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
		if t.average, err = t.net.Grow(shape, c.Seed); err != nil { // adds no blocks: a copy
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

// sameGames checks that there is a lesson for each game, in their order.
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

// Close ends the goroutines and processes that made the steps. It may be called twice.
func (t *Trainer) Close() { t.computer.close() }

// About says in words what makes the steps.
func (t *Trainer) About() string { return t.computer.about() }

// Done is the number of steps made so far.
func (t *Trainer) Done() int { return t.step }

// Network is the moving average of the weights so far, or the weights themselves if there is no average. It changes with
// the steps, at the latest when a Run is saved.
func (t *Trainer) Network() *net.Network { return t.average }

// Step makes one training step: it takes a batch from the source, mirrors each example with probability 1/2, computes the
// losses and their gradient, and updates the weights.
func (t *Trainer) Step() (Report, error) {
	began, rate := time.Now(), t.config.Rate(t.step)
	losses, norm, err := t.computer.step(rate, t.config.decay(t.step))
	if err != nil {
		return Report{}, fmt.Errorf("step %d: %w", t.step+1, err)
	}
	t.step++
	return Report{t.step, began, rate, norm, *losses}, nil
}

// Judge measures the moving average, or the weights themselves if there is none, on examples of a game of Config.Rules.
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

// trainingKey is the key of the network's metadata that holds the checkpoint's header.
const trainingKey = "evald.training"

// rangeKey is the key of the network's metadata that lists the ranges of games (game.Ranges) that it is for, beside those that it was trained
// on.
const rangeKey = "evald.range"

// Files brings the state up to date, and returns the network, with the checkpoint's header in its metadata, and the
// checkpoint.
func (t *Trainer) Files() (network, checkpoint []byte, err error) {
	if err := t.computer.fetch(); err != nil {
		return nil, nil, err
	}
	t.Network().Metadata[trainingKey] = string(t.config.Header(t.step))
	delete(t.Network().Metadata, rangeKey) // it may be that of the network that training began with
	if t.config.Rules == game.AnyMix {
		t.Network().Metadata[rangeKey] = strings.Join(game.AnyRange().Strings(), ",")
	}
	if network, err = t.Network().Marshal(); err != nil {
		return nil, nil, err
	}
	return network, t.Checkpoint(), nil
}

// fill puts the examples of a step into the batch of the step's game, one of those that batch makes for each.
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
	random := randomOf(t.config.Seed, forMirrors, step)
	for i := range t.examples {
		if random.IntN(2) == 1 {
			t.examples[i] = t.examples[i].Mirror(lesson.Board)
		}
	}
	return b, b.Fill(t.examples)
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
