//go:build !(gpu && cgo && linux && amd64)

package gpu

import (
	"context"
	"errors"
	"io"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/pattern"
)

// Backend answers batches with a network on GPUs. This build has no GPU support.
type Backend struct{}

// New returns an error that says why there is no backend.
func New(*net.Network, Options) (e *Backend, notes []error, err error) {
	_, err = driver.Find()
	return nil, nil, err
}

// NewTables returns an error that says why there is no backend.
func NewTables(*pattern.Network, Options) (e *Backend, notes []error, err error) {
	_, err = driver.Find()
	return nil, nil, err
}

var errNone = errors.New("gpu: not in this build")

// Trial returns an error.
func Trial(io.Reader, io.Writer) error { return errNone }

// Attributes are empty.
func (*Backend) Attributes() eval.Attributes { return eval.Attributes{} }

// Compute returns an error.
func (*Backend) Compute(context.Context, *eval.Batch) error { return errNone }

// Time returns an error.
func (*Backend) Time(*game.Board, []game.Position, int) (Timing, error) { return Timing{}, errNone }

// Stats are empty.
func (*Backend) Stats() []DeviceStats { return nil }

func (*Backend) String() string { return "no GPU" }

// Close does nothing.
func (*Backend) Close() error { return nil }
