package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/evald/evald/cmd/evald/internal/bench"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/sample"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/nn/cpu"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/open"
)

type modelInt8Cmd struct {
	Model string `arg:"" name:"NAME|PATH" help:"A name of evald model list, NAME@VERSION, or a safetensors file."`
	Out   string `short:"o" aliases:"output" required:"" type:"path" placeholder:"F.safetensors" help:"The file of the new network, for evald model import."`
	Rules string `placeholder:"7x6x4" help:"The game whose positions measure the ranges of the layers' inputs: columns x rows x in-a-row. Default: the first game that the model was trained on, or 7x6x4."`
	Count int    `range:"1 to 100000" default:"1000" help:"Positions of each kind: random play, plausible play, openings."`
	Seed  uint64 `default:"1" help:"Random seed of the positions."`
}

// Run writes the network, and reports how far its answers are from those of the original.
func (c *modelInt8Cmd) Run(ctx context.Context, s streams) error {
	if !strings.HasSuffix(strings.ToLower(c.Out), ".safetensors") {
		return usage("-o %s: want a name that ends in .safetensors", c.Out)
	}
	m, n, err := open.Model(c.Model)
	if err != nil {
		return err
	}
	board, err := boardOf(cmp.Or(c.Rules, strings.Join(m.Rules[:min(len(m.Rules), 1)], ""), game.Connect4.String()))
	if err != nil {
		return err
	}
	positions, err := c.positions(ctx, board, c.Seed)
	if err != nil {
		return err
	}
	rounded, err := cpu.Int8(ctx, n, board, positions)
	if err != nil {
		return err
	}
	content, err := rounded.Marshal()
	if err != nil {
		return err
	}
	if err := durable.WriteFile(c.Out, content); err != nil {
		return err
	}
	fresh, err := c.positions(ctx, board, c.Seed+1)
	if err != nil {
		return err
	}
	return c.compare(ctx, s, board, fresh, n, rounded)
}

func (c *modelInt8Cmd) positions(ctx context.Context, board *game.Board, seed uint64) ([]game.Position, error) {
	var all []game.Position
	for _, k := range sample.Kinds() {
		games, err := sample.Draw(ctx, board, k, c.Count, seed, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, sample.Positions(board, games)...)
	}
	return all, nil
}

// compare prints how much answers differ from those of the original network: by the rounding of the weights alone, and then for each path
// of this machine that computes with 8 bits.
func (c *modelInt8Cmd) compare(ctx context.Context, s streams, board *game.Board, positions []game.Position, before, after *net.Network) error {
	answer := func(n *net.Network, p kernel.Path) (*eval.Batch, error) {
		e, err := cpu.NewPath(n, p)
		if err != nil {
			return nil, err
		}
		b := eval.NewBatch(board, len(positions))
		copy(b.Pos, positions)
		return b, e.Compute(ctx, b)
	}
	was, err := answer(before, kernel.Float32())
	if err != nil {
		return err
	}
	is, err := answer(after, kernel.Float32())
	if err != nil {
		return err
	}
	say := func(what string, got, want *eval.Batch) {
		d := bench.Compare(got.WDL, got.Policy, want)
		fmt.Fprintf(s.out, "%s: win, draw and loss differ by %.4f at the 99th percentile, %.1f%% of best moves, in %d other positions\n",
			what, d.WDL99, 100*d.Changed, len(positions))
	}
	fmt.Fprintf(s.out, "%s: written, its first convolutions can be computed with 8 bits\n", c.Out)
	say("rounded weights", is, was)
	for _, p := range cpu.Paths(after) {
		if !p.Int8() {
			continue
		}
		got, err := answer(after, p)
		if err != nil {
			return err
		}
		say("path "+string(p), got, is)
	}
	return nil
}
