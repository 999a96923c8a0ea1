package main

import (
	"fmt"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/heuristic"
)

// backend says who evaluates; every command that needs an evaluator embeds it.
type backend struct {
	Backend string `enum:"auto,gpu,cpu,bitsquares,gameovers,oddeven,rollout,uniform" default:"auto" help:"Who evaluates: a network on the gpu or the cpu, or a heuristic (${enum}). auto takes the fastest that works for the model, and bitsquares without one."`
	Model   string `placeholder:"NAME|PATH" help:"The network: a shipped model's name, or a safetensors file."`
}

// heuristics are the backends that need no model.
var heuristics = map[string]eval.Source{
	"bitsquares": eval.Bitsquares, "gameovers": eval.Gameovers, "oddeven": eval.OddEven,
	"rollout": eval.Rollout, "uniform": eval.Uniform,
}

// evaluator is the one that the flags ask for, and its name as answers give it.
func (f backend) evaluator() (e eval.Evaluator, model string, err error) {
	if source, ok := heuristics[f.Backend]; ok {
		if f.Model != "" {
			return nil, "", fmt.Errorf("--backend %s uses no model, but --model is %q", f.Backend, f.Model)
		}
		e, err := heuristic.New(source)
		return e, f.Backend, err
	}
	return nil, "", fmt.Errorf("TODO network")
}
