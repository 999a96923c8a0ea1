package open

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/short"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/nn/cpu"
	"github.com/evald/evald/nn/gpu"
	"github.com/evald/evald/nn/net"
)

// PathVariable is the environment variable that selects the CPU's set of instructions; see Options.CPUPath.
const PathVariable = "EVALD_CPU_PATH"

// NoGPUError is the reason why the backend GPU cannot evaluate.
type NoGPUError struct {
	Err error // wraps driver.ErrNone if there is no GPU; otherwise no GPU passes its self-test
}

func (e *NoGPUError) Error() string {
	return fmt.Sprintf("backend gpu: %v; backend cpu evaluates networks", e.Err)
}

func (e *NoGPUError) Unwrap() error { return e.Err }

// Network opens a network, which must not change from then on; its name in answers is name. The network answers every game. Options.Model
// and Exact are ignored, and the backend must compute networks. Errors are those of Open.
func Network(n *net.Network, name string, o Options) (*Opened, error) {
	if err := o.findGPUs(); err != nil {
		return nil, err
	}
	var e *Opened
	var err error
	switch o.Backend {
	case GPU:
		e, err = onGPU(n, name, o)
	case CPU:
		e, err = onCPU(n, name, o)
	case Auto, "":
		e, err = fastest(n, name, o)
	case ORTCPU, ORTCUDA, ORTTensorRT, ORT:
		e, err = exported(n, name, o)
	default:
		err = notOfNetworks(o.Backend)
	}
	if err == nil {
		e.mirror(o)
	}
	return e, err
}

// notOfNetworks returns the error for a backend that does not compute networks.
func notOfNetworks(backend string) error {
	return fmt.Errorf("backend %s: must be one of %s for a network, and a heuristic's name such as bitsquares without one", short.Quote(backend), strings.Join(Backends(), ", "))
}

// bitsquares returns the backend for games that no network supports.
func bitsquares() eval.Backend { return heuristic.WithPower(heuristic.DefaultPower) }

func evaluator(b eval.Backend) *eval.Evaluator { return eval.New(b, eval.Options{}) }

// mirroredName is appended to the name of a model whose answers are means of a position and its mirror image.
const mirroredName = ", mirrored"

// mirror makes the evaluator answer with the mean of each position and its mirror image, if the options request it.
func (e *Opened) mirror(o Options) {
	if !o.Mirror {
		return
	}
	e.Evaluator = evaluator(eval.NewMirrored(e.Backend()))
	e.mirrored, e.Model = true, e.Model+mirroredName // a name of its own, because these are not the network's own answers
	e.How += ", the mean of each position and its mirror image"
}

// fastest tries the GPU, then the CPU, then FastModel, and last bitsquares.
func fastest(n *net.Network, name string, o Options) (*Opened, error) {
	c, err := onCPU(n, name, o)
	if err != nil {
		return nil, err
	}
	stages := eval.Fallback{{Name: "cpu", Backend: c.Backend()}, {Name: "fast", Backend: newFast()}, {Name: "bitsquares", Backend: bitsquares()}}
	e := &Opened{Model: name, Network: true, How: c.How, CPUPath: c.CPUPath, choice: c.choice}
	if g, err := fastestGPU(n, name, o); err == nil {
		e.How, e.OnGPU, e.gpu, e.ort = g.How+"; should it fail, "+c.How, true, g.gpu, g.ort
		stages = slices.Insert(stages, 0, eval.Stage{Name: "gpu", Backend: g.Backend()})
	} else {
		of := c.Backend().(*cpu.Backend)
		o.withoutGPU(e, err, fmt.Sprintf("path %s, %d threads", of.Path(), of.Threads()))
	}
	e.Evaluator = evaluator(stages)
	return e, nil
}

// withoutGPU says why the CPU alone evaluates, how being its path. A GPU that exists but fails is a note, because without the GPU, work may
// take hours instead of seconds.
func (o Options) withoutGPU(e *Opened, why error, how string) {
	if none := (*NoGPUError)(nil); errors.As(why, &none) {
		why = none.Err
	}
	if errors.Is(why, driver.ErrNone) {
		e.How += "; no GPU: " + why.Error()
		return
	}
	o.note("NO GPU, the CPU evaluates (%s): %v", how, why)
}

// fastestGPU opens the network on GPUs: with evald's own kernels, or with ONNX Runtime where that is faster.
func fastestGPU(n *net.Network, name string, o Options) (*Opened, error) {
	key, providers := o.gpuProviders()
	all := []contender{{GPU, func() (*Opened, error) { return onGPU(n, name, o) }}}
	for _, p := range providers {
		all = append(all, contender{p, func() (*Opened, error) {
			own := o
			own.Backend = p
			return exported(n, name, own)
		}})
	}
	return o.fastestOf(fmt.Sprintf("%s; %v", key, n.Config()), all, func() (eval.Backend, error) { return net.NewBackend(n), nil }, game.MustBoard(game.Connect4))
}

// onGPU opens the network on those GPUs of the options that work. Errors are of type *NoGPUError.
func onGPU(n *net.Network, name string, o Options) (*Opened, error) {
	e, notes, err := gpu.New(n, o.ofGPUs())
	return o.openedGPU(e, notes, err, name, name)
}

// ofGPUs returns the options for package gpu.
func (o Options) ofGPUs() gpu.Options {
	options := gpu.Options{Devices: o.GPUs, Trial: o.GPUTrial, Event: o.Event}
	if o.Backend == GPU {
		options.Lost = o.GPULost
	}
	return options
}

// openedGPU describes what gpu.New or gpu.NewTables has returned; network is the network's name in How.
func (o Options) openedGPU(e *gpu.Backend, notes []error, err error, name, network string) (*Opened, error) {
	if err != nil {
		return nil, &NoGPUError{err}
	}
	for _, note := range notes {
		o.note("%v", note)
	}
	return &Opened{Evaluator: evaluator(e), Model: name, Network: true, OnGPU: true, How: fmt.Sprintf("network %s on the gpu, %v", network, e), gpu: e}, nil
}

// onCPU opens the network on the CPU, with the path that the options or the environment name, or else with the one that cpu.Choose chooses.
func onCPU(n *net.Network, name string, o Options) (*Opened, error) {
	var e *cpu.Backend
	var c cpu.Choice
	if path := cmp.Or(o.CPUPath, os.Getenv(PathVariable)); path != "" {
		var err error
		if e, err = cpu.NewPath(n, kernel.Path(path)); err != nil {
			return nil, fmt.Errorf("%s or option CPUPath: %w", PathVariable, err)
		}
	} else {
		e, c = cpu.New(n)
		for _, err := range c.Failed {
			o.note("%v; another path evaluates", err)
		}
	}
	if kernel.Paths()[0] == kernel.Go {
		o.note("PLAIN GO evaluates, ten to thirty times slower than the kernels in C, which this program for %s/%s does not contain (make build includes them on amd64 and arm64, if there is a C compiler)", runtime.GOOS, runtime.GOARCH)
	}
	return &Opened{
		Evaluator: evaluator(e), Model: name, Network: true, CPUPath: string(e.Path()), choice: c,
		How: fmt.Sprintf("network %s on the cpu, path %s, %d threads", name, e.Path(), e.Threads()),
	}, nil
}

// suggestInt8 notes that the user's own network would be faster with ranges.
func (o Options) suggestInt8(e *Opened) {
	if gain, by := e.choice.Int8Gain(); gain > 0 && !e.OnGPU {
		o.note("model %s would be computed %.1f times as fast here with 8 bits (path %s): evald model int8 %[1]s -o F.safetensors makes such a network", o.Model, gain, by)
	}
}

// ModelOn returns the name, as in answers, of the model that answers a game: Model or, with
// Options.Substitute, AnyModel or bitsquares.
func (o *Opened) ModelOn(r game.Rules) string {
	switch {
	case o.any == nil || slices.Contains(o.Games, r):
		return o.Model
	case o.any.ranges.Contains(r):
		if o.mirrored { // AnyModel is mirrored too
			return AnyModel + mirroredName
		}
		return AnyModel
	}
	return eval.Bitsquares.String()
}

// Close waits for batches in progress on GPUs and in ONNX Runtime, and frees their memory. Further calls do nothing.
func (o *Opened) Close() error {
	var errs []error
	if o.gpu != nil {
		errs = append(errs, o.gpu.Close())
	}
	if o.any != nil {
		errs = append(errs, o.any.close())
	}
	for _, b := range o.ort {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}
