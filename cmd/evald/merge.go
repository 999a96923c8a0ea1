package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
	"github.com/evald/evald/engine/labels"
	"github.com/evald/evald/engine/score"
)

type mergeCmd struct {
	Files []string `arg:"" type:"records" help:"Records of exact results, such as those of evald positions --train; also s3://BUCKET/FOLDER or s3://BUCKET/FILE.parquet."`
	Out   string   `short:"o" required:"" type:"path" placeholder:"DIR" help:"Folder of the merged records, merged-NUMBER.parquet."`
	copyFlag
	Rules   string   `default:"7x6x4" help:"The game: columns x rows x in-a-row; or several, each with its share of --records, such as 5x4x4,6x5x4=2,7x6x4=2.5, and each with a folder of its own; or any, 48 games for one network to learn."`
	Without []string `type:"existingfile" placeholder:"SET" help:"Leave out the positions of these files and their mirror images: sets that measure networks, in the formats of evald score."`
	Records *int     `range:"1 to 1000000000" placeholder:"N" help:"Draw this number of records, instead of taking each position once."`
	Shares  []string `needs:"records" placeholder:"FROM-TO=SHARE" help:"Shares of the records by numbers of stones, such as 0-9=2,10-41=3; positions are repeated to fill a share. With roots, the share of a number of stones is proportional to the square root of the number of its positions. Default: proportional to the number."`
	Matter  float64  `range:"0 to 1" needs:"records" default:"0.5" help:"Part of each share for positions where some moves keep the result and others do not. A larger part teaches the policy more, but biases the values, because such positions are won more often than others."`
	Seed    uint64   `help:"Random seed of the order and of the drawn records."`

	Importance string `needs:"records" placeholder:"NAME|PATH" help:"Draw positions more often the worse this network predicts their results and moves, and give their records less weight in return: a network then learns the same in fewer steps. Name the network that training begins with, and draw again when it has learned more."`
}

// mergeConfig has the settings of the merge that made the files of a folder.
type mergeConfig struct {
	Rules   string   `json:"rules"`
	Files   []string `json:"files"`
	Without []string `json:"without,omitempty"`
	Records int      `json:"records,omitempty"`
	Shares  []string `json:"shares,omitempty"`
	Matter  float64  `json:"matter,omitempty"`
	Seed    uint64   `json:"seed"`

	Importance string `json:"importance,omitempty"` // the checksum of the network's file
}

func (c *mergeCmd) Run(ctx context.Context, s streams) error {
	mix, boards, err := boardsOf(c.Rules)
	if err != nil {
		return err
	}
	from := newRecordFiles(ctx)
	defer from.Close()
	if c.Files, err = from.Expand(c.Files); err != nil {
		return err
	}
	files, err := filesOfAll(from, mix, c.Rules, c.Files, false)
	if err != nil {
		return err
	}
	var counts []int
	if c.Records != nil {
		counts = mix.Counts(*c.Records)
	}
	for i, board := range boards {
		one := *c
		one.Rules, one.Files, one.Out = board.Rules().String(), files[i], folderOf(mix, c.Out, board.Rules())
		one.CopyTo = folderOf(mix, c.CopyTo, board.Rules())
		if counts != nil {
			one.Records = &counts[i]
		}
		if err := one.mergeGame(ctx, s, from, board); err != nil {
			return err
		}
	}
	return nil
}

// mergeGame merges the records of one game.
func (c *mergeCmd) mergeGame(ctx context.Context, s streams, from *recordFiles, board *game.Board) error {
	shares, err := c.shares(board)
	if err != nil {
		return err
	}
	without, err := score.ReadSet(c.Without...)
	if err != nil {
		return fmt.Errorf("--without: %w", err)
	}
	dir, err := durable.OpenDir(c.Out)
	if errors.Is(err, durable.ErrFolderInUse) {
		return fmt.Errorf("%s: another program is writing to this folder: wait for it, or name another one with -o", c.Out)
	}
	if err != nil {
		return err
	}
	config := mergeConfig{Rules: c.Rules, Files: c.Files, Without: c.Without, Shares: c.Shares, Seed: c.Seed}
	if c.Records != nil {
		config.Records, config.Matter = *c.Records, c.Matter
	}
	learner, checksum, closeLearner, err := openAdviser("importance", c.Importance, []*game.Board{board}, s.err)
	if err != nil {
		return errors.Join(err, dir.Close())
	}
	defer closeLearner()
	config.Importance = checksum
	err = durable.KeepConfig(dir.Path("merge.json"), config)
	if err == nil {
		pool := labels.NewPool(board, without)
		pool.Files = from
		err = c.merge(ctx, s, pool, learner, shares)
	}
	if err == nil && c.CopyTo != "" {
		err = c.copyFiles(ctx, s, from, c.Out, "merged-*.parquet")
	}
	return errors.Join(err, dir.Close())
}

func (c *mergeCmd) merge(ctx context.Context, s streams, pool *labels.Pool, learner *eval.Evaluator, shares []labels.Share) error {
	progress := newProgress(s.err, 0)
	defer progress.clear()
	show := progress.counting("records read", 0, 0)
	for _, file := range c.Files {
		if err := pool.Add(ctx, file, show); err != nil {
			return err
		}
	}
	if err := pool.Settle(); err != nil {
		return err
	}
	if learner != nil {
		if err := pool.Ask(ctx, learner, progress.counting("positions asked", 0, pool.Positions())); err != nil {
			return err
		}
	}
	var choice labels.Choice
	var drawn []labels.Drawn
	if c.Records == nil {
		choice = pool.All(c.Seed)
	} else {
		if c.roots() {
			shares = pool.Roots()
		}
		var err error
		if choice, drawn, err = pool.Draw(shares, *c.Records, c.Matter, c.Seed); err != nil {
			return fmt.Errorf("--shares: %w", err)
		}
	}
	written := progress.counting("files written", 0, choice.Files())
	err := jobs.Each(ctx, runtime.GOMAXPROCS(0), choice.Files(), func(ctx context.Context, _, n int) error {
		defer written(n + 1)
		return pool.Write(ctx, choice, c.Out, n)
	})
	if err != nil {
		return err
	}
	progress.clear()
	return c.report(s, pool, choice, drawn)
}

func (c *mergeCmd) report(s streams, pool *labels.Pool, choice labels.Choice, drawn []labels.Drawn) error {
	fmt.Fprintf(s.out, "%s: %d records in %d files, of %d records with %d positions; %d were left out, because they are in sets of --without\n",
		c.Out, len(choice), choice.Files(), pool.Read, pool.Positions(), pool.LeftOut)
	if len(drawn) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "stones\tpositions\tthe move matters\trecords\t")
	for _, d := range drawn {
		fmt.Fprintf(t, "%d-%d\t%d\t%d\t%d\t\n", d.From, d.To, d.Positions, d.Matter, d.Records)
	}
	return t.Flush()
}

// roots reports whether --shares is roots, which derives the shares from the numbers of positions.
func (c *mergeCmd) roots() bool { return slices.Equal(c.Shares, []string{"roots"}) }

// shares parses --shares. Without it, or with roots, a single share has all numbers of stones.
func (c *mergeCmd) shares(b *game.Board) (all []labels.Share, err error) {
	if len(c.Shares) == 0 || c.roots() {
		return []labels.Share{{Plies: labels.Plies{To: b.Cells()}, Share: 1}}, nil
	}
	for _, text := range c.Shares {
		plies, share, _ := strings.Cut(text, "=")
		one := labels.Share{}
		if one.Plies, err = parsePlies(plies, b.Cells()-1); err == nil {
			one.Share, err = strconv.ParseFloat(share, 64)
		}
		if err != nil || !(one.Share > 0 && one.Share <= 1e6) {
			return nil, usage("--shares %s: want FROM-TO=SHARE, such as 0-9=2: numbers of stones up to %d, and a share greater than 0", text, b.Cells()-1)
		}
		for _, other := range all {
			if one.From <= other.To && other.From <= one.To {
				return nil, usage("--shares %s: %d stones have a share already", text, max(one.From, other.From))
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// parsePlies parses numbers of stones, at most most, as FROM-TO or one number.
func parsePlies(text string, most int) (p labels.Plies, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	var errs [2]error
	p.From, errs[0] = strconv.Atoi(from)
	p.To, errs[1] = strconv.Atoi(to)
	if errs != [2]error{} || p.From < 0 || p.From > p.To || p.To > most {
		return p, fmt.Errorf("%q: want a number of stones or FROM-TO, such as 10-12, of 0 to %d", text, most)
	}
	return p, nil
}
