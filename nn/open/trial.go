package open

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/nn/encoding"
	"github.com/evald/evald/nn/ort"
)

// check determines whether a file can be opened without harm, whether its answers depend on their
// batch, and whether its description fits. The results are stored in the user's cache for each
// version of the library.
func (f *Foreign) check(name string, o Options) error {
	l, err := ort.Open(o.ORT)
	if err != nil {
		return fmt.Errorf("model %s: %w", name, err)
	}
	dir, none := durable.CacheDir()
	dir = filepath.Join(dir, "onnx")
	file := fmt.Sprintf("%x-%s", sha256.Sum256(f.content), l.Version)
	for _, step := range []struct {
		done  string
		asked bool
		do    func(string, Options) error
	}{{"tried", len(o.Trial) > 0, f.try}, {"alone", true, f.company}, {"described", true, f.diagnose}} {
		mark := filepath.Join(dir, step.done+"-"+file)
		if _, err := os.Stat(mark); err == nil && none == nil || !step.asked {
			continue
		}
		if err := step.do(name, o); err != nil {
			return err
		}
		if none == nil { // if this cannot be stored, the next start checks again
			_ = errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(mark, nil, 0o644))
		}
	}
	return nil
}

// diagnose compares the description with others on positions whose results are known. It skips files that evald has exported.
func (f *Foreign) diagnose(name string, o Options) error {
	if f.Info.Metadata[encoding.MetadataKey] == "" {
		return nil
	}
	e, err := f.by(ORTCPU, name, o)
	if err != nil {
		return err
	}
	defer e.Close()
	c := e.Backend().(byRuntime).codecs
	board, _, err := c.first()
	if err != nil {
		return err
	}
	report, err := encoding.Diagnose(context.Background(), f.Description, board, func(ctx context.Context, d encoding.Description, b *eval.Batch) error {
		if err := c.set(d, board); err != nil {
			return err
		}
		return e.Backend().Compute(ctx, b)
	})
	if err != nil {
		return fmt.Errorf("model %s: %w", name, err)
	}
	if report.Asymmetric > muchAsymmetric && !o.Mirror {
		o.note("model %s: its values of a position and its mirror image differ by %.2f on average; with mirrored answers (--mirror) it answers their mean", name, report.Asymmetric)
	}
	return nil
}

// muchAsymmetric is the mean difference of values, 0 to 2, above which users get a note. For `default` the difference is 0.07 (75 positions
// of 7x6x4).
const muchAsymmetric = 0.2

// trialTime is the maximum time for another process to open a network.
const trialTime = 2 * time.Minute

// try makes the program of Options.Trial open the file first. If the file makes the library crash, hang or use up all memory, only that
// process ends.
func (f *Foreign) try(name string, o Options) error {
	ctx, cancel := context.WithTimeout(context.Background(), trialTime)
	defer cancel()
	c := exec.CommandContext(ctx, o.Trial[0], append(o.Trial[1:len(o.Trial):len(o.Trial)], o.ORT.Library)...)
	c.WaitDelay = time.Second
	var said short.Tail
	c.Stderr = &said
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err == nil {
		err = limitTrial(c.Process.Pid) // limit the process before it gets the file
		if err == nil {
			_, _ = in.Write(f.content) // if the process ends before it has read everything, its status says why
		}
		_ = in.Close()
		err = errors.Join(err, c.Wait())
	}
	switch exit := (*exec.ExitError)(nil); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("model %s: a process that tried to open it did not end within %v: the file may be malicious", name, trialTime)
	case errors.As(err, &exit) && exit.ExitCode() == trialRefused:
		line := said.LastLine()
		_, text, named := strings.Cut(line, "model "+trialName+": ") // the text is preceded by the program's name
		if !named {
			_, text, _ = strings.Cut(line, ": ")
		}
		return fmt.Errorf("model %s: %s", name, cmp.Or(text, line))
	case errors.As(err, &exit):
		return fmt.Errorf("model %s: a process that tried to open it ended with %w: the file is damaged or malicious. Its last message: %s", name, err, said.LastLine())
	}
	return fmt.Errorf("model %s: to try it in another process: %w", name, err)
}

// trialRefused is the exit status of a trial that has reported an error. A Go program that panics has another status.
const trialRefused = 1

// trialName is the model's name in the errors of a trial.
const trialName = "of the trial"

// ORTTrial implements the program of Options.Trial. It reads an ONNX file from in, opens it on the CPU with the library at the given path
// (that of ort.Open if it is ""), and evaluates one position. If it returns an error, the program must exit with status 1, and the last
// line on its standard error must be the last line of the error.
func ORTTrial(ctx context.Context, in io.Reader, library string) error {
	content, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return err
	}
	f, err := parseForeign(content)
	if err != nil {
		return err
	}
	var o Options
	o.ORT.Library = library
	e, err := f.by(ORTCPU, trialName, o)
	if err != nil {
		return err
	}
	defer e.Close()
	board, _, err := (&codecs{of: f}).first()
	if err != nil {
		return err
	}
	b := eval.NewBatch(board, 1)
	clear(b.Pos)
	return e.Backend().Compute(ctx, b)
}
