package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

func startTorch(t *testing.T, python string) (*Torch, error) {
	t.Helper()
	board := game.MustBoard(game.Connect4)
	b := eval.NewBatch(board, 16)
	copy(b.Pos, playedPositions(board, 16))
	p := &Torch{Python: python, Device: "cpu"}
	return p, p.start(t.Context(), smallNetwork(t), b)
}

// PyTorch computes the same probabilities, or there would be an error, and answers what it is asked.
func TestTorch(t *testing.T) {
	python := os.Getenv("EVALD_PYTHON")
	if python == "" || exec.Command(python, "-c", "import torch, safetensors").Run() != nil {
		t.Skip("EVALD_PYTHON names no Python with torch")
	}
	p, err := startTorch(t, python)
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	var peak struct{ FLOPs float64 }
	var rates torchRates
	if err := p.ask(map[string]any{"peak": 0.001}, &peak); err != nil || peak.FLOPs < 1e6 {
		t.Errorf("peak %v, %v", peak, err)
	}
	if err := p.ask(map[string]any{"batch": 20, "seconds": 0.001}, &rates); err != nil || rates.Device <= 0 || rates.EndToEnd <= 0 || rates.How != "eager, channels_last" {
		t.Errorf("%+v, %v", rates, err)
	}
}

// A peer that dies, says nonsense or computes something else is an error that says so; nothing is left behind.
func TestTorchFails(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"dies":            {"echo >&2 no torch here; exit 3", "exit status 3: no torch here (it needs torch"},
		"nonsense":        {"echo hello; cat", `answer "hello": invalid character`},
		"other sizes":     {`echo '{"version": "1", "wdl": [1, 2, 3]}'; cat`, "3 values of WDL, want 48"},
		"another network": {`echo '{"version": "1", "wdl": [9' $(yes ', 9' | head -47) ']}'; cat`, "WDL 0 is 9, the reference says "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			fake := filepath.Join(t.TempDir(), "python")
			if err := os.WriteFile(fake, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			_, err := startTorch(t, fake)
			if err == nil || !strings.Contains(err.Error(), "peer pytorch: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
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
