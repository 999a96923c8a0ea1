package bench

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

func startTorch(t *testing.T, python, way, precision string) (*Torch, error) {
	t.Helper()
	board := game.MustBoard(game.Connect4)
	b := eval.NewBatch(board, 16)
	copy(b.Pos, playedPositions(board, 16))
	p := &Torch{Python: python, Device: "cpu", Way: way, Precision: precision}
	return p, p.start(t.Context(), smallNetwork(t), b)
}

// PyTorch and ONNX Runtime compute the same probabilities, or there would be an error, and answer what they are asked. What
// a Python lacks is an error that names it. (torch.compile and TensorRT have nothing to do without a GPU.)
func TestTorch(t *testing.T) {
	python := gametest.Framework(t, "torch", "safetensors")
	for _, c := range []struct{ way, module, precision, how string }{
		{"pytorch", "torch", "bf16", "bf16, channels_last, cudnn.benchmark"},
		{"pytorch", "torch", "fp16", "fp16, channels_last, cudnn.benchmark"},
		{"onnxruntime", "onnxruntime", "bf16", "CPUExecutionProvider"},
		{"tensorrt", "tensorrt", "fp16", "TensorRT"},
	} {
		t.Run(c.way+" "+c.precision, func(t *testing.T) {
			has := exec.Command(python, "-c", "import "+c.module).Run() == nil
			p, err := startTorch(t, python, c.way, c.precision)
			if !has {
				if err == nil || !strings.Contains(err.Error(), "No module named '"+c.module+"'") {
					t.Errorf("without %s: %v", c.module, err)
				}
				return
			}
			gametest.OK(t, err)
			defer p.stop()
			if !strings.Contains(p.how, c.how) {
				t.Errorf("it says %q, want %q", p.how, c.how)
			}
			var peak struct{ FLOPs float64 }
			if err := p.question(map[string]any{"peak": 0.001}, &peak); err != nil || peak.FLOPs < 1e6 {
				t.Errorf("peak %v, %v", peak, err)
			}
			for _, batch := range []int{1, 20} {
				if seconds, err := p.ready(batch); err != nil || seconds <= 0 {
					t.Fatalf("batch %d: %v seconds, %v", batch, seconds, err)
				}
				for _, endToEnd := range []bool{false, true} {
					if rate, err := p.rate(0.001, endToEnd); err != nil || rate <= 0 {
						t.Errorf("batch %d: %v/s, %v", batch, rate, err)
					}
				}
			}
			if _, err := p.ready(1 << 60); !errors.As(err, new(errPeer)) {
				t.Errorf("a batch that no memory holds: %v, want an error of the peer", err)
			}
			if _, err := p.ready(2); err != nil {
				t.Errorf("after an error: %v", err)
			}
		})
	}
}

// A peer that dies, prints nonsense or computes something else is an error that says so; no file is left behind. After an error
// that the peer reports itself, or a wrong answer, it may be asked for the next batch.
func TestTorchFails(t *testing.T) {
	const hello = `echo '{"how": "a shell"}'; read batch; `
	for name, c := range map[string]struct {
		script, want string
		usable       bool // for the next batch
	}{
		"dies":            {"echo >&2 no torch here; exit 3", "exit status 3: no torch here (it needs torch", false},
		"dies later":      {hello + "exit 3", "exit status 3", false},
		"nonsense":        {"echo hello; cat", `answer "hello": invalid character`, false},
		"reports":         {hello + `echo '{"error": "out of memory"}'; cat`, "out of memory", true},
		"other sizes":     {hello + `echo '{"wdl": [1, 2, 3]}'; cat`, "3 values of WDL, want 48", true},
		"another network": {hello + `echo '{"wdl": [9' $(yes ', 9' | head -47) ']}'; cat`, "WDL 0 is 9, the reference says ", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			p, err := startTorch(t, fakePython(t, c.script, nil), "pytorch", "bf16")
			if err == nil {
				_, err = p.ready(16)
				p.stop()
			}
			if err == nil || !strings.Contains(err.Error(), "peer pytorch: ") || !strings.Contains(err.Error(), c.want) || errors.As(err, new(errPeer)) != c.usable {
				t.Errorf("error %v, want one that says %q, and that the peer is usable: %v", err, c.want, c.usable)
			}
			if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// The operations of a position are those of the log beside the kernels.
func TestFLOPs(t *testing.T) {
	n := smallNetwork(t)
	if got, want := flops(n.Config(), game.MustBoard(game.Connect4)), 2.0*42*(45*16+18*2*16*16+2*8*16); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}
