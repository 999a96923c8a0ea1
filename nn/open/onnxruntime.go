package open

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/nn/ort"
)

// byRuntime is a network in ONNX Runtime. It checks that each board fits the network.
type byRuntime struct {
	*ort.Backend
	codecs *codecs
}

// Compute implements eval.Backend.
func (r byRuntime) Compute(ctx context.Context, b *eval.Batch) error {
	if _, err := r.codecs.on(b.Board); err != nil {
		return err
	}
	return r.Backend.Compute(ctx, b)
}

func (o Options) runtimeOptions(backend string) (ort.Options, error) {
	r := o.ORT
	switch backend {
	case ORTCPU:
		r.Provider, r.Plugin, r.Settings = ort.CPU, "", nil
	case ORTCUDA:
		r.Provider, r.Plugin = ort.CUDA, ""
	case ORTTensorRT:
		r.Provider, r.Plugin = ort.TensorRT, ""
	}
	switch {
	case len(o.GPUs) == 0 || r.Provider == "" || r.Provider == ort.CPU:
	case len(o.GPUs) > 1:
		return r, fmt.Errorf("backend %s uses one GPU, but the GPUs are %v", backend, o.GPUs)
	default:
		r.Settings = maps.Clone(r.Settings)
		if r.Settings == nil {
			r.Settings = map[string]string{}
		}
		r.Settings["device_id"] = strconv.Itoa(o.GPUs[0])
	}
	return r, nil
}

// by opens the network with one of ONNX Runtime's backends.
func (f *Foreign) by(backend, name string, o Options) (*Opened, error) {
	options, err := o.runtimeOptions(backend)
	if err != nil {
		return nil, err
	}
	c := &codecs{of: f}
	_, first, err := c.first()
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	if options.Provider == ort.TensorRT {
		o.note("TensorRT prepares network %s for each size of batches, the first time for minutes; the cache keeps that", name)
	}
	b, err := ort.New(ort.Model{Name: name, Data: f.content}, c.codec(first), options)
	if err != nil {
		return nil, err
	}
	return &Opened{
		Evaluator: evaluator(byRuntime{b, c}), Model: name, Network: true, OnGPU: backend == ORTCUDA || backend == ORTTensorRT,
		How: fmt.Sprintf("network %s by %v", name, b), closers: []io.Closer{b},
	}, nil
}

// open opens an ONNX file with the backend that the options name.
func (f *Foreign) open(name string, o Options) (*Opened, error) {
	for _, hint := range f.Description.Hints() {
		o.note("model %s: description: %s", name, hint)
	}
	if err := f.check(name, o); err != nil {
		return nil, err
	}
	e, err := f.on(name, o)
	if err == nil {
		e.Evaluator = evaluator(eval.Foreign{Backend: e.Backend()})
		e.How += "; searches are plain"
	}
	return e, err
}

func (f *Foreign) on(name string, o Options) (*Opened, error) {
	switch o.Backend {
	case Auto:
		return f.fastest(name, o)
	case GPU:
		return f.onGPU(name, o)
	case CPU:
		return f.by(ORTCPU, name, o)
	}
	return f.by(o.Backend, name, o)
}

// fastest tries a GPU with the fastest of ONNX Runtime's providers, then the CPU, and last bitsquares.
func (f *Foreign) fastest(name string, o Options) (*Opened, error) {
	e, err := f.by(ORTCPU, name, o)
	if err != nil {
		return nil, err
	}
	stages := eval.Fallback{{Name: "cpu", Backend: e.Backend()}, {Name: "bitsquares", Backend: bitsquares()}}
	if _, none := driver.Find(); none != nil {
		e.How += "; no GPU: " + none.Error()
		e.Evaluator = evaluator(stages)
		return e, nil
	}
	g, err := f.onGPU(name, o)
	if err != nil {
		o.note("NO GPU, the CPU evaluates (%s): %v", e.How, err)
		e.Evaluator = evaluator(stages)
		return e, nil
	}
	g.How += "; should it fail, " + e.How
	g.closers = append(g.closers, e.closers...)
	g.Evaluator = evaluator(append(eval.Fallback{{Name: "gpu", Backend: g.Backend()}}, stages...))
	return g, nil
}

// onGPU opens the network on a GPU with the fastest of ONNX Runtime's providers.
func (f *Foreign) onGPU(name string, o Options) (*Opened, error) {
	board, _, err := (&codecs{of: f}).first()
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	key, providers := o.gpuProviders()
	all := make([]contender, len(providers))
	for i, p := range providers {
		all[i] = contender{p, func() (*Opened, error) { return f.by(p, name, o) }}
	}
	if len(all) == 0 { // opening CUDA reports what is missing
		all = []contender{{ORTCUDA, func() (*Opened, error) { return f.by(ORTCUDA, name, o) }}}
	}
	var reference *Opened
	g, err := o.fastestOf(fmt.Sprintf("%s; %x", key, sha256.Sum256(f.content)), all, func() (eval.Backend, error) {
		if reference, err = f.by(ORTCPU, name, o); err != nil {
			return nil, err
		}
		return reference.Backend(), nil
	}, board)
	if reference != nil {
		err = errors.Join(err, reference.Close())
	}
	if err != nil {
		return nil, &NoGPUError{err}
	}
	return g, nil
}

// gpuProviders returns ONNX Runtime's backends that may work on this machine's GPUs, and a key that identifies the machine and the library.
// It returns none if there is no GPU, or no library with such providers.
func (o Options) gpuProviders() (key string, all []string) {
	found, err := driver.Find()
	if err != nil || found.Devices[0].Emulated() {
		return "", nil
	}
	l, err := ort.Open(o.ORT)
	if err != nil {
		return "", nil
	}
	has := l.Providers()
	for _, p := range []struct{ backend, name string }{{ORTTensorRT, "TensorrtExecutionProvider"}, {ORTCUDA, "CUDAExecutionProvider"}} {
		if slices.Contains(has, p.name) {
			all = append(all, p.backend)
		}
	}
	devices := make([]string, len(found.Devices))
	for i, d := range found.Devices {
		devices[i] = d.Name
	}
	return fmt.Sprintf("%v; CUDA %d; %s", l, found.Version, strings.Join(devices, ", ")), all
}
