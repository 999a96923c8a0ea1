package open

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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

// trialRequest is the line of JSON that the program of Options.Trial reads first. The ONNX file follows it.
type trialRequest struct {
	Model   string `json:"model"`   // name in errors
	Library string `json:"library"` // ort.Options.Library
}

// trialAnswer is the line of JSON that the program writes last.
type trialAnswer struct {
	Refused string `json:"refused,omitempty"` // why the file cannot be opened
}

// mostRefused is the maximum number of bytes of a reason, with which an answer fits a short.Tail.
const mostRefused = 600

// try makes the program of Options.Trial open the file first. If the file makes the library crash, hang or use up all memory, only that
// process ends.
func (f *Foreign) try(name string, o Options) error {
	request, err := json.Marshal(trialRequest{name, o.ORT.Library})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), trialTime)
	defer cancel()
	c := exec.CommandContext(ctx, o.Trial[0], o.Trial[1:]...)
	c.WaitDelay = time.Second
	var out, said short.Tail
	c.Stdout, c.Stderr = &out, &said
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err == nil {
		err = limitTrial(c.Process.Pid) // limit the process before it gets the file
		if err == nil {
			_, _ = in.Write(append(append(request, '\n'), f.content...)) // if the process ends before it has read everything, its status says why
		}
		_ = in.Close()
		err = errors.Join(err, c.Wait())
	}
	var answer trialAnswer
	if err == nil {
		err = json.Unmarshal([]byte(out.LastLine()), &answer)
	}
	switch exit := (*exec.ExitError)(nil); {
	case err == nil && answer.Refused != "":
		return errors.New(answer.Refused)
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("model %s: a process that tried to open it did not end within %v: the file may be malicious", name, trialTime)
	case errors.As(err, &exit):
		return fmt.Errorf("model %s: a process that tried to open it ended with %w: the file is damaged or malicious. Its last message: %s", name, err, said.LastLine())
	}
	return fmt.Errorf("model %s: to try it in another process: %w", name, err)
}

// ORTTrial is what the program of Options.Trial must do with its standard input and output. It opens an ONNX file on the CPU, evaluates one
// position, and writes whether that works. An error means that it could not answer.
func ORTTrial(ctx context.Context, in io.Reader, out io.Writer) error {
	var answer trialAnswer
	if err := openTried(ctx, in); err != nil {
		answer.Refused = short.To(err.Error(), mostRefused)
	}
	return json.NewEncoder(out).Encode(answer)
}

func openTried(ctx context.Context, in io.Reader) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	var request trialRequest
	if err == nil {
		err = json.Unmarshal(line, &request)
	}
	if err != nil {
		return fmt.Errorf("request of a trial: %w", err)
	}
	content, err := io.ReadAll(io.LimitReader(lines, maxFile+1))
	if err != nil {
		return err
	}
	f, err := parseForeign(content)
	if err != nil {
		return fmt.Errorf("model %s: %w", request.Model, err)
	}
	var o Options
	o.ORT.Library = request.Library
	e, err := f.by(ORTCPU, request.Model, o)
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
