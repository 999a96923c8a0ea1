package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/evald/evald/cmd/evald/internal/plot"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/train"
)

// trainCmd is `evald train`.
type trainCmd struct {
	Files []string `arg:"" optional:"" type:"existingfile" help:"Records to learn from (Parquet), or exact scores (lines of evald solve --scores); all of one game."`
	Out   string   `short:"o" required:"" type:"path" placeholder:"DIR" help:"The run's folder. A run that was interrupted or killed goes on where it stopped."`
	Task  string   `enum:"all,exact,gameover" default:"all" help:"all: records, with all losses. exact: the same from exact scores. gameover: the gameover head alone, from random positions."`

	Network string `default:"6x64" help:"Shape of the network: blocks x channels, such as 6x64, or with the heads, such as 6x64/32/64."`
	Init    string `type:"existingfile" placeholder:"F" help:"Begin with this network's weights (safetensors) instead of fresh ones; it may have fewer blocks."`
	Rules   string `default:"7x6x4" help:"The game: columns x rows x in-a-row."`
	Batch   int    `default:"1024" help:"Positions a step."`
	Steps   int    `default:"0" help:"Steps of the whole run; 0 is 2000 for gameover, and for records as many as take 4 passes over them."`

	LR        float64 `default:"0" help:"Greatest learning rate; 0 is 0.002, for sgd 0.05."`
	Schedule  string  `enum:"cosine,step" default:"cosine" help:"How the rate falls: cosine to 0, or step to a tenth at 60% and at 85% of the steps."`
	Warmup    int     `default:"-1" help:"Steps in which the rate rises; -1 is a twentieth, at most 1000."`
	Optimizer string  `enum:"muon,adamw,sgd" default:"muon" help:"${enum}; muon takes adamw for all but the blocks."`
	EMA       float64 `name:"ema" default:"0.99" help:"Decay of the moving average of the weights, which is the network that is saved; 0 saves the weights themselves."`
	Clip      float64 `default:"1" help:"Greatest norm of the gradient; 0 is no limit."`
	L2        float64 `name:"l2" default:"0.01" help:"Weight decay, decoupled: a step takes rate x this off each weight."`
	Seed      uint64  `help:"Of the fresh weights, the order of records, mirror images and random positions."`

	QShare     float64       `without:"task=gameover" name:"q-share" default:"0" help:"Share of the search's value in the target of win, draw and loss, 0 to 1; the rest is the game's outcome."`
	Heuristics bool          `without:"task=gameover|exact" help:"Learn also from records that a heuristic answered."`
	Test       int           `needs:"task=gameover" default:"100000" help:"gameover: at the end, measure the network on so many other positions, at the rates of random games."`
	Save       time.Duration `default:"1m" help:"Save the run every so often: what a kill may lose."`
	Plot       string        `type:"path" placeholder:"F.svg" help:"Draw the run's losses and accuracy."`
}

// Run begins or goes on with a run and says how it went.
func (c *trainCmd) Run(ctx context.Context, s streams) error {
	board, err := boardOf(c.Rules)
	if err != nil {
		return err
	}
	source, records, err := c.source(board)
	if err != nil {
		return err
	}
	if records != nil {
		defer records.Close()
	}
	initial, err := c.initial()
	if err != nil {
		return fmt.Errorf("--init: %w", err)
	}
	config := c.config(records)
	run, err := train.OpenRun(c.Out, config, initial, source, runtime.GOMAXPROCS(0))
	if err != nil {
		return err
	}
	defer run.Close()
	c.describe(s.err, config, records, run.Done())
	if err := c.train(ctx, s.err, run, config); err != nil {
		return err
	}
	if c.Plot != "" {
		metrics, err := train.ReadMetrics(filepath.Join(c.Out, train.MetricsFile))
		if err != nil {
			return err
		}
		title := fmt.Sprintf("%s, %v, batches of %d", config.Network, board.Rules(), config.Batch)
		if err := writeWhole(c.Plot, func(w io.Writer) error { return plot.Training(w, title, metrics) }); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.out, "network  %s\n", filepath.Join(c.Out, train.NetworkFile))
	if c.Task == "gameover" && c.Test > 0 {
		return c.measure(ctx, s, run.Network(), board)
	}
	return nil
}

// source is what the run learns from; records is nil for --task gameover.
func (c *trainCmd) source(b *game.Board) (source train.Source, records *train.Records, err error) {
	switch {
	case !(c.QShare >= 0 && c.QShare <= 1):
		return nil, nil, usage("--q-share %v: must be 0 to 1", c.QShare)
	case c.Batch < 1:
		return nil, nil, usage("--batch %d: must be 1 or more", c.Batch)
	case c.Task == "gameover" && len(c.Files) > 0:
		return nil, nil, usage("--task gameover makes its own positions: leave the files out")
	case c.Task == "gameover":
		return train.RulePositions(b, c.Seed), nil, nil
	case len(c.Files) == 0:
		return nil, nil, usage("no files to learn from; --task gameover needs none")
	}
	if c.Task == "exact" {
		records, err = train.OpenSolved(b, c.Seed, c.Files...)
	} else {
		records, err = train.OpenRecords(b, train.RecordOptions{Seed: c.Seed, Heuristics: c.Heuristics, QShare: c.QShare}, c.Files...)
	}
	if err != nil {
		return nil, nil, err
	}
	return train.WithRules(records.Source, b, c.Seed), records, nil
}

func (c *trainCmd) initial() (*net.Network, error) {
	if c.Init == "" {
		return nil, nil
	}
	return net.ReadFile(c.Init)
}

// config is the effective configuration.
func (c *trainCmd) config(records *train.Records) train.Config {
	config := train.Config{
		Task: c.Task, Network: c.Network, Init: c.Init, Rules: c.Rules, Batch: c.Batch, Steps: c.Steps, LR: c.LR, Schedule: c.Schedule,
		Warmup: c.Warmup, Optimizer: c.Optimizer, L2: c.L2, Clip: c.Clip, EMA: c.EMA, Seed: c.Seed, Weights: train.Weights{GameOver: 1},
	}
	if c.Steps == 0 {
		config.Steps = 2000
	}
	if records != nil {
		config.Weights = train.Weights{WDL: 1, Policy: 1, GameOver: 0.1}
		config.Records, config.QShare = records.Rows(), c.QShare
		if c.Steps == 0 {
			config.Steps = int(max(1, 4*records.Rows()/int64(c.Batch)))
		}
	}
	switch {
	case c.LR == 0 && c.Optimizer == train.SGD:
		config.LR = 0.05
	case c.LR == 0:
		config.LR = 0.002
	}
	if c.Warmup < 0 {
		config.Warmup = min(1000, config.Steps/20)
	}
	return config
}

// describe shows what is about to be done.
func (c *trainCmd) describe(w io.Writer, config train.Config, records *train.Records, done int) {
	from := "random positions"
	if records != nil {
		from = fmt.Sprintf("%d %s", records.Rows(), map[string]string{"all": "records", "exact": "solved positions"}[c.Task])
	}
	fmt.Fprintf(w, "evald train: %s, %s, from %s; %d steps of %d positions; %s, rate %g, %s after %d steps; seed %d; in %s",
		config.Network, config.Rules, from, config.Steps, config.Batch, config.Optimizer, config.LR, config.Schedule, config.Warmup, config.Seed, c.Out)
	if done > 0 {
		fmt.Fprintf(w, ", which has %d steps", done)
	}
	fmt.Fprintln(w)
	if records == nil {
		return
	}
	if ignored, of := records.Ignored(); ignored > 0 {
		fmt.Fprintf(w, "evald: of the first %d records %d were answered by heuristics and teach nothing; with --heuristics they do\n", of, ignored)
	}
}

// train makes the steps with a line of progress.
func (c *trainCmd) train(ctx context.Context, stderr io.Writer, run *train.Run, config train.Config) error {
	progress, start, first := newProgress(stderr, 0), time.Now(), run.Done()
	err := run.Train(ctx, c.Save, func(r train.Report) {
		if !progress.due() {
			return
		}
		took, steps := time.Since(start), r.Step-first
		left := time.Duration(float64(took) / float64(steps) * float64(config.Steps-r.Step))
		progress.text(fmt.Sprintf("step %d of %d, loss %s, %.0f positions/s, %v left", r.Step, config.Steps,
			losses(r), float64(steps)*float64(config.Batch)/took.Seconds(), left.Round(time.Second)))
	})
	progress.clear()
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintf(stderr, "evald: interrupted after %d of %d steps; the same command goes on\n", run.Done(), config.Steps)
		return errInterrupted
	}
	return err
}

// losses are a step's, in words.
func losses(r train.Report) string {
	var parts []string
	for _, t := range []struct {
		name string
		term *train.Term
	}{{"wdl", r.WDL}, {"policy", r.Policy}, {"gameover", r.GameOver}} {
		if t.term != nil {
			parts = append(parts, fmt.Sprintf("%s %.4f (%.2f%%)", t.name, t.term.Loss, 100*t.term.Accuracy()))
		}
	}
	return fmt.Sprintf("%.4f: %s", r.Total, strings.Join(parts, ", "))
}

// measure shows how often the gameover head is right on positions that the run has not seen.
func (c *trainCmd) measure(ctx context.Context, s streams, n *net.Network, b *game.Board) error {
	progress := newProgress(s.err, 0)
	defer progress.clear()
	other := ^c.Seed // its positions are others anyway: random numbers for measuring are not those for learning
	seen, err := train.Measure(ctx, n, b, train.NaturalPositions(b, other), c.Test, train.Weights{GameOver: 1}, func(done int) {
		progress.text(fmt.Sprintf("measuring: %d of %d positions", done, c.Test))
	})
	if err != nil {
		return err
	}
	progress.clear()
	t := seen.GameOver
	fmt.Fprintf(s.out, "gameover  accuracy %.6f, cross-entropy %.6f\n", t.Accuracy(), t.Loss)
	for class, name := range []string{"not over", "own win", "other's win", "draw"} {
		fmt.Fprintf(s.out, "  %-12s %d of %d right\n", name, t.Right[class], t.Rows[class])
	}
	return nil
}
