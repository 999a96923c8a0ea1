//go:build !first

package main

import (
	"context"
	"io"
	"time"

	"github.com/evald/evald/cmd/evald/internal/bench"
	"github.com/evald/evald/nn/open"
)

type benchServeCmd struct {
	Backend string        `enum:"cpu,gpu" default:"cpu" help:"Device of the network: ${enum}."`
	Model   string        `placeholder:"NAME|PATH" help:"The network to measure. Default: a random one of 6 blocks of 64 channels."`
	Round   time.Duration `range:"1ms to 1h" default:"1s" help:"Time of one round; a figure is the median of five."`
	JSON    bool          `help:"Write JSON instead of a table."`
}

func (c *benchServeCmd) Run(ctx context.Context, s streams) error {
	choose := backend{Backend: c.Backend, Model: c.Model}.choose
	if c.Model == "" {
		choose = func(notes io.Writer) (*open.Opened, error) { return scrambledOn(c.Backend, "6x64", "", notes) }
	}
	e, err := choose(s.err)
	if err != nil {
		return err
	}
	defer e.Close()
	return measure(s, c.JSON, bench.ServeTable, func(progress bench.Progress) ([]bench.ServeFigure, error) {
		return bench.Serve(ctx, c.Round, e.Evaluator, e.Model, progress)
	})
}
