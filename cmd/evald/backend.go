package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/evald/evald/cmd/evald/internal/remote"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/short"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/nn/open"
	"github.com/evald/evald/nn/ort"
)

// backend has the flags that choose the evaluator; every command that needs an evaluator embeds it. Package nn/open opens it.
type backend struct {
	Backend string `without:"agent" enum:"${backends},${heuristics}" default:"auto" help:"Evaluator: a network on the gpu or the cpu, a network with ONNX Runtime (ort-cpu, ort-cuda, ort-tensorrt, or ort for the provider of --ort), or a heuristic (${enum}). auto is the fastest that works."`
	Model   string `without:"agent,join" placeholder:"NAME|PATH" help:"What evaluates: a network (a name of evald model list, NAME@VERSION, a safetensors file, or an ONNX file with its description beside it), a heuristic of --backend with or without a parameter (bitsquares:power=2), exact (the networks that ship, with --exact), or grpc://HOST:PORT/NAME for a model of evald serve there. A board that it does not know is an error. Default: the network default on 7x6x4, any on the other boards that evald model show any lists, and the heuristic bitsquares on the rest."`
	processors
	Mirror bool `without:"agent,join" help:"Let the network evaluate each position and its mirror image, and answer the mean: twice the work, fewer errors."`
}

// processors has the flags for the devices of networks; every command that evaluates networks embeds it.
type processors struct {
	GPUs    numbers `name:"gpus" placeholder:"N,..." help:"GPUs to use, by their numbers in evald devices: 0,2. Default: all that work."`
	ORT     ortFlag `name:"ort" placeholder:"K=V,..." help:"Settings of ONNX Runtime, for ONNX files and the backends ort-...: library=PATH is its library (default: EVALD_ORT_LIBRARY, that of the package onnxruntime of EVALD_PYTHON, or the system's); provider=NAME and plugin=PATH are for the backend ort; other keys are settings of the provider."`
	CPUPath string  `name:"cpu-path" placeholder:"PATH" help:"Instructions that networks use on the CPU: a path of evald version, such as avx512. Default: the fastest, as measured on this machine (evald devices -v)."`
}

// check refuses a path that this machine lacks; the error lists the available ones.
func (p processors) check() error {
	if p.CPUPath == "" {
		return nil
	}
	if err := kernel.Path(p.CPUPath).Check(); err != nil {
		return usage("--cpu-path: %w", err)
	}
	return nil
}

// numbers is a list of integers from 0 on, separated by commas.
type numbers string

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *numbers) UnmarshalText(text []byte) error {
	for _, part := range strings.Split(string(text), ",") {
		if i, err := strconv.Atoi(part); err != nil || strconv.Itoa(i) != part || i < 0 {
			return fmt.Errorf("%s: must be numbers from 0 on, such as 0,2", short.Quote(string(text)))
		}
	}
	*n = numbers(text)
	return nil
}

// list returns nil for an empty list.
func (n numbers) list() (list []int) {
	for _, part := range strings.FieldsFunc(string(n), func(r rune) bool { return r == ',' }) {
		i, _ := strconv.Atoi(part) // checked by UnmarshalText
		list = append(list, i)
	}
	return list
}

// ortFlag holds settings of ONNX Runtime as KEY=VALUE,KEY=VALUE.
type ortFlag string

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *ortFlag) UnmarshalText(text []byte) error {
	for _, part := range strings.Split(string(text), ",") {
		if key, value, _ := strings.Cut(part, "="); key == "" || value == "" {
			return fmt.Errorf("%s: must be KEY=VALUE,..., such as library=/usr/lib/libonnxruntime.so,device_id=1", short.Quote(string(text)))
		}
	}
	*f = ortFlag(text)
	return nil
}

func (f ortFlag) options() ort.Options {
	all := map[string]string{}
	for _, part := range strings.FieldsFunc(string(f), func(r rune) bool { return r == ',' }) {
		key, value, _ := strings.Cut(part, "=")
		all[key] = value
	}
	return ort.OptionsOf(all)
}

// options returns the options that all evaluators share: ONNX files and GPU kernels are first tried in a separate process of this program,
// and services can be asked.
func options() (o open.Options) {
	o.Service = remote.Open
	if program, err := os.Executable(); err == nil { // on an error, nothing is tried
		o.Trial, o.GPUTrial = []string{program, onnxTrial}, []string{program, gpuTrial}
	}
	return o
}

// choose opens the evaluator of the flags. Messages for the user about the choice, and later about a failing GPU, go to notes.
func (f backend) choose(notes io.Writer) (*open.Opened, error) {
	o := options()
	o.Note, o.Event = linesTo(notes), linesTo(notes)
	return f.open(o)
}

// open opens the evaluator of the flags. o supplies the trials and callbacks; the flags override its other fields.
func (f backend) open(o open.Options) (*open.Opened, error) {
	if heuristic.Is(f.Backend) {
		if f.Model != "" {
			return nil, usage("--backend %s uses no model, but --model is %s", f.Backend, short.Quote(f.Model))
		}
		if f.Mirror {
			return nil, usage("--backend %s uses no network whose answers --mirror could improve", f.Backend)
		}
	} else if err := f.check(); err != nil {
		return nil, err
	}
	if f.GPUs != "" && !open.UsesGPUs(f.Backend) {
		return nil, usage("--backend %s uses no GPUs, but --gpus is %s", f.Backend, f.GPUs)
	}
	if isRemote(f.Model) && (f.Backend != open.Auto || f.GPUs != "" || f.Mirror) {
		return nil, usage("--backend, --gpus and --mirror do nothing with a model of another machine")
	}
	o.Model, o.Backend, o.Mirror, o.GPUs, o.CPUPath = f.Model, f.Backend, f.Mirror, f.GPUs.list(), f.CPUPath
	o.ORT = f.ORT.options()
	e, err := open.Open(o)
	return e, flagged(err)
}

// flagged names the flag in an error that names an option.
func flagged(err error) error {
	if none := (*open.NoGPUError)(nil); errors.As(err, &none) {
		return noGPU(none.Err)
	}
	return err
}

func noGPU(err error) error {
	return fmt.Errorf("--backend gpu: %w; --backend cpu evaluates networks", err)
}

// isRemote reports whether a model is on other machines.
func isRemote(model string) bool { return sortOf(model) == open.SortService }

// sortOf returns the sort of a model's name; an invalid name counts as a network's.
func sortOf(model string) open.Sort {
	name, err := open.ParseName(model)
	if err != nil {
		return open.SortNetwork
	}
	return name.Sort
}

// linesTo returns a function that writes a text to w as one line that begins with "evald: ".
func linesTo(w io.Writer) func(text string) {
	return func(text string) { fmt.Fprintf(w, "evald: %s\n", text) }
}

// boardOf parses the value of --rules.
func boardOf(text string) (*game.Board, error) {
	board, err := new(game.Boards).Parse(text)
	if err != nil {
		return nil, usage("--rules: %w", err)
	}
	return board, nil
}
