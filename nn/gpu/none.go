//go:build !(gpu && cgo && linux && amd64)

package gpu

import (
	"context"
	"errors"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/nn/net"
)

// Evaluator answers batches with a network on GPUs. This build has no GPU support.
type Evaluator struct{}

// New returns an error that says why there is no evaluator.
func New(n *net.Network, events func(string)) (e *Evaluator, notes []error, err error) {
	return NewOnly(n, "", events)
}

// NewOnly is New.
func NewOnly(*net.Network, string, func(string)) (e *Evaluator, notes []error, err error) {
	_, err = driver.Find()
	return nil, nil, err
}

var errNone = errors.New("gpu: not in this build")

// Evaluate returns an error.
func (*Evaluator) Evaluate(context.Context, *eval.Batch) error { return errNone }

// Time returns an error.
func (*Evaluator) Time(*game.Board, []game.Position, int) (Timing, error) { return Timing{}, errNone }

// Stats are empty.
func (*Evaluator) Stats() Stats { return Stats{} }

func (*Evaluator) String() string { return "no GPU" }

// Close does nothing.
func (*Evaluator) Close() error { return nil }
