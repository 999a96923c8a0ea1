package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/heuristic"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/cpu"
	"github.com/evald/evald/nn/net"
)

// backend says who evaluates; every command that needs an evaluator embeds it.
type backend struct {
	Backend string `enum:"auto,gpu,cpu,bitsquares,gameovers,oddeven,rollout,uniform" default:"auto" help:"Who evaluates: a network on the gpu or the cpu, or a heuristic (${enum}). auto takes the fastest that works for the model, and bitsquares without one."`
	Model   string `placeholder:"NAME|PATH" help:"The network: a name of evald model list, NAME@VERSION, or a safetensors file."`
}

// choice is an evaluator and what is to be said of it.
type choice struct {
	eval.Evaluator
	model   string         // as answers give it
	network *cpu.Evaluator // the network's stage; nil where a heuristic evaluates
}

// describe says how answers are computed.
func (c choice) describe() string {
	if c.network == nil {
		return "heuristic " + c.model
	}
	return fmt.Sprintf("network %s on the cpu, path %s, %d threads", c.model, c.network.Path(), c.network.Threads())
}

// evaluator is choose for those who have nothing to say of it.
func (f backend) evaluator(notes io.Writer) (e eval.Evaluator, model string, err error) {
	c, err := f.choose(notes)
	return c.Evaluator, c.model, err
}

// choose makes the evaluator that the flags ask for. What the user should know about the choice goes to notes.
func (f backend) choose(notes io.Writer) (choice, error) {
	if source, ok := heuristic.Named(f.Backend); ok {
		if f.Model != "" {
			return choice{}, fmt.Errorf("--backend %s uses no model, but --model is %q", f.Backend, f.Model)
		}
		e, err := heuristic.New(source)
		return choice{Evaluator: e, model: f.Backend}, err
	}
	if f.Backend == "gpu" {
		if _, err := driver.Find(); err != nil {
			return choice{}, fmt.Errorf("--backend gpu: %w; --backend cpu evaluates networks", err)
		}
		return choice{}, errors.New("--backend gpu: no kernels yet; --backend cpu evaluates networks")
	}
	if f.Model == "" {
		if f.Backend == "auto" {
			fmt.Fprintln(notes, "evald: no --model given and no trained network ships yet: bitsquares evaluates")
			return backend{Backend: "bitsquares"}.choose(notes)
		}
		return choice{}, fmt.Errorf("--backend %s needs --model: a file, or one of %s", f.Backend, strings.Join(models.Names(), ", "))
	}
	network, model, err := loadModel(f.Model, notes)
	if err != nil {
		return choice{}, err
	}
	e, err := onCPU(network, notes)
	if err != nil {
		return choice{}, err
	}
	c := choice{e, model, e}
	if f.Backend == "auto" {
		last, err := heuristic.New(eval.Bitsquares)
		if err != nil {
			return choice{}, err
		}
		c.Evaluator = eval.NewFallback(eval.Stage{Name: "cpu", Evaluator: e}, eval.Stage{Name: "bitsquares", Evaluator: last})
	}
	return c, nil
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
	return e, nil
}
