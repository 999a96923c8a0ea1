// Package open is the entry point for programs that evaluate positions. Given a name, it returns a ready evaluator on the fastest working
// device, with other evaluators as fallbacks. The example of Open is a complete program.
//
// Open opens a network by name; Network.Open opens one that is in memory. Find and Model look up models without opening an evaluator.
//
// Read open.go, catalog.go, opened.go and kind.go first: names, and what all kinds of networks have in common. conv.go,
// pattern.go and foreign.go are the kinds. supports.go and any.go: games that a network does not
// support. model.go and search.go: files, their names and metadata. devices.go and onnxruntime.go:
// GPUs and ONNX Runtime. trial.go (trial_*.go), company.go, race.go: checks and measurements that
// are made once for a file or a GPU.
//
// Environment variables: EVALD_MODELS is the folder of the user's own models (models.UserStore). EVALD_CPU_PATH is the default of
// Options.CPUPath. EVALD_CACHE_DIR is the folder of measurements (durable.CacheDir): when a network of a new shape is opened, its
// CPU paths are measured for a tenth of a second, and the rates are stored there. EVALD_ORT_LIBRARY and EVALD_PYTHON locate ONNX
// Runtime (nn/ort).
package open

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/nn/ort"
)

// The backends that compute networks. All other backends are heuristics' names, such as "bitsquares".
const (
	Auto = "auto" // the GPU, then the CPU, then the network FastModel, and last bitsquares; pattern tables: the GPU and the CPU
	GPU  = "gpu"  // only the GPUs; while none works, batches return errors
	CPU  = "cpu"  // only the CPU

	// Only ONNX Runtime (nn/ort). Networks of convolutions are exported for it; those of pattern tables are an error. ORT uses the provider of
	// Options.ORT; the others use their own providers.
	ORTCPU      = "ort-cpu"
	ORTCUDA     = "ort-cuda"
	ORTTensorRT = "ort-tensorrt"
	ORT         = "ort"
)

// Backends returns the names of all backends that compute networks, Auto first.
func Backends() []string { return []string{Auto, GPU, CPU, ORTCPU, ORTCUDA, ORTTensorRT, ORT} }

// UsesGPUs reports whether a backend uses Options.GPUs.
func UsesGPUs(backend string) bool {
	return slices.Contains([]string{Auto, "", GPU, ORTCUDA, ORTTensorRT}, backend)
}

// DefaultModel is the network that evaluates 7x6x4 if Options name no model.
const DefaultModel = "default"

// Options select an evaluator. The zero value selects the shipped networks and the backend Auto.
type Options struct {
	// Model is a Name: of a network or a heuristic, "exact" (which sets Exact), or a model of a service. If it is empty, the shipped
	// networks evaluate the games that they support, and bitsquares evaluates all others.
	Model string

	// Service connects to a model of a service. If it is nil, names of that form are an error.
	Service func(Name) (Connected, error)

	// Substitute makes AnyModel, or bitsquares outside its range, answer the games that the network
	// does not support. Without it they are an *eval.UnsupportedError. It is for names that the
	// program has chosen, because answers of another network must not count as those of the one
	// that a user has named. If Model is empty, it is always set.
	Substitute bool

	// Backend is one of Backends. Empty means Auto. A heuristic's name here means the same as in Model, which must be empty. With Auto, a network of pattern tables answers batches of few rows on
	// the CPU even if a GPU works, where that takes less time. Its answers have the same bits on both.
	Backend string

	// GPUs are the numbers of the GPUs that the backend uses, as the driver counts them; none means all. GPUs that are named must exist.
	// GPULost is called once, when a fault has cost this process all its GPUs, and only with the backend GPU. After that, batches get no
	// answers.
	GPUs    []int
	GPULost func(err error)

	// CPUPath names the CPU's set of instructions (kernels/cpu.Path) for networks of convolutions, such as "avx512". Answers
	// differ slightly between paths. If CPUPath and the variable EVALD_CPU_PATH are empty, measured rates decide (nn/cpu.Choose).
	CPUPath string

	// ORT locates ONNX Runtime's library and configures its provider. Provider and Plugin are used only by the backend ORT.
	ORT ort.Options

	// Trial is the command line of a program that calls ORTTrial with its standard input and output. This process opens an ONNX file
	// only after that program has succeeded, because the library is not made for untrusted files. If Trial is empty, there is no trial.
	Trial []string

	// GPUTrial is the command line of a program that calls gpu.Trial, such as `evald gpu-trial`. Kernels for GPUs are tried and measured in
	// its processes before this process uses them. If it is empty, kernels for a single kind of GPU are not used.
	GPUTrial []string

	// Mirror makes a network evaluate each position and its mirror image, and answer with the mean. This doubles the work and reduces
	// errors.
	Mirror bool

	// Exact, if above 0, makes a solver answer positions that it can prove within that number of nodes; see eval.NewExact.
	Exact solver.Nodes

	// Note is called during Open with messages for the user about the choice of evaluator: a GPU that does not work, an untrained network.
	// Event is called later, concurrently, when a GPU fails and when it works again. Texts do not end in a line break; a text about several
	// GPUs may have several lines. Either function may be nil.
	Note, Event func(text string)
}

// Connected is a backend at a service.
type Connected interface {
	eval.Backend
	io.Closer
}

func (o Options) note(format string, args ...any) {
	if o.Note != nil {
		o.Note(fmt.Sprintf(format, args...))
	}
}

// Open opens the evaluator that the options select. The error names the invalid option or model. With the backend GPU, it is a
// *NoGPUError if no GPU works.
func Open(o Options) (*Opened, error) {
	if o.Model == ExactModel {
		o.Model, o.Exact = "", cmp.Or(o.Exact, solver.ProbeNodes)
	}
	e, err := named(o)
	if err != nil {
		return nil, err
	}
	if o.Exact > 0 {
		e.Prove(o.Exact)
	}
	return e, nil
}

// named is Open without Options.Exact.
func named(o Options) (*Opened, error) {
	if _, ok, err := heuristic.Parse(o.Backend); ok {
		if err != nil {
			return nil, err
		}
		if o.Model != "" {
			return nil, fmt.Errorf("backend %s uses no model, but the model is %s", o.Backend, short.Quote(o.Model))
		}
		o.Model, o.Backend = o.Backend, Auto
	}
	name, err := ParseName(o.Model)
	if err != nil {
		return nil, err
	}
	switch name.Sort {
	case SortHeuristic:
		return o.heuristic(name)
	case SortSolver:
		return nil, fmt.Errorf("model %s answers scores, not evaluations: evald solve and the model %[1]s of evald serve ask it, and %s adds proved results to the networks that ship", SolverModel, ExactModel)
	case SortService:
		if o.Service == nil {
			return nil, fmt.Errorf("model %s: this program opens no models of services", name)
		}
		b, err := o.Service(name)
		if err != nil {
			return nil, err
		}
		return &Opened{Evaluator: evaluator(b), Model: name.Label(), Network: true, How: "by evald serve at " + name.Hosts, closers: []io.Closer{b}}, nil
	}
	if err := o.findGPUs(); err != nil { // before reading the model, whose file may be large
		return nil, err
	}
	o.Substitute = o.Substitute || o.Model == ""
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
	if m.Path != "" { // the user's own
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
	if e.Version = m.Version; o.Model != "" || n.Only() != "" {
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

// heuristic opens a heuristic, which the CPU alone computes.
func (o Options) heuristic(name Name) (*Opened, error) {
	switch {
	case o.Mirror:
		return nil, fmt.Errorf("heuristic %s uses no network whose answers Mirror could improve", name)
	case len(o.GPUs) > 0 || !slices.Contains([]string{"", Auto, CPU}, o.Backend):
		return nil, fmt.Errorf("heuristic %s is computed by the CPU alone, but the backend is %s, the GPUs are %v", name, cmp.Or(o.Backend, Auto), o.GPUs)
	}
	return &Opened{Evaluator: evaluator(name.Heuristic.New()), Model: name.String(), How: "heuristic " + name.String()}, nil
}
