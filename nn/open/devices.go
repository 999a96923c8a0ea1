package open

import (
	"errors"
	"fmt"

	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/nn/gpu"
)

// NoGPUError is the reason why the backend GPU cannot evaluate.
type NoGPUError struct {
	Err error // wraps driver.ErrNone if there is no GPU; otherwise no GPU passes its self-test
}

func (e *NoGPUError) Error() string {
	return fmt.Sprintf("backend gpu: %v; backend cpu evaluates networks", e.Err)
}

func (e *NoGPUError) Unwrap() error { return e.Err }

// findGPUs checks that the GPUs that the options name exist.
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
	e.NoGPU = true
	o.note("NO GPU, the CPU evaluates (%s): %v", how, why)
}
