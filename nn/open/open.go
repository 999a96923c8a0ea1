// Package open is the way in for programs that want positions evaluated. It turns a name into an evaluator that is ready,
// on the fastest device that works, with other evaluators behind it in case that one fails. The example of Evaluator is a
// whole program.
//
// Evaluator opens by name, and Network opens a network that the program has in memory. Find and Model look a model up and
// make no evaluator.
//
// Read open.go and network.go first; any.go and pattern.go: the networks that ship beside the default; model.go and search.go: files, their
// names and metadata; foreign.go, onnxruntime.go: ONNX files; trial.go (trial_*.go), race.go: what is found out once about a file or a GPU.
//
// Environment variables count. EVALD_MODELS is the folder of the user's own models (models.UserStore). EVALD_CPU_PATH is
// Options.CPUPath of those that set none. EVALD_CACHE_DIR is the folder of measurements (durable.CacheDir): when a network of a new
// shape is opened, its paths on the CPU are measured for a tenth of a second, and the rates are kept there. EVALD_ORT_LIBRARY and
// EVALD_PYTHON say where ONNX Runtime is (nn/ort).
package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/nn/cpu"
	"github.com/evald/evald/nn/gpu"
	"github.com/evald/evald/nn/ort"
)

// The backends that compute networks. Every other backend is a heuristic's name, such as "bitsquares".
const (
	Auto = "auto" // the GPU, if it fails the CPU, then the network FastModel, and last bitsquares
	GPU  = "gpu"  // the GPUs alone; batches are errors while none works
	CPU  = "cpu"  // the CPU alone

	// ONNX Runtime alone (nn/ort), also for networks of convolutions, which are exported for it: by one of its providers, or for ORT the one
	// that Options.ORT names.
	ORTCPU      = "ort-cpu"
	ORTCUDA     = "ort-cuda"
	ORTTensorRT = "ort-tensorrt"
	ORT         = "ort"
)

// Backends are the names of all backends that compute networks, Auto first.
func Backends() []string { return []string{Auto, GPU, CPU, ORTCPU, ORTCUDA, ORTTensorRT, ORT} }

// UsesGPUs reports whether a backend uses those that Options.GPUs names.
func UsesGPUs(backend string) bool {
	return slices.Contains([]string{Auto, "", GPU, ORTCUDA, ORTTensorRT}, backend)
}

// DefaultModel is the name of the network that evaluates if Options name none.
const DefaultModel = "default"

// Options say which evaluator is wanted. The zero value is the network that ships, by the backend Auto.
type Options struct {
	// Model is the network, of convolutions or of pattern tables (nn/pattern): the name of a shipped one, NAME or
	// NAME@VERSION of the user's store, or the path of a safetensors file. If it is empty, the networks that ship evaluate
	// the games that they are for, and bitsquares all others. It must be empty if the backend is a heuristic.
	Model string

	// Backend says who evaluates: Auto, GPU, CPU or a heuristic's name. Empty is Auto.
	Backend string

	// GPUs are the numbers of the GPUs that the backends GPU and Auto use, as the driver counts them; none: all. If one is
	// named, it must be there. GPULost hears, once, if the backend is GPU, that a fault has cost this process all of them: it
	// gets no answers from then on.
	GPUs    []int
	GPULost func(err error)

	// CPUPath is how the CPU computes networks of convolutions (kernels/cpu.Path), such as "avx512". Answers differ a little from
	// one path to another. If it and the variable EVALD_CPU_PATH are empty, rates on this machine choose (nn/cpu.Choose).
	CPUPath string

	// ORT says where ONNX Runtime's library is, and settings of its provider. Its provider and plugin count for the backend ORT alone.
	ORT ort.Options

	// Trial is a program with arguments that reads an ONNX file, its standard input, as ORTTrial does. Networks of ONNX files are opened
	// in this process only after it has succeeded: the library that reads such a file is not made for those of strangers. None: no trial.
	Trial []string

	// GPUTrial is a program with arguments that does what Trial of package gpu says, such as `evald gpu-trial`. Kernels for GPUs are tried
	// and measured in processes of it, and used here only after that. None: no kernel for one kind of GPU alone is used.
	GPUTrial []string

	// Mirror lets a network evaluate each position and its mirror image, and answers their mean. It costs twice the work,
	// and errors are fewer.
	Mirror bool

	// Exact, if above 0, answers positions exactly whose result a solver finds within that many nodes; see eval.NewExact.
	Exact solver.Nodes

	// Note hears, while the evaluator is opened, what a user should know of the choice: a GPU that does not work, a
	// network that is not trained. Event hears later if a GPU fails, and if it works again; it is called concurrently.
	// Both get a text without a line break at its end; one about several GPUs may have several lines. Either may be nil.
	Note, Event func(text string)
}

func (o Options) note(format string, args ...any) {
	if o.Note != nil {
		o.Note(fmt.Sprintf(format, args...))
	}
}

// Opened is an evaluator that is ready, and what is to be said of it. It is safe for concurrent use. Its caller closes it,
// and uses it no more from then on.
type Opened struct {
	*eval.Evaluator

	Model   string // what answers call the model: "default", "mine@3", "bitsquares"
	Version int    // of a stored or shipped network; 0 for others
	Network bool   // a network answers, and not a heuristic
	OnGPU   bool   // GPUs answer first
	How     string // how answers are computed, for people
	CPUPath string // by which the CPU computes the network, if it does; "" unless it is one of convolutions

	// Games are the games that the model answers, in the order of its manifest; AnyModel answers others, if Options name no model or one
	// of pattern tables, and bitsquares the rest. Nil: the model answers every game.
	Games []game.Rules

	mirrored bool // Model says so too

	any    *anyNetwork  // nil unless AnyModel answers others
	gpu    *gpu.Backend // nil if no GPU is used
	ort    []io.Closer  // backends of ONNX Runtime
	choice cpu.Choice   // of CPUPath; zero if it was named
}

// Evaluator opens the evaluator that the options ask for. The error names the option or the model that is wrong; if the
// backend is GPU and there is none that works, it is a *NoGPUError.
func Evaluator(o Options) (*Opened, error) {
	e, err := named(o)
	if err != nil {
		return nil, err
	}
	if o.Exact > 0 {
		e.Prove(o.Exact)
	}
	return e, nil
}

// Prove is Options.Exact for an evaluator that is open.
func (o *Opened) Prove(nodes solver.Nodes) {
	o.Evaluator = o.WithExact(eval.NewExact(nodes))
	o.How += fmt.Sprintf("; exact where %d nodes prove the result", nodes)
}

// named is Evaluator without Options.Exact.
func named(o Options) (*Opened, error) {
	if source, ok := heuristic.Named(o.Backend); ok {
		if o.Model != "" {
			return nil, fmt.Errorf("backend %s uses no model, but the model is %s", o.Backend, short.Quote(o.Model))
		}
		if o.Mirror {
			return nil, fmt.Errorf("backend %s uses no network whose answers Mirror could improve", o.Backend)
		}
		e, err := heuristic.New(source)
		if err != nil {
			return nil, err
		}
		return &Opened{Evaluator: e, Model: o.Backend, How: "heuristic " + o.Backend}, nil
	}
	if err := o.findGPUs(); err != nil { // before the model is read, since its file may be large
		return nil, err
	}
	m, n, err := Any(cmp.Or(o.Model, DefaultModel))
	if err != nil {
		return nil, err
	}
	if text := m.Warning(); text != "" {
		o.note("%s", text)
	}
	e, err := n.Open(m.Label(), o)
	if err != nil {
		return nil, err
	}
	if m.Path != "" { // it is the user's own
		o.suggestInt8(e)
	}
	constants, err := n.Search()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("model %s: %w", m.Label(), err), e.Close())
	}
	if constants != nil {
		e.Evaluator = evaluator(eval.Tuned{Backend: e.Backend(), Search: *constants})
		e.How += fmt.Sprintf("; searches with cpuct %g, fpu %g", constants.CPUCT, constants.FPU)
	}
	if e.Version = m.Version; o.Model != "" || n.Pattern != nil {
		return e, nil
	}
	games := make([]game.Rules, len(m.Rules))
	for i, text := range m.Rules {
		if games[i], err = game.ParseRules(text); err != nil {
			return nil, errors.Join(fmt.Errorf("model %s: %w", m.Name, err), e.Close())
		}
	}
	if err := e.elsewhere(games, o); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// findGPUs finds the GPUs that must be there.
func (o Options) findGPUs() error {
	if len(o.GPUs) > 0 && !UsesGPUs(o.Backend) {
		return fmt.Errorf("backend %s uses no GPUs, but the GPUs are %v", o.Backend, o.GPUs)
	}
	if o.Backend != GPU && len(o.GPUs) == 0 {
		return nil
	}
	found, err := driver.Find()
	if err == nil {
		_, err = found.Select(o.GPUs)
	}
	if err != nil {
		return &NoGPUError{err}
	}
	return nil
}

// Devices are the counts of the GPUs that the evaluator uses; nil if it uses none.
func (o *Opened) Devices() []gpu.DeviceStats {
	if o.gpu == nil {
		return nil
	}
	return o.gpu.Stats()
}

// only leaves to the network the games that it was trained on, and the others, of which it knows less, to another backend.
func (o *Opened) only(games []game.Rules, other eval.Backend) {
	o.Games = games
	o.Evaluator = evaluator(trained{o.Backend(), other, games})
}

// elsewhere leaves all but some games to AnyModel, and to bitsquares those that it does not know either.
func (o *Opened) elsewhere(games []game.Rules, options Options) (err error) {
	if o.any, err = newAny(options); err != nil {
		return err
	}
	o.only(games, o.any)
	o.How += "; network " + AnyModel + " on boards of " + strings.Join(o.any.ranges.Strings(), " and ") + ", bitsquares on others"
	return nil
}

// trained is a backend that asks the network about some games, and another backend about the rest.
type trained struct {
	network, other eval.Backend
	games          []game.Rules // that the network was trained on
}

func (t trained) Attributes() eval.Attributes { return t.network.Attributes() }

func (t trained) Compute(ctx context.Context, b *eval.Batch) error {
	if !slices.Contains(t.games, b.Board.Rules()) {
		return t.other.Compute(ctx, b)
	}
	return t.network.Compute(ctx, b)
}
