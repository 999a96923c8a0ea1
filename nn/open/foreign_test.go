package open_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/encoding"
	"github.com/evald/evald/nn/onnx"
	"github.com/evald/evald/nn/open"
	"github.com/evald/evald/nn/ort"
)

// needRuntime skips without ONNX Runtime.
func needRuntime(t *testing.T) {
	t.Helper()
	if !ort.Supported {
		t.Skip("this build cannot open ONNX Runtime")
	}
	_, err := ort.Open(ort.Options{})
	gametest.Need(t, err == nil, fmt.Sprint(err))
}

// inFile writes a file of a test and returns its path.
func inFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	gametest.OK(t, os.WriteFile(path, content, 0o644))
	return path
}

// exported is the path of a shipped network's ONNX file.
func exported(t *testing.T, model string) (path string) {
	t.Helper()
	s, n, err := open.Any(model)
	gametest.OK(t, err)
	return inFile(t, "mine.onnx", gametest.Must(n.ONNX(s.Name, false))(t))
}

func apart(a, b []float32) (most float64) {
	for i := range a {
		most = max(most, math.Abs(float64(a[i])-float64(b[i])))
	}
	return most
}

// A network of evald's own is exported for ONNX Runtime.
func TestExportedForRuntime(t *testing.T) {
	needRuntime(t)
	e, _ := opened(t, open.Options{Model: seeded, Backend: open.ORTCPU})
	if b := evaluate(t, e.Evaluator, connect4, make([]game.Position, 1)); b.Source[0] != eval.ORTCPU || e.Model != seeded {
		t.Errorf("source %s, model %s", b.Source[0], e.Model)
	}
}

// The description may be beside a file, and what is wrong with it is said with its name.
func TestDescriptionBeside(t *testing.T) {
	path := exported(t, seeded)
	describe := func(text string) (open.Network, error) {
		gametest.OK(t, os.WriteFile(strings.TrimSuffix(path, ".onnx")+".yaml", []byte(text), 0o644))
		_, p, err := open.File(path)
		return p, err
	}
	p, err := describe("{rules: 7x6x4, planes: [own, other, playable, parity, inarow], value: {output: wdl, kind: wdl_logits}, policy: {output: policy, kind: probs}}")
	if err != nil || !strings.Contains(fmt.Sprint(p.About()), "output: policy") || !slices.Equal(p.Rules(), []string{"7x6x4"}) || p.Config() != open.ForeignConfig {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := describe("layout: NCWH"); err == nil || !strings.Contains(err.Error(), "mine.yaml: description: layout") {
		t.Errorf("a wrong layout: %v", err)
	}
	gametest.OK(t, os.Remove(strings.TrimSuffix(path, ".onnx")+".yaml"))
	content := gametest.Must(onnx.WithMetadata(gametest.Must(os.ReadFile(path))(t), "evald.config", ""))(t)
	if _, _, err := open.File(inFile(t, "plain.onnx", content)); err == nil || !strings.Contains(err.Error(), encoding.ErrNone.Error()) {
		t.Errorf("without a description: %v", err)
	}
}

// A file that ends its reader, or makes it hang, does so in another process.
func TestTrial(t *testing.T) {
	needRuntime(t)
	path := exported(t, seeded)
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	for script, says := range map[string]string{
		"kill -SEGV $$":              "signal: segmentation fault",
		"echo panic: no >&2; exit 2": "ended with exit status 2",
		`read request; case $request in *'"model":"mine"'*) echo '{"refused":"model mine: bad weights"}';; esac`: "model mine: bad weights",
		"echo nonsense": "to try it in another process: invalid character",
		"true":          "to try it in another process: unexpected end of JSON",
	} {
		_, err := open.Open(open.Options{Model: path, Trial: []string{shell, "-c", script}})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", script, err, says)
		}
	}
	opened(t, open.Options{Model: path, Trial: []string{shell, "-c", "cat >/dev/null; [ $(ulimit -t) = 100 ] && echo {}"}}) // its processor time is bounded
	for in, want := range map[string]string{
		"nonsense":                        `{"refused":"request of a trial: EOF"}`,
		`{"model":"mine"}` + "\nnonsense": `{"refused":"model mine: `,
		`{"model":"mine"}` + "\n" + string(gametest.Must(os.ReadFile(path))(t)): "{}",
	} {
		var out strings.Builder
		if err := open.ORTTrial(t.Context(), strings.NewReader(in), &out); err != nil || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%.40s: %s, %v, want %s", in, out.String(), err, want)
		}
	}
}
