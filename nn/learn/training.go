package learn

import (
	"context"
	"fmt"
	"time"

	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/pattern"
	"github.com/evald/evald/nn/train"
	"github.com/evald/evald/nn/train/tables"
)

// train trains the generation's network, starting from the previous network.
func (r *Run) train(ctx context.Context, g *Generation) error {
	c := r.at(g.Number)
	all, fresh, err := r.records(g)
	defer func() {
		for _, records := range all {
			records.Close()
		}
	}()
	if err != nil {
		return err
	}
	for _, records := range all {
		g.Records += records.Rows()
	}
	g.Steps = max(1, int(c.Passes*float64(fresh)/float64(c.Batch)))
	config := train.Config{
		Task: "all", Network: c.Network, Rules: c.Rules, Records: g.Records, Batch: c.Batch, Steps: g.Steps, LR: c.rate(g.Number), Schedule: train.Cosine,
		Warmup: min(50, g.Steps/10), Optimizer: train.Muon, L2: c.L2, QShare: c.QShare, Clip: 1, EMA: 0.99, Seed: c.seed(g.Number),
		Weights: train.Weights{WDL: 1, Policy: 1, GameOver: 0.1},
	}
	before := "" // file of the network to start from
	switch {
	case g.Number > 0:
		before, config.Init = r.network(g.Number-1), name(g.Number-1)
	case c.Init != "":
		before, config.Init = r.promoted(beginning), name(beginning)
	}
	open := r.openLayers
	if r.tables() {
		open = r.openTables
	}
	run, err := open(r.folder(g.Number, "train"), config, before, all)
	if err != nil {
		return err
	}
	defer run.close()
	start, done := time.Now(), run.Done()
	err = run.Train(ctx, time.Minute, func(s train.Report) {
		left := time.Duration(float64(time.Since(start)) / float64(s.Step-done) * float64(g.Steps-s.Step))
		r.progress(fmt.Sprintf("generation %d, training by %s: step %d of %d, loss %.4f, %v left", g.Number, run.about, s.Step, g.Steps, s.Total, left.Round(time.Second)))
	})
	if err != nil {
		return err
	}
	path := r.folder(g.Number, "train", train.MetricsFile)
	metrics, err := train.ReadMetrics(path)
	if err != nil {
		return err
	}
	if len(metrics) == 0 || metrics[len(metrics)-1].Step != g.Steps {
		return fmt.Errorf("%s: its last line is missing, that of step %d: remove the folder, and the network is trained again", path, g.Steps)
	}
	g.Metrics = &metrics[len(metrics)-1]
	return nil
}

// records opens the records of each board on which a generation is trained. fresh is the approximate number of those that come from the
// generation's own games, without further series. The caller must close the records, even after an error.
func (r *Run) records(g *Generation) (all []*train.Records, fresh int64, err error) {
	c := r.at(g.Number)
	played, windows := r.share(c.games(g.Number)), r.windows(g.Number)
	for i, b := range r.boards {
		files, games, err := r.files(g.Number, b, windows[i])
		if err != nil {
			return all, 0, err
		}
		if len(files) == 0 {
			return all, 0, fmt.Errorf("%v: its games have no positions to learn from: give it a larger share of --rules, or more games", b.Rules())
		}
		// Records that a heuristic answered count only if the heuristic played games of the window.
		records, err := train.OpenRecords(b, train.RecordOptions{Seed: r.Config.seed(g.Number), Heuristics: r.ofHeuristic(g, files), QShare: c.QShare}, files...)
		if err != nil {
			return all, 0, err
		}
		all = append(all, records)
		fresh += records.Rows() * int64(played[i]) / int64(max(1, games))
	}
	return all, fresh, nil
}

// training is a training run of a network of either kind.
type training struct {
	*train.Folder
	train.Steps
	about string // what computes the steps
	close func() error
}

// tables reports whether the networks are pattern tables (nn/pattern) rather than convolutions.
func (r *Run) tables() bool { return pattern.IsShape(r.Config.Network) }

// openLayers begins or resumes the training of a network of convolutions. Training starts from the network in the file before, unless that
// is "".
func (r *Run) openLayers(dir string, c train.Config, before string, all []*train.Records) (t training, err error) {
	var initial *net.Network
	if before != "" {
		if initial, err = net.ReadFile(before); err != nil {
			return t, err
		}
	}
	var lessons []train.Lesson
	for i, b := range r.boards {
		lessons = append(lessons, train.Lesson{Board: b, Source: train.WithRules(all[i].Source, b, c.Seed)})
	}
	run, err := train.OpenRun(dir, c, initial, lessons, r.by)
	if err != nil {
		return t, err
	}
	return training{run.Folder, run.Trainer, run.About(), run.Close}, nil
}

// openTables is openLayers for a network of pattern tables, which is trained on one board.
func (r *Run) openTables(dir string, c train.Config, before string, all []*train.Records) (t training, err error) {
	var initial *pattern.Network
	if before != "" {
		if initial, err = pattern.ReadFile(before); err != nil {
			return t, err
		}
	}
	c = c.ForTables()
	steps, err := tables.New(c, initial, all[0].Source, r.by.Threads)
	if err != nil {
		return t, err
	}
	folder, err := train.OpenFolder(dir, c, steps)
	return training{folder, steps, "plain Go", folder.Close}, err
}
