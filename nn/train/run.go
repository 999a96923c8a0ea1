package train

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/train/tensorboard"
)

// Files in a run's folder, in addition to TensorBoard's.
const (
	ConfigFile     = "config.json"
	CheckpointFile = "checkpoint"
	NetworkFile    = "network.safetensors"
	MetricsFile    = "metrics.jsonl"
)

// Steps computes the steps of a run: a Trainer, or that of another kind of network.
type Steps interface {
	Done() int                                          // number of steps done
	Step() (Report, error)                              // makes the next step; after an error the state is not valid
	Judge(game int, examples []Example) (Losses, error) // losses of the network, as it would be saved, on examples of a game of Config.Rules
	Files() (network, checkpoint []byte, err error)     // the files that a folder stores
	Restore(checkpoint []byte) error                    // resumes from a checkpoint; an error changes nothing
}

// Folder is a run's folder. It contains the checkpoint, the current network and the metrics. The caller must close it.
type Folder struct {
	HeldOut [][]Example // by game of Config.Rules; may be empty; measured regularly for the metrics; must be set before Train

	config  Config
	games   game.Mix
	steps   Steps
	dir     *durable.Dir
	metrics *durable.Journal
	curves  *tensorboard.Writer
	means   means
}

// Run is a training run of a Trainer in a folder. The caller must close it.
type Run struct {
	*Trainer
	*Folder
}

// OpenRun starts a run in a folder, which it creates if necessary, or resumes the run in the folder. The other arguments are those of New.
func OpenRun(dir string, c Config, initial *net.Network, lessons []Lesson, by Compute) (*Run, error) {
	t, err := New(c, initial, lessons, by)
	if err != nil {
		return nil, err
	}
	f, err := OpenFolder(dir, c, t)
	if err != nil {
		t.Close()
		return nil, err
	}
	return &Run{t, f}, nil
}

// Close releases memory, files, goroutines and the folder's lock. It does not save the run.
func (r *Run) Close() error {
	r.Trainer.Close()
	return r.Folder.Close()
}

// OpenFolder starts a run in a folder, which it creates if necessary, or resumes the run in the folder.
func OpenFolder(dir string, c Config, steps Steps) (folder *Folder, err error) {
	f := &Folder{config: c, steps: steps}
	if f.games, err = game.ParseMix(c.Rules); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if f.dir, err = durable.OpenDir(dir); err != nil {
		return nil, err
	}
	checkpoint, err := os.ReadFile(f.dir.Path(CheckpointFile))
	if err == nil {
		err = steps.Restore(checkpoint)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if err := durable.KeepConfig(f.dir.Path(ConfigFile), c); err != nil { // also rejects the folder of another kind of run
		return nil, err
	}
	return f, f.openMetrics()
}

// openMetrics removes lines of steps after the checkpoint from the metrics and from TensorBoard's
// file.
func (f *Folder) openMetrics() error {
	path := f.dir.Path(MetricsFile)
	old, err := ReadMetrics(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	kept := slices.DeleteFunc(old, func(m Metrics) bool { return m.Step > f.steps.Done() })
	if f.metrics, err = durable.BeginJournal(path, kept); err != nil {
		return err
	}
	var points []tensorboard.Point
	for _, m := range kept {
		points = append(points, tensorboard.Point{Step: m.Step, Values: m.scalars()})
	}
	f.curves, err = tensorboard.Open(f.dir.Path(), points)
	return err
}

// Train makes the remaining steps. It saves the run every saveEvery and when it returns, unless a step fails. It returns early if ctx ends
// or an error occurs. progress, if not nil, is called after every step.
func (f *Folder) Train(ctx context.Context, saveEvery time.Duration, progress func(Report)) (err error) {
	saved := time.Now()
	for f.steps.Done() < f.config.Steps && err == nil {
		if err = ctx.Err(); err != nil {
			break
		}
		var report Report
		if report, err = f.steps.Step(); err != nil {
			return err // the state is not valid
		}
		err = f.note(report)
		if progress != nil {
			progress(report)
		}
		if time.Since(saved) > saveEvery {
			err = errors.Join(err, f.Save())
			saved = time.Now()
		}
	}
	return errors.Join(err, f.Save())
}

// Save writes the network and the checkpoint.
func (f *Folder) Save() error {
	network, checkpoint, err := f.steps.Files()
	if err != nil {
		return err
	}
	if err := durable.WriteFile(f.dir.Path(NetworkFile), network); err != nil {
		return fmt.Errorf("write network %s: %w", f.dir.Path(NetworkFile), err)
	}
	return durable.WriteFile(f.dir.Path(CheckpointFile), checkpoint)
}

// note adds a step to the means, and writes a line of metrics when one is due.
func (f *Folder) note(report Report) (err error) {
	f.means.add(report)
	every := min(max(1, f.config.Steps/400), 100)
	last := report.Step == f.config.Steps
	if report.Step%every != 0 && !last {
		return nil
	}
	m := f.means.metrics(report, f.config.Batch)
	f.means = means{}
	if between := f.linesBetween(every); between > 0 && (report.Step%(every*between) == 0 || last) {
		if err := f.judge(&m); err != nil {
			return err
		}
	}
	if err := f.metrics.Add(m); err != nil {
		return err
	}
	return f.curves.Scalars(report.Step, m.scalars()...)
}

// judge measures HeldOut for a line of metrics, as a whole and by game if there are several.
func (f *Folder) judge(m *Metrics) error {
	var all Losses
	for i, examples := range f.HeldOut {
		if len(examples) == 0 {
			continue
		}
		losses, err := f.steps.Judge(i, examples)
		if err != nil {
			return err
		}
		all.add(&losses)
		if len(f.games) > 1 {
			if m.Games == nil {
				m.Games = map[string]Heads{}
			}
			m.Games[f.games[i].Rules.String()] = losses.Heads()
		}
	}
	heads := all.Heads()
	m.HeldOut = &heads
	return nil
}

// linesBetween returns the number of metrics lines, one per `every` steps, from one measurement of HeldOut to the next; 0 if there is
// nothing to measure. Measuring an example takes one forward pass; training on one takes about three. So measuring one example for 30
// trained ones takes about 1% of the time.
func (f *Folder) linesBetween(every int) int {
	measured := 0
	for _, examples := range f.HeldOut {
		measured += (len(examples) + measureBatch - 1) / measureBatch * measureBatch
	}
	return (30*measured + every*f.config.Batch - 1) / (every * f.config.Batch)
}

// Close releases files and the folder's lock. It does not save the run.
func (f *Folder) Close() (err error) {
	if f.metrics != nil {
		err = errors.Join(err, f.metrics.Close())
	}
	if f.curves != nil {
		err = errors.Join(err, f.curves.Close())
	}
	if f.dir != nil {
		err = errors.Join(err, f.dir.Close())
	}
	return err
}

// ReadMetrics reads a run's metrics in the order of steps. It skips an incomplete last line, which a killed process may have left.
func ReadMetrics(path string) ([]Metrics, error) {
	return durable.ReadJournal[Metrics](path, "which only curves are drawn from")
}
