package main

import (
	"context"

	"github.com/evald/evald/nn/open"
)

// onnxTrialCmd opens an ONNX file in a process of its own. Whoever wants to use such a file starts it first (open.Options.Trial), because
// the library that reads the file was not made for those of strangers.
type onnxTrialCmd struct {
	Library string `arg:"" optional:"" help:"ONNX Runtime's library."`
}

func (c *onnxTrialCmd) Run(ctx context.Context, s streams) error {
	return open.ORTTrial(ctx, s.in, c.Library)
}
