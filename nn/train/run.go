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

// ErrInUse is the error of a folder that another process has.
var ErrInUse = errors.New("another run is writing this folder: name another one, or wait for it to end")

// Run is a run in a folder: what can go on is there, and so is what it has learned. Close it.
type Run struct {
	*Trainer
	HeldOut []Example // measured on now and then, for the metrics, if there are any; set it before Train

	dir     string
	threads int
	unlock  func() error // of the folder
	metrics *os.File
	events  *os.File
	board   *tensorboard.Writer
	means   means
	judge   *graph // of Network, for HeldOut; nil before it is needed
}

// OpenRun begins a run in a folder, which is made where there is none, or goes on with the one that is there. Arguments
// are as in New.
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
	if err := runconfig.Keep(r.path(ConfigFile), c); err != nil { // also where it is of a run of another kind
		return nil, err
	}
	return r, r.openMetrics()
}

func (r *Run) path(name string) string { return filepath.Join(r.dir, name) }

// restore goes on from the folder's checkpoint, if there is one.
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

// openMetrics leaves those metrics in the file that are of steps before the checkpoint's, and begins a file of
// TensorBoard's.
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
	if err := r.Network().WriteFile(r.path(NetworkFile)); err != nil {
		return err
	}
	return wholefile.Write(r.path(CheckpointFile), r.Checkpoint())
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
	line, err := sumjson.Marshal(m)
	if err != nil {
		return err
	}
	if _, err := r.metrics.Write(append(line, '\n')); err != nil {
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

// ReadMetrics reads a run's metrics, in the order of steps. A last line that a kill has torn is left out.
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
