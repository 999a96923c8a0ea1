package main

import (
	"context"

	"github.com/evald/evald/nn/open"
)

// onnxTrialCmd opens an ONNX file in a separate process. Other commands start it before they open the file themselves
// (open.Options.Trial), because ONNX Runtime may crash on a hostile file.
type onnxTrialCmd struct {
	Library string `arg:"" optional:"" help:"ONNX Runtime's library."`
}

func (c *onnxTrialCmd) Run(ctx context.Context, s streams) error {
	return open.ORTTrial(ctx, s.in, c.Library)
}
