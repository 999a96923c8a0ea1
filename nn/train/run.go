package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/evald/evald/engine/filelock"
	"github.com/evald/evald/engine/runconfig"
	"github.com/evald/evald/engine/sumjson"
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

// ErrInUse means that another process is using the folder.
var ErrInUse = errors.New("another run is writing this folder: name another one, or wait for it to end")

// Run is a training run in a folder. The folder holds the checkpoint to resume from and the network learned so far. The
// caller must Close it.
type Run struct {
	*Trainer
	HeldOut []Example // measured now and then for the metrics, if not empty; set it before Train

	dir     string
	threads int
	unlock  func() error // releases the lock on the folder
	metrics *os.File
	events  *os.File
	board   *tensorboard.Writer
	means   means
	judge   *graph // the graph of Network that measures HeldOut; nil until it is needed
}

// OpenRun starts a run in a folder, which it creates if necessary, or resumes the run that is there. The other arguments are
// as in New.
func OpenRun(dir string, c Config, initial *net.Network, source Source, threads int) (run *Run, err error) {
	r := &Run{dir: dir, threads: threads}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if r.Trainer, err = New(c, initial, source, threads); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if r.unlock, err = filelock.Folder(dir, ErrInUse); err != nil {
		return nil, err
	}
	if err := wholefile.Sweep(dir); err != nil {
		return nil, err
	}
	if err := r.restore(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if err := runconfig.Keep(r.path(ConfigFile), c); err != nil { // also refuses the folder of a run of another kind
		return nil, err
	}
	return r, r.openMetrics()
}

func (r *Run) path(name string) string { return filepath.Join(r.dir, name) }

// restore resumes from the folder's checkpoint, if there is one.
func (r *Run) restore() error {
	file, err := os.ReadFile(r.path(CheckpointFile))
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
	path := r.path(MetricsFile)
	old, err := ReadMetrics(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var kept bytes.Buffer
	for _, m := range old {
		if m.Step <= r.Done() {
			line, err := sumjson.Marshal(m)
			if err != nil {
				return err
			}
			kept.Write(append(line, '\n'))
		}
	}
	if err := wholefile.Write(path, kept.Bytes()); err != nil {
		return err
	}
	if r.metrics, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
		return err
	}
	now := time.Now()
	name := fmt.Sprintf("events.out.tfevents.%d.evald", now.UnixNano()/1e6)
	if r.events, err = os.Create(r.path(name)); err != nil {
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
	r.Network().Metadata[trainingKey] = string(r.header())
	if err := r.Network().WriteFile(r.path(NetworkFile)); err != nil {
		return err
	}
	return wholefile.Write(r.path(CheckpointFile), r.Checkpoint())
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
	line, err := sumjson.Marshal(m)
	if err != nil {
		return err
	}
	if _, err := r.metrics.Write(append(line, '\n')); err != nil {
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

// Close releases memory, files, goroutines and the folder's lock. It saves nothing.
func (r *Run) Close() (err error) {
	if r.Trainer != nil {
		r.Trainer.Close()
	}
	if r.judge != nil {
		r.judge.close()
	}
	for _, f := range []*os.File{r.metrics, r.events} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if r.unlock != nil {
		err = errors.Join(err, r.unlock())
	}
	return err
}

// ReadMetrics reads a run's metrics in the order of steps. It skips a last line that was cut off by a kill.
func ReadMetrics(path string) (all []Metrics, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for n, line := range sumjson.Lines(text) {
		var m Metrics
		if err := sumjson.Unmarshal(line, &m); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w: remove that line, which only curves are drawn from", path, n, err)
		}
		all = append(all, m)
	}
	return all, nil
}
