package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/short"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/cpu"
	"github.com/evald/evald/nn/gpu"
	"github.com/evald/evald/nn/net"
)

// backend says who evaluates; every command that needs an evaluator embeds it.
type backend struct {
	Backend string `without:"agent" enum:"auto,gpu,cpu,${heuristics}" default:"auto" help:"Who evaluates: a network on the gpu or the cpu, or a heuristic (${enum}). auto takes the fastest that works."`
	Model   string `without:"agent" placeholder:"NAME|PATH" help:"The network: a name of evald model list, NAME@VERSION, or a safetensors file. Without one, the network that ships; on boards that it was not trained on, bitsquares."`
	Mirror  bool   `without:"agent" help:"Let the network evaluate each position and its mirror image, and answer the mean: twice the work, fewer errors."`
}

// choice is an evaluator and what is to be said of it.
type choice struct {
	eval.Evaluator
	model   string         // as answers give it
	network bool           // a network answers, and not a heuristic
	how     string         // answers are computed
	gpu     *gpu.Evaluator // the stage on GPUs, or nil

	// The games that the model answers, where bitsquares answers the others; nil for all.
	games map[game.Rules]bool
}

// modelOn is who is asked about a game's positions, as answers give it.
func (c choice) modelOn(r game.Rules) string {
	if c.games != nil && !c.games[r] {
		return eval.Bitsquares.String()
	}
	return c.model
}

// answers are the choice's evaluator behind the rules, for those who show or keep its answers. Searches take the evaluator
// itself: their trees look at the rules.
func (c choice) answers() eval.Evaluator { return eval.NewRuled(c.Evaluator) }

// Close gives back what a GPU holds. Without one there is nothing to do.
func (c choice) Close() error {
	if c.gpu == nil {
		return nil
	}
	return c.gpu.Close()
}

// choose makes the evaluator that the flags ask for. What the user should know about the choice, and later about a GPU
// that fails, goes to notes.
func (f backend) choose(notes io.Writer) (choice, error) { return f.chooseFor(notes, notes) }

// chooseFor is choose where what becomes of a GPU later goes elsewhere.
func (f backend) chooseFor(notes, events io.Writer) (choice, error) {
	if source, ok := heuristic.Named(f.Backend); ok {
		if f.Model != "" {
			return choice{}, usage("--backend %s uses no model, but --model is %s", f.Backend, short.Quote(f.Model))
		}
		if f.Mirror {
			return choice{}, usage("--backend %s uses no network whose answers --mirror could improve", f.Backend)
		}
		e, err := heuristic.New(source)
		return choice{Evaluator: e, model: f.Backend, how: "heuristic " + f.Backend}, err
	}
	if f.Backend == "gpu" { // before the model, whose file may be large
		if _, err := driver.Find(); err != nil {
			return choice{}, noGPU(err)
		}
	}
	network, model, err := loadModel(cmp.Or(f.Model, defaultModel), notes)
	if err != nil {
		return choice{}, err
	}
	c, err := f.network(network, model, notes, events)
	if err == nil && f.Mirror {
		c.Evaluator = eval.NewMirrored(c.Evaluator)
		c.model += ", mirrored" // other answers than the network's own, wherever they are kept
		c.how += ", the mean of each position and its mirror image"
	}
	if err == nil && f.Model == "" {
		c.Evaluator, c.games, err = whereTrained(c.Evaluator)
		c.how += "; bitsquares on boards that it was not trained on"
	}
	return c, err
}

// defaultModel is the shipped network that evaluates where the user names none.
const defaultModel = "default"

// whereTrained lets the default network evaluate the games that it was trained on, and bitsquares the others, about
// which it knows less.
func whereTrained(network eval.Evaluator) (e eval.Evaluator, games map[game.Rules]bool, err error) {
	other, err := heuristic.New(eval.Bitsquares)
	if err != nil {
		return nil, nil, err
	}
	entry, _ := models.Find(defaultModel)
	games = map[game.Rules]bool{}
	for _, text := range entry.Rules {
		rules, err := game.ParseRules(text)
		if err != nil {
			return nil, nil, fmt.Errorf("model %s: %w", defaultModel, err)
		}
		games[rules] = true
	}
	return trained{network, other, games}, games, nil
}

type trained struct {
	network, other eval.Evaluator
	games          map[game.Rules]bool
}

func (t trained) Evaluate(ctx context.Context, b *eval.Batch) error {
	if b.Board != nil && !t.games[b.Board.Rules()] {
		return t.other.Evaluate(ctx, b)
	}
	return t.network.Evaluate(ctx, b)
}

// network is the evaluator of a network, by the backend auto, gpu or cpu.
func (f backend) network(network *net.Network, model string, notes, events io.Writer) (choice, error) {
	switch f.Backend {
	case "gpu":
		e, err := onGPU(network, notes, events)
		if err != nil {
			return choice{}, noGPU(err)
		}
		return choice{Evaluator: e, model: model, network: true, how: gpuText(model, e), gpu: e}, nil
	case "cpu":
		e, err := onCPU(network, notes)
		if err != nil {
			return choice{}, err
		}
		return choice{Evaluator: e, model: model, network: true, how: cpuText(model, e)}, nil
	}
	return fastest(network, model, notes, events)
}

func noGPU(err error) error {
	return fmt.Errorf("--backend gpu: %w; --backend cpu evaluates networks", err)
}

func cpuText(model string, e *cpu.Evaluator) string {
	return fmt.Sprintf("network %s on the cpu, path %s, %d threads", model, e.Path(), e.Threads())
}

func gpuText(model string, e *gpu.Evaluator) string {
	return fmt.Sprintf("network %s on the gpu, %v", model, e)
}

// fastest asks the GPU, where that fails the CPU, and where that fails too bitsquares. A GPU that is there and does not work
// is said, since it is the difference between hours and seconds.
func fastest(n *net.Network, model string, notes, events io.Writer) (choice, error) {
	onCPU, err := onCPU(n, notes)
	if err != nil {
		return choice{}, err
	}
	last, err := heuristic.New(eval.Bitsquares)
	if err != nil {
		return choice{}, err
	}
	c := choice{model: model, network: true, how: cpuText(model, onCPU)}
	stages := []eval.Stage{{Name: "cpu", Evaluator: onCPU}, {Name: "bitsquares", Evaluator: last}}
	if c.gpu, err = onGPU(n, notes, events); errors.Is(err, driver.ErrNone) {
		c.how += "; no GPU: " + err.Error()
	} else if err != nil {
		fmt.Fprintf(notes, "evald: NO GPU, the CPU evaluates (path %s, %d threads): %v\n", onCPU.Path(), onCPU.Threads(), err)
	} else {
		c.how = gpuText(model, c.gpu) + "; should it fail, " + c.how
		stages = append([]eval.Stage{{Name: "gpu", Evaluator: c.gpu}}, stages...)
	}
	c.Evaluator = eval.NewFallback(stages...)
	return c, nil
}

// onGPU is the network's evaluator on all GPUs that work. What becomes of them later goes to events.
func onGPU(n *net.Network, notes, events io.Writer) (*gpu.Evaluator, error) {
	e, failed, err := gpu.New(n, func(event string) { fmt.Fprintf(events, "evald: %s\n", event) })
	if err != nil {
		return nil, err
	}
	for _, err := range failed {
		fmt.Fprintf(notes, "evald: %v; the other GPUs evaluate\n", err)
	}
	return e, nil
}

// pathVariable names the environment variable that chooses how networks are computed on the CPU, for tests and
// measurements; where it is empty the fastest path does.
const pathVariable = "EVALD_CPU_PATH"

// onCPU is the network's evaluator on the CPU.
func onCPU(n *net.Network, notes io.Writer) (*cpu.Evaluator, error) {
	if path := os.Getenv(pathVariable); path != "" {
		e, err := cpu.NewPath(n, kernel.Path(path))
		if err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", pathVariable, err)
		}
		return e, nil
	}
	e, failed := cpu.New(n)
	for _, err := range failed {
		fmt.Fprintf(notes, "evald: %v; the next path evaluates\n", err)
	}
	if e.Path() == kernel.Go {
		fmt.Fprintf(notes, "evald: PLAIN GO evaluates, some fifty times slower than the kernels in C, which this program on %s/%s has not (make build has them on linux/amd64)\n", runtime.GOOS, runtime.GOARCH)
	}
	return e, nil
}

// boardOf is the board of the flag --rules.
func boardOf(text string) (*game.Board, error) {
	rules, err := game.ParseRules(text)
	if err != nil {
		return nil, usage("--rules: %w", err)
	}
	board, err := game.NewBoard(rules)
	if err != nil {
		return nil, usage("--rules: %w", err)
	}
	return board, nil
}
