//go:build !first

package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/pattern"
	"github.com/evald/evald/nn/train"
	"github.com/evald/evald/nn/train/tables"
)

// checkTables checks the flags of a run that trains a network of pattern tables. Flags that would have no effect must have their defaults.
func (c *trainCmd) checkTables() error {
	if _, _, _, err := pattern.ParseShape(c.Network); err != nil {
		return fmt.Errorf("--network: %w", err)
	}
	for _, f := range []struct {
		flag  string
		given bool
	}{
		{"task gameover", c.Task == "gameover"},
		{"taste", c.Taste != ""},
		{"trainer", c.Trainer != "gorgonia"},
		{"optimizer", c.Optimizer != train.Muon},
		{"ema", c.EMA != 0.99},
		{"clip", c.Clip != 1},
		{"l2", c.L2 != 0.01},
	} {
		if f.given {
			return fmt.Errorf("--%s does nothing for networks of pattern tables, which learn by Adam: leave it out", f.flag)
		}
	}
	return nil
}

// tablesRate is the maximum learning rate of networks of pattern tables.
const tablesRate = 0.001

// runTables begins or continues a run that trains a network of pattern tables, and prints the results.
func (c *trainCmd) runTables(ctx context.Context, s streams, games game.Mix, line *kong.Context) error {
	var initial *pattern.Network
	if c.Init != "" {
		var err error
		if initial, err = pattern.ReadFile(c.Init); err != nil {
			return fmt.Errorf("--init: %w", err)
		}
	}
	if err := c.checkFolder(); err != nil {
		return err
	}
	all, err := c.lessons(games)
	if err != nil {
		return err
	}
	defer all.close()
	records := all[0].records
	config := c.config(all).ForTables()
	config.LR = cmp.Or(c.LR, tablesRate)
	trainer, err := tables.New(config, initial, records.Source, 0)
	if err != nil {
		return err
	}
	folder, err := train.OpenFolder(c.Out, config, trainer)
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := keepFlags(line, c.Out, c.Files); err != nil {
		return err
	}
	if err := c.train(ctx, s, folder, trainer.Done, config, all); err != nil {
		return err
	}
	return c.results(s, records.Source, records, func(source train.Source, examples int64, progress func(int)) (train.Losses, error) {
		return trainer.Measure(ctx, source, examples, progress)
	})
}
