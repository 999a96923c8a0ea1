package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/net"
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

// evaluator is the one that the flags ask for, and its name as answers give it. What the user should know about the
// choice goes to notes.
func (f backend) evaluator(notes io.Writer) (e eval.Evaluator, model string, err error) {
	if source, ok := heuristics[f.Backend]; ok {
		if f.Model != "" {
			return nil, "", fmt.Errorf("--backend %s uses no model, but --model is %q", f.Backend, f.Model)
		}
		e, err := heuristic.New(source)
		return e, f.Backend, err
	}
	if f.Backend == "gpu" {
		if _, err := driver.Find(); err != nil {
			return nil, "", fmt.Errorf("--backend gpu: %w; --backend cpu evaluates networks", err)
		}
		return nil, "", errors.New("--backend gpu: no kernels yet; --backend cpu evaluates networks")
	}
	if f.Model == "" {
		if f.Backend == "auto" {
			fmt.Fprintln(notes, "evald: no --model given and no trained network ships yet: bitsquares evaluates")
			return backend{Backend: "bitsquares"}.evaluator(notes)
		}
		return nil, "", fmt.Errorf("--backend %s needs --model: a file, or one of %s", f.Backend, strings.Join(models.Names(), ", "))
	}
	network, model, err := loadModel(f.Model, notes)
	if err != nil {
		return nil, "", err
	}
	e = net.NewEvaluator(network)
	if f.Backend == "auto" {
		last, err := heuristic.New(eval.Bitsquares)
		if err != nil {
			return nil, "", err
		}
		e = eval.NewFallback(eval.Stage{Name: "cpu", Evaluator: e}, eval.Stage{Name: "bitsquares", Evaluator: last})
	}
	return e, model, nil
}

// loadModel reads a shipped network by its name, or else a file. The name is the shipped one, or the file's without
// folder and extension.
func loadModel(nameOrPath string, notes io.Writer) (*net.Network, string, error) {
	if slices.Contains(models.Names(), nameOrPath) {
		file, entry, err := models.Open(nameOrPath)
		if err != nil {
			return nil, "", err
		}
		if !entry.Trained {
			fmt.Fprintf(notes, "evald: model %s is not trained; its answers mean nothing\n", entry.Name)
		}
		n, err := net.Parse(file)
		return n, entry.Name, err
	}
	n, err := net.ReadFile(nameOrPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("--model %q is neither a file nor a shipped model (%s)", nameOrPath, strings.Join(models.Names(), ", "))
	}
	base := filepath.Base(nameOrPath)
	return n, strings.TrimSuffix(base, filepath.Ext(base)), err
}
