package main

import (
	"context"

	"github.com/evald/evald/nn/gpu"
	"github.com/evald/evald/nn/open"
)

// Hidden commands that other commands start as separate processes, see options.
const (
	onnxTrial = "onnx-trial"
	gpuTrial  = "gpu-trial"
)

// onnxTrialCmd opens an ONNX file in a separate process. Other commands start it before they open the file themselves
// (open.Options.Trial), because ONNX Runtime may crash on a hostile file.
type onnxTrialCmd struct{}

func (onnxTrialCmd) Run(ctx context.Context, s streams) error {
	return open.ORTTrial(ctx, s.in, s.out)
}

// gpuTrialCmd tries kernels on a GPU in a separate process (open.Options.GPUTrial), because a kernel may fault or never end.
type gpuTrialCmd struct{}

func (gpuTrialCmd) Run(s streams) error { return gpu.Trial(s.in, s.out) }
