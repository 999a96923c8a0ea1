//go:build !(cgo && linux && (amd64 || arm64))

package ort

import (
	"context"
	"errors"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// Supported reports whether this program can open ONNX Runtime.
const Supported = false

var errNone = errors.New("this build cannot open ONNX Runtime (builds with cgo for linux/amd64 and linux/arm64 can)")

// Library is ONNX Runtime's library. This build has none.
type Library struct{ Path, From, Version string }

// Open returns an error.
func Open(Options) (*Library, error) { return nil, errNone }

// Providers returns none.
func (*Library) Providers() []string { return nil }

func (*Library) String() string { return "no ONNX Runtime" }

// Backend evaluates batches with a model. This build has none.
type Backend struct{}

// New returns an error.
func New(Model, Codec, Options) (*Backend, error) { return nil, errNone }

// Library returns nil.
func (*Backend) Library() *Library { return nil }

// Attributes returns empty ones.
func (*Backend) Attributes() eval.Attributes { return eval.Attributes{} }

// Prepare returns an error.
func (*Backend) Prepare(*game.Board, int) error { return errNone }

// Compute returns an error.
func (*Backend) Compute(context.Context, *eval.Batch) error { return errNone }

func (*Backend) String() string { return "no ONNX Runtime" }

// Close does nothing.
func (*Backend) Close() error { return nil }
