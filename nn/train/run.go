package train

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/evald/evald/engine/rundir"
	"github.com/evald/evald/engine/wholefile"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/train/tensorboard"
)

// The files of a run's folder, beside TensorBoard's.
const (
	ConfigFile     = "config.json"
	CheckpointFile = "checkpoint"
	NetworkFile    = "network.safetensors"
	MetricsFile    = "metrics.jsonl"
)

// Run is a training run in a folder. The folder holds the checkpoint to resume from and the network learned so far. The
// caller must Close it.
type Run struct {
	*Trainer
	HeldOut []Example // measured now and then for the metrics, if not empty; set it before Train

	dir     *rundir.Dir
	metrics *rundir.Journal
	events  *os.File
	board   *tensorboard.Writer
	means   means
}

// OpenRun starts a run in a folder, which it creates if necessary, or resumes the run that is there. The other arguments are
// as in New.
func OpenRun(dir string, c Config, initial *net.Network, source Source, by Compute) (run *Run, err error) {
	r := &Run{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if r.Trainer, err = New(c, initial, source, by); err != nil {
		return nil, err
	}
	if r.dir, err = rundir.Open(dir); err != nil {
		return nil, err
	}
	if err := r.restore(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if err := rundir.Keep(r.dir.Path(ConfigFile), c); err != nil { // also refuses the folder of a run of another kind
		return nil, err
	}
	return r, r.openMetrics()
}

// restore resumes from the folder's checkpoint, if there is one.
func (r *Run) restore() error {
	file, err := os.ReadFile(r.dir.Path(CheckpointFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.Restore(file)
}

// openMetrics drops metrics of steps after the checkpoint's from the file, and starts a new file for TensorBoard.
func (r *Run) openMetrics() error {
	path := r.dir.Path(MetricsFile)
	old, err := ReadMetrics(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	kept := slices.DeleteFunc(old, func(m Metrics) bool { return m.Step > r.Done() })
	if r.metrics, err = rundir.BeginJournal(path, kept); err != nil {
		return err
	}
	now := time.Now()
	name := fmt.Sprintf("events.out.tfevents.%d.evald", now.UnixNano()/1e6)
	if r.events, err = os.Create(r.dir.Path(name)); err != nil {
		return err
	}
	r.board, err = tensorboard.NewWriter(r.events, now, r.Done()+1)
	return err
}

// Train makes the remaining steps. It saves the run every saveEvery and when it returns, except if a step fails. It returns
// early with the error of a cancelled context or any other error. progress, if not nil, is called after every step.
func (r *Run) Train(ctx context.Context, saveEvery time.Duration, progress func(Report)) (err error) {
	saved := time.Now()
	for r.Done() < r.config.Steps && err == nil {
		if err = ctx.Err(); err != nil {
			break
		}
		var report Report
		if report, err = r.Step(); err != nil {
			return err // these weights are not worth keeping
		}
		err = r.note(report)
		if progress != nil {
			progress(report)
		}
		if time.Since(saved) > saveEvery {
			err = errors.Join(err, r.Save())
			saved = time.Now()
		}
	}
	return errors.Join(err, r.Save())
}

// trainingKey is the key of the network's metadata that holds the checkpoint's header.
const trainingKey = "evald.training"

// Save writes the network and the checkpoint.
func (r *Run) Save() error {
	if err := r.computer.fetch(); err != nil {
		return err
	}
	r.Network().Metadata[trainingKey] = string(r.header())
	if err := r.Network().WriteFile(r.dir.Path(NetworkFile)); err != nil {
		return err
	}
	return wholefile.Write(r.dir.Path(CheckpointFile), r.Checkpoint())
}

// note adds a step to the means, and writes a line of metrics when one is due.
func (r *Run) note(report Report) (err error) {
	r.means.add(report)
	every := min(max(1, r.config.Steps/400), 100)
	last := report.Step == r.config.Steps
	if report.Step%every != 0 && !last {
		return nil
	}
	m := r.means.metrics(report, r.config.Batch)
	r.means = means{}
	if between := every * r.linesBetween(every); len(r.HeldOut) > 0 && (report.Step%between == 0 || last) {
		if m.HeldOut, err = r.measureHeldOut(); err != nil {
			return err
		}
	}
	if err := r.metrics.Add(m); err != nil {
		return err
	}
	return r.board.Scalars(time.Now(), report.Step, m.scalars()...)
}

// linesBetween is the number of metrics lines, one per `every` steps, from one measurement of HeldOut to the next. Measuring
// an example takes one forward pass; a training step costs about three per example. So one measured example for 30 trained
// ones takes about 1% of the time.
func (r *Run) linesBetween(every int) int {
	measured := (len(r.HeldOut) + measureBatch - 1) / measureBatch * measureBatch
	return (30*measured + every*r.config.Batch - 1) / (every * r.config.Batch)
}

// measureHeldOut measures the network as it would be saved now.
func (r *Run) measureHeldOut() (*Heads, error) {
	batch, run, err := r.computer.judge()
	if err != nil {
		return nil, err
	}
	seen, err := measure(context.Background(), batch, run, func(step int, dst []Example) error {
		for i := range dst {
			dst[i] = Example{GameOver: -1}
		}
		copy(dst, r.HeldOut[step*len(dst):])
		return nil
	}, len(r.HeldOut), nil)
	if err != nil {
		return nil, err
	}
	heads := seen.Heads()
	return &heads, nil
}

// Close releases memory, files, goroutines and the folder's lock. It saves nothing.
func (r *Run) Close() (err error) {
	if r.Trainer != nil {
		r.Trainer.Close()
	}
	if r.metrics != nil {
		err = errors.Join(err, r.metrics.Close())
	}
	if r.events != nil {
		err = errors.Join(err, r.events.Close())
	}
	if r.dir != nil {
		err = errors.Join(err, r.dir.Close())
	}
	return err
}

// ReadMetrics reads a run's metrics in the order of steps. It skips a last line that was cut off by a kill.
func ReadMetrics(path string) ([]Metrics, error) {
	return rundir.ReadJournal[Metrics](path, "which only curves are drawn from")
}
