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

// Run is a run in a folder: what can go on is there, and so is what it has learned. Close it.
type Run struct {
	*Trainer
	HeldOut []Example // measured on now and then, for the metrics, if there are any; set it before Train

	dir     *rundir.Dir
	threads int
	metrics *rundir.Journal
	events  *os.File
	board   *tensorboard.Writer
	means   means
	judge   *graph // of Network, for HeldOut; nil before it is needed
}

// OpenRun begins a run in a folder, which is made where there is none, or goes on with the one that is there. Arguments
// are as in New.
func OpenRun(dir string, c Config, initial *net.Network, source Source, threads int) (run *Run, err error) {
	r := &Run{threads: threads}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if r.Trainer, err = New(c, initial, source, threads); err != nil {
		return nil, err
	}
	if r.dir, err = rundir.Open(dir); err != nil {
		return nil, err
	}
	if err := r.restore(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if err := rundir.Keep(r.dir.Path(ConfigFile), c); err != nil { // also where it is of a run of another kind
		return nil, err
	}
	return r, r.openMetrics()
}

// restore goes on from the folder's checkpoint, if there is one.
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

// openMetrics leaves those metrics in the file that are of steps before the checkpoint's, and begins a file of
// TensorBoard's.
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

// Train makes the steps that are missing. It saves the run every so often and at its end, also when it ends early: with
// a cancelled context, whose error it returns, or with any other. progress, where it is not nil, hears of every step.
func (r *Run) Train(ctx context.Context, saveEvery time.Duration, progress func(Report)) (err error) {
	saved := time.Now()
	for r.Done() < r.config.Steps && err == nil {
		if err = ctx.Err(); err != nil {
			break
		}
		var report Report
		if report, err = r.Step(); err != nil {
			return err // its weights are not worth keeping
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

// trainingKey is the network's metadata about the run: what the checkpoint's header has.
const trainingKey = "evald.training"

// Save writes the network and the checkpoint.
func (r *Run) Save() error {
	r.Network().Metadata[trainingKey] = string(r.header())
	if err := r.Network().WriteFile(r.dir.Path(NetworkFile)); err != nil {
		return err
	}
	return wholefile.Write(r.dir.Path(CheckpointFile), r.Checkpoint())
}

// note counts a step in, and writes the metrics when it is time.
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

// linesBetween is every how many lines of the metrics, one in so many steps, HeldOut is measured. A measurement goes through
// the network once for each example, a step about three times, so that 30 examples learned from for each one measured are
// about 1% of the time.
func (r *Run) linesBetween(every int) int {
	measured := (len(r.HeldOut) + measureBatch - 1) / measureBatch * measureBatch
	return (30*measured + every*r.config.Batch - 1) / (every * r.config.Batch)
}

// measureHeldOut measures the network as it would be saved.
func (r *Run) measureHeldOut() (*Heads, error) {
	if r.judge == nil {
		var err error
		if r.judge, err = newGraph(r.Network(), r.Trainer.board, measureBatch, r.config.Weights, false, r.threads); err != nil {
			return nil, err
		}
	}
	seen, err := r.judge.measure(context.Background(), func(step int, dst []Example) error {
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

// Close gives memory, files and goroutines back. It saves nothing.
func (r *Run) Close() (err error) {
	if r.Trainer != nil {
		r.Trainer.Close()
	}
	if r.judge != nil {
		r.judge.close()
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

// ReadMetrics reads a run's metrics, in the order of steps. A last line that a kill has torn is left out.
func ReadMetrics(path string) ([]Metrics, error) {
	return rundir.ReadJournal[Metrics](path, "which only curves are drawn from")
}
