//go:build !first

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"github.com/evald/evald/cmd/evald/internal/plot"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/engine/selfplay"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/open"
	"github.com/evald/evald/nn/pattern"
	"github.com/evald/evald/nn/train"
)

type trainCmd struct {
	Files []string `arg:"" optional:"" type:"records" help:"Records to learn from (Parquet), also s3://BUCKET/FOLDER or s3://BUCKET/FILE.parquet, or exact scores (lines of evald solve --scores); each file is of one game."`
	Out   string   `short:"o" required:"" type:"path" placeholder:"DIR" run:"-" help:"The run's folder. An interrupted or killed run is resumed, and its files and other flags may then be left out. --trainer, --test, --save and --plot may be given anew, and the files, if they have moved; other flags with another value are an error."`
	Task  string   `run:"fixed" enum:"all,exact,gameover" default:"all" help:"all: learn from records, with all losses. exact: the same from exact scores. gameover: only the gameover head, from random positions."`

	Network string `run:"fixed" default:"6x64" help:"Shape of the network: blocks x channels, such as 6x64, or with the heads, such as 6x64/32/64; or pattern tables, which are fast also without a GPU, lanes x hidden x hidden, such as pattern128x64x32."`
	Init    string `run:"fixed" type:"existingfile" placeholder:"F" help:"Begin with this network's weights (safetensors) instead of random ones; it may have fewer blocks."`
	Rules   string `run:"fixed" default:"7x6x4" help:"The game: columns x rows x in-a-row; or several, each with its share of the steps, such as 5x4x4,6x5x4=2,7x6x4=2.5; or any: 48 games. Each step uses one game."`
	Batch   int    `run:"fixed" range:"1 to 65536" default:"1024" help:"Positions per step."`
	Steps   *int   `run:"fixed" range:"1 to 1073741824" help:"Steps of the whole run. Default: 4 passes over the records, or 2000 steps for gameover."`

	Trainer   string  `run:"change" enum:"gorgonia,torch" default:"gorgonia" help:"Trainer: ${enum}. torch needs a Python with PyTorch (EVALD_PYTHON, or python3), and uses a GPU if there is one. A run may be resumed with the other trainer."`
	LR        float64 `run:"fixed" range:"0 to 10" default:"0" help:"Maximum learning rate; 0 is 0.002."`
	Warmup    int     `run:"fixed" range:"-1 to 1073741824" default:"-1" help:"Steps in which the learning rate rises; -1 is a twentieth of all, at most 1000."`
	Optimizer string  `run:"fixed" enum:"muon,adamw" default:"muon" help:"Optimizer: ${enum}. muon is for the weights of the blocks; it uses adamw for the others."`
	EMA       float64 `run:"fixed" range:"0 to 0.999999" name:"ema" default:"0.99" help:"Decay of the moving average of the weights, which is the network that is saved; 0 saves the weights themselves."`
	Clip      float64 `run:"fixed" range:"0 to 1e+38" default:"1" help:"Maximum norm of the gradient; 0 is no limit."`
	L2        float64 `run:"fixed" range:"0 to 1" name:"l2" env:"EVALD_L2" default:"0.01" help:"Decoupled weight decay: a step subtracts learning rate x this x weight from each weight."`
	Seed      uint64  `run:"fixed" help:"Random seed of the first weights, the order of records, mirror images and random positions."`

	QShare     float64       `run:"fixed" range:"0 to 1" without:"task=gameover" name:"q-share" default:"0" help:"Share of the search's value in the target of win, draw and loss, 0 to 1; the rest is the game's outcome."`
	Heuristics bool          `run:"flag" without:"task=gameover|exact" help:"Also learn from records that a heuristic made."`
	Taste      string        `run:"fixed" without:"task=gameover" placeholder:"NAME|PATH" help:"Where exact results show that several moves are equally good, let a quarter of the policy's loss prefer those that this network prefers. Otherwise the network forgets which of them are hard to answer."`
	HeldOut    float64       `run:"fixed" range:"0 to 0.9" without:"task=gameover" name:"validate" default:"0" placeholder:"SHARE" help:"Share of the games that are held out (0.02 is one in fifty): training does not use them, and the metrics measure them during the run and at its end. The same seed and files hold out the same games. The column game names each row's game; without it, as with exact scores, successive rows are one game while a move leads from each to the next."`
	Without    []string      `run:"flag" type:"existingfile" without:"task=gameover" placeholder:"SET" help:"Refuse records with positions of these files or their mirror images: sets that measure networks, in the formats of evald score."`
	Test       int           `run:"change" range:"0 to 1073741824" needs:"task=gameover" default:"100000" help:"For gameover: measure the network at the end on this number of other positions, in the proportions of random games."`
	Save       time.Duration `run:"change" range:"0s to 8760h" default:"1m" help:"Time between saves of the run; a kill loses at most this much."`
	Plot       string        `run:"change" type:"path" placeholder:"F.svg" help:"Draw the run's losses and accuracy."`

	source *recordFiles // of Files
}

// Validate checks the flags before anything is read.
func (c *trainCmd) Validate() error {
	if c.Out == "" {
		return nil // the parser reports this
	}
	if len(c.Files) == 0 && c.Task != "gameover" {
		kept, err := readFlags(c.Out)
		if err != nil {
			return err
		}
		c.Files = resolvePaths(c.Out, kept.Flags["files"])
	}
	if pattern.IsShape(c.Network) {
		if err := c.checkTables(); err != nil {
			return err
		}
	} else if _, err := net.ParseConfig(c.Network); err != nil {
		return fmt.Errorf("--network: %w", err)
	}
	switch {
	case c.Task == "gameover" && len(c.Files) > 0:
		return errors.New("--task gameover makes its own positions: leave the files out")
	case c.Task == "gameover" && c.HeldOut > 0:
		return errors.New("--task gameover makes its own positions: leave --validate out, --test measures on others")
	case c.Task != "gameover" && len(c.Files) == 0:
		return errors.New("no files to learn from; --task gameover needs none")
	}
	return nil
}

func (c *trainCmd) Run(ctx context.Context, s streams, line *kong.Context) error {
	games, err := game.ParseMix(c.Rules)
	if err != nil {
		return usage("--rules: %w", err)
	}
	c.source = newRecordFiles(ctx)
	defer c.source.Close()
	if c.Files, err = c.source.Expand(c.Files); err != nil {
		return err
	}
	if _, err := os.Stat(c.Out); errors.Is(err, fs.ErrNotExist) {
		defer os.Remove(c.Out) // this removes only an empty folder
	}
	if pattern.IsShape(c.Network) {
		return c.runTables(ctx, s, games, line)
	}
	initial, err := c.initial()
	if err != nil {
		return fmt.Errorf("--init: %w", err)
	}
	if err := c.checkFolder(); err != nil {
		return err
	}
	all, err := c.lessons(games)
	if err != nil {
		return err
	}
	defer all.close()
	var boards []*game.Board
	for _, l := range all {
		boards = append(boards, l.board)
	}
	taste, checksum, closeTaste, err := openAdviser("taste", c.Taste, boards, s.err)
	if err != nil {
		return err
	}
	defer closeTaste()
	var sources []train.Lesson
	for _, l := range all {
		source := train.RulePositions(l.board, c.Seed)
		if l.records != nil {
			source = train.WithRules(l.records.Source, l.board, c.Seed)
		}
		if taste != nil {
			source = train.WithTaste(source, l.board, taste)
		}
		sources = append(sources, train.Lesson{Board: l.board, Source: source})
	}
	config := c.config(all)
	if taste != nil {
		config.TasteOf, config.Weights.Taste = checksum, train.TasteShare
	}
	run, err := train.OpenRun(c.Out, config, initial, sources, compute(c.Trainer))
	if err != nil {
		return err
	}
	defer run.Close()
	if err := keepFlags(line, c.Out, c.Files); err != nil {
		return err
	}
	if c.Trainer != "gorgonia" {
		fmt.Fprintf(s.err, "evald: steps by %s\n", run.About())
	}
	if err := c.train(ctx, s, run.Folder, run.Done, config, all); err != nil {
		return err
	}
	for i, l := range all {
		if len(all) > 1 {
			fmt.Fprintln(s.out, l.board.Rules())
		}
		if c.Task == "gameover" && c.Test > 0 {
			err = c.measure(ctx, s, run.Network(), l.board)
		} else {
			err = c.results(s, sources[i].Source, l.records, func(source train.Source, examples int64, progress func(int)) (train.Losses, error) {
				return train.Measure(ctx, run.Network(), l.board, source, int(examples), config.Weights, progress)
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// finish draws the run's curves if --plot is given, and prints the path of the network.
func (c *trainCmd) finish(s streams, config train.Config) error {
	if c.Plot != "" {
		metrics, err := train.ReadMetrics(filepath.Join(c.Out, train.MetricsFile))
		if err != nil {
			return err
		}
		title := fmt.Sprintf("%s, %s, batches of %d", config.Network, config.Rules, config.Batch)
		if err := writeWhole(c.Plot, func(w io.Writer) error { return plot.Training(w, title, metrics) }); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(s.out, "network  %s\n", filepath.Join(c.Out, train.NetworkFile))
	return err
}

// checkFolder checks, before anything is read, that the run can write its folder and that neither another command nor
// another run uses it.
func (c *trainCmd) checkFolder() error {
	if _, err := os.Stat(filepath.Join(c.Out, selfplay.ConfigFile)); err == nil {
		return fmt.Errorf("-o %s: has records of evald selfplay: name another folder", c.Out)
	}
	dir, err := durable.OpenDir(c.Out)
	if errors.Is(err, durable.ErrFolderInUse) {
		return fmt.Errorf("-o %w", err)
	}
	if err != nil {
		return fmt.Errorf("-o: %w: name another folder", err)
	}
	return dir.Close()
}

// records opens the records of a game.
func (c *trainCmd) records(b *game.Board, files []string) (records *train.Records, err error) {
	without, err := score.ReadSet(c.Without...)
	if err != nil {
		return nil, fmt.Errorf("--without: %w", err)
	}
	options := train.RecordOptions{Seed: c.Seed, Heuristics: c.Heuristics, QShare: c.QShare, HeldOut: c.HeldOut, Files: c.source, Without: without}
	if c.Task == "exact" {
		records, err = train.OpenSolved(b, options, files...)
	} else {
		records, err = train.OpenRecords(b, options, files...)
	}
	if err != nil {
		return nil, err
	}
	if err := c.enough(records, files); err != nil {
		return nil, errors.Join(err, records.Close())
	}
	return records, nil
}

// checkKind refuses a file of records if --task wants exact scores, and the reverse.
func (c *trainCmd) checkKind(file string) error {
	switch {
	case isBucket(file) && c.Task == "exact":
		return fmt.Errorf("exact scores %s: only records are read from buckets: copy the file to a folder", file)
	case isBucket(file):
		return nil // opening it checks it
	}
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return err // if it is not a regular file, opening it fails later
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	begin, err := io.ReadAll(io.LimitReader(f, 4))
	if err != nil {
		return err
	}
	switch parquet := string(begin) == "PAR1"; {
	case parquet && c.Task == "exact":
		return fmt.Errorf("exact scores %s: is Parquet: give lines of evald solve --scores, or leave --task exact out to learn from records", file)
	case !parquet && c.Task != "exact":
		return fmt.Errorf("records %s: is not Parquet: give records of evald selfplay, or --task exact to learn from exact scores", file)
	}
	return nil
}

// enough refuses records that are too few or too uniform to learn from.
func (c *trainCmd) enough(r *train.Records, from []string) error {
	files := from[0]
	if more := len(from) - 1; more > 0 {
		files += fmt.Sprintf(" and %d more", more)
	}
	switch {
	case r.Policies == 0:
		return fmt.Errorf("%s: column visits: none of the %d records that count has any, so that there is no policy to learn: play games with full searches (evald selfplay --full-share)", files, r.Count)
	case slices.Max(r.Outcomes[:]) == r.Count:
		return fmt.Errorf("%s: column z: all %d records that count ended alike, so that there is no outcome to learn: add records of games that ended otherwise", files, r.Count)
	case int64(c.Batch) > r.Rows():
		return fmt.Errorf("--batch %d: %s: there are only %d records to learn from: give --batch %d or less, or more records", c.Batch, files, r.Rows(), r.Rows())
	}
	return nil
}

// initial returns the network of --init, grown to the run's number of blocks; nil without --init.
func (c *trainCmd) initial() (*net.Network, error) {
	if c.Init == "" {
		return nil, nil
	}
	_, n, err := open.Model(c.Init)
	if err != nil {
		return nil, err
	}
	shape, err := net.ParseConfig(c.Network)
	if err != nil {
		return nil, err
	}
	if n, err = n.Grow(shape, c.Seed); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Init, err)
	}
	return n, nil
}

func (c *trainCmd) config(all lessons) train.Config {
	initial := ""
	if c.Init != "" {
		initial = filepath.Base(c.Init) // without the folder, which is private: this is written into the network's file
	}
	config := train.Config{
		Task: c.Task, Network: c.Network, Init: initial, Rules: c.Rules, Batch: c.Batch, LR: cmp.Or(c.LR, 0.002), Schedule: train.Cosine,
		Warmup: c.Warmup, Optimizer: c.Optimizer, L2: c.L2, Clip: c.Clip, EMA: c.EMA, Seed: c.Seed, Weights: train.Weights{GameOver: 1},
	}
	switch {
	case c.Steps != nil:
		config.Steps = *c.Steps
	case all.rows() > 0:
		config.Steps = int(max(1, 4*all.rows()/int64(c.Batch)))
	default:
		config.Steps = 2000
	}
	if all.rows() > 0 {
		config.Weights = train.Weights{WDL: 1, Policy: 1, GameOver: 0.1}
		config.Records, config.QShare, config.HeldOut = all.rows(), c.QShare, c.HeldOut
	}
	if c.Warmup < 0 {
		config.Warmup = min(1000, config.Steps/20)
	}
	return config
}

func (c *trainCmd) describe(w io.Writer, config train.Config, all lessons, done int) {
	from := "random positions"
	if all.rows() > 0 {
		from = fmt.Sprintf("%d %s", all.rows(), map[string]string{"all": "records", "exact": "solved positions"}[c.Task])
	}
	fmt.Fprintf(w, "evald train: %s, %s, from %s; %d steps of %d positions; %s, rate %g, %s after %d steps; seed %d; in %s",
		config.Network, config.Rules, from, config.Steps, config.Batch, config.Optimizer, config.LR, config.Schedule, config.Warmup, config.Seed, c.Out)
	if done > 0 {
		fmt.Fprintf(w, ", which has %d steps", done)
	}
	fmt.Fprintln(w)
	if out := all.heldOut(); out > 0 {
		fmt.Fprintf(w, "evald: %d records are held out\n", out)
	}
	if ignored := all.ignored(); ignored > 0 {
		fmt.Fprintf(w, "evald: of %d records %d were answered by heuristics and teach nothing; with --heuristics they do\n", all.rows(), ignored)
	}
}

// heldOutSample is the number of held-out records of each game that are measured during training.
const heldOutSample = 2048

func compute(trainer string) train.Compute {
	by := train.Compute{Threads: runtime.GOMAXPROCS(0)}
	if trainer == "torch" {
		by.Python, by.BFloat16 = python(), true
	}
	return by
}

// train runs the remaining training steps, shows their progress, and finishes the run.
func (c *trainCmd) train(ctx context.Context, s streams, run *train.Folder, done func() int, config train.Config, all lessons) error {
	c.describe(s.err, config, all, done())
	run.HeldOut = make([][]train.Example, len(all))
	for i, l := range all {
		if l.records != nil && l.records.HeldOut() != nil {
			run.HeldOut[i] = make([]train.Example, min(heldOutSample, l.records.HeldOut().Rows()))
			if err := l.records.HeldOut().Once(0, run.HeldOut[i]); err != nil {
				return err
			}
		}
	}
	progress, start, first := newProgress(s.err, 0), time.Now(), done()
	err := run.Train(ctx, c.Save, func(r train.Report) {
		if !progress.due() {
			return
		}
		took, steps := time.Since(start), r.Step-first
		left := time.Duration(float64(took) / float64(steps) * float64(config.Steps-r.Step))
		progress.text(fmt.Sprintf("step %d of %d, %.0f positions/s, %v left, loss %s", r.Step, config.Steps,
			float64(steps)*float64(config.Batch)/took.Seconds(), left.Round(time.Second), losses(r)))
	})
	progress.clear()
	if err := orInterrupted(ctx, err, s.err, " after %d of %d steps; the same command resumes it", done(), config.Steps); err != nil {
		return err
	}
	return c.finish(s, config)
}

func losses(r train.Report) string {
	var parts []string
	for _, c := range r.Heads().Curves() {
		if c.Metric != nil {
			parts = append(parts, fmt.Sprintf("%s %.4f (%.2f%%)", c.Name, c.Loss, 100*c.Accuracy))
		}
	}
	return fmt.Sprintf("%.4f: %s", r.Total, strings.Join(parts, ", "))
}

// learnedSample is the number of training examples that results measures at the end of the run.
const learnedSample = 1 << 14

// results prints the losses and the accuracy of the saved network on a sample of its training examples, and on all examples that were held
// out. by measures them.
func (c *trainCmd) results(s streams, source train.Source, records *train.Records, by func(source train.Source, examples int64, progress func(int)) (train.Losses, error)) error {
	progress := newProgress(s.err, 0)
	defer progress.clear()
	measure := func(source train.Source, examples int64) (train.Losses, error) {
		return by(source, examples, progress.counting("measuring", 0, int(examples)))
	}
	examples := int64(learnedSample)
	if records != nil {
		source, examples = records.Once, min(examples, records.Rows())
	}
	learned, err := measure(source, examples)
	if err != nil {
		return err
	}
	var heldOut train.Losses
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := "\tlearned\tloss\taccuracy\t"
	if records != nil && records.HeldOut() != nil {
		if heldOut, err = measure(records.HeldOut().Once, records.HeldOut().Rows()); err != nil {
			return err
		}
		head += "held out\tloss\taccuracy\t"
	}
	progress.clear()
	fmt.Fprintln(t, head)
	for _, loss := range []struct {
		name             string
		learned, heldOut *train.Term
	}{{"wdl", learned.WDL, heldOut.WDL}, {"policy", learned.Policy, heldOut.Policy}, {"gameover", learned.GameOver, heldOut.GameOver}} {
		if loss.learned == nil {
			continue
		}
		fmt.Fprintf(t, "%s\t", loss.name)
		for _, term := range []*train.Term{loss.learned, loss.heldOut} {
			if term != nil {
				fmt.Fprintf(t, "%d\t%.4f\t%.2f%%\t", term.Count(), term.Loss, 100*term.Accuracy())
			}
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// measure prints the accuracy of the gameover head on positions that the run has not seen.
func (c *trainCmd) measure(ctx context.Context, s streams, n *net.Network, b *game.Board) error {
	progress := newProgress(s.err, 0)
	defer progress.clear()
	other := ^c.Seed // even the same seed would give new positions: NaturalPositions has random numbers of its own
	seen, err := train.Measure(ctx, n, b, train.NaturalPositions(b, other), c.Test, train.Weights{GameOver: 1}, progress.counting("measuring", 0, c.Test))
	if err != nil {
		return err
	}
	progress.clear()
	t := seen.GameOver
	fmt.Fprintf(s.out, "gameover  accuracy %.6f, cross-entropy %.6f\n", t.Accuracy(), t.Loss)
	for class, name := range [game.GameOvers]string{game.NotOver: "not over", game.OwnWin: "own win", game.OtherWin: "other's win", game.Drawn: "draw"} {
		fmt.Fprintf(s.out, "  %-12s %d of %d right\n", name, t.Right[class], t.Rows[class])
	}
	return nil
}
