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
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/encoding"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/onnx"
	"github.com/evald/evald/nn/open"
	"github.com/evald/evald/nn/ort"
	"github.com/evald/evald/nn/pattern"
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
func exported(t *testing.T, model string) (path string, p open.Parsed) {
	t.Helper()
	s, p, err := open.Any(model)
	gametest.OK(t, err)
	var content []byte
	if p.Pattern != nil {
		content = onnx.MarshalPattern(p.Pattern, s.Name)
	} else {
		content = gametest.Must(onnx.Marshal(p.Conv, s.Name, onnx.Options{}))(t)
	}
	return inFile(t, "mine.onnx", content), p
}

func apart(a, b []float32) (most float64) {
	for i := range a {
		most = max(most, math.Abs(float64(a[i])-float64(b[i])))
	}
	return most
}

// Files of evald model export need no description, and answer what the network itself does, on every board.
func TestExportedFile(t *testing.T) {
	needRuntime(t)
	path, p := exported(t, seeded)
	for _, backend := range []string{open.Auto, open.CPU, open.ORTCPU} {
		e, _ := opened(t, open.Options{Model: path, Backend: backend})
		if e.Model != "mine" || !e.Network || e.OnGPU || !strings.Contains(e.How, "ONNX Runtime") {
			t.Errorf("%s: %+v", backend, e)
		}
		for _, rules := range []string{"7x6x4", "5x4x3", "3x3x3free", "12x9x5"} {
			board := gametest.Must(new(game.Boards).Parse(rules))(t)
			pos := gametest.Open(gametest.Rand(4), board, 70)
			got, want := evaluate(t, e.Evaluator, board, pos), evaluate(t, eval.New(net.NewBackend(p.Conv), eval.Options{}), board, pos)
			if d := max(apart(got.WDL, want.WDL), apart(got.Policy, want.Policy)); !(d <= 1e-4) || !slices.Contains(got.Source, eval.ORTCPU) {
				t.Errorf("%s on %s: %.2g away from plain Go, sources %v", backend, rules, d, got.Source[:3])
			}
		}
	}
	// A network of evald's own is exported for it.
	e, _ := opened(t, open.Options{Model: seeded, Backend: open.ORTCPU})
	if b := evaluate(t, e.Evaluator, connect4, make([]game.Position, 1)); b.Source[0] != eval.ORTCPU || e.Model != seeded {
		t.Errorf("source %s, model %s", b.Source[0], e.Model)
	}
}

// A file of pattern tables answers 7x6x4 as they do.
func TestExportedTables(t *testing.T) {
	needRuntime(t)
	n := quick(t)
	e, _ := opened(t, open.Options{Model: inFile(t, "tables.onnx", onnx.MarshalPattern(n, "tables"))})
	pos := gametest.Open(gametest.Rand(5), connect4, 100)
	got, want := evaluate(t, e.Evaluator, connect4, pos), evaluate(t, eval.New(pattern.NewBackend(n), eval.Options{}), connect4, pos)
	if d := max(apart(got.WDL, want.WDL), apart(got.Policy, want.Policy)); !(d <= 1e-5) {
		t.Errorf("%.2g away from the tables", d)
	}
}

// The description may be beside a file, and what is wrong with it is said with its name.
func TestDescriptionBeside(t *testing.T) {
	path, _ := exported(t, seeded)
	describe := func(text string) (open.Parsed, error) {
		gametest.OK(t, os.WriteFile(strings.TrimSuffix(path, ".onnx")+".yaml", []byte(text), 0o644))
		_, p, err := open.File(path)
		return p, err
	}
	p, err := describe("{rules: 7x6x4, planes: [own, other, playable, parity, inarow], value: {output: wdl, kind: wdl_logits}, policy: {output: policy, kind: probs}}")
	if err != nil || p.Foreign.Description.Policy.Output != "policy" || !slices.Equal(p.Rules(), []string{"7x6x4"}) || p.Config() != open.ForeignConfig {
		t.Errorf("%+v, %v", p.Foreign, err)
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
	path, _ := exported(t, seeded)
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	for script, says := range map[string]string{
		"kill -SEGV $$":              "signal: segmentation fault",
		"echo panic: no >&2; exit 2": "ended with exit status 2",
		"echo evald: model of the trial: bad weights >&2; exit 1": "model mine: bad weights",
	} {
		_, err := open.Open(open.Options{Model: path, Trial: []string{shell, "-c", script}})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", script, err, says)
		}
	}
	opened(t, open.Options{Model: path, Trial: []string{shell, "-c", "cat >/dev/null; [ $(ulimit -t) = 100 ]"}}) // its processor time is bounded
	if err := open.ORTTrial(t.Context(), strings.NewReader("nonsense"), ""); err == nil {
		t.Error("nonsense passes a trial")
	}
}

// ONNX files are kept in the store as what they are, and their memory is known before they are opened.
func TestStoredONNX(t *testing.T) {
	t.Setenv("EVALD_MODELS", t.TempDir())
	path, _ := exported(t, seeded)
	content, p, err := open.File(path)
	gametest.OK(t, err)
	add(t, models.Entry{Name: "mine", File: models.ONNXFile, Config: p.Config(), Trained: true, Rules: []string{"7x6x4"}}, content)
	s, ok, err := open.Lookup("mine")
	if err != nil || !ok || filepath.Base(s.Path) != models.ONNXFile {
		t.Fatalf("%+v, %v", s, err)
	}
	if bytes := gametest.Must(s.Bytes())(t); bytes < 2*int64(len(content)) {
		t.Errorf("it reports %d bytes, and its file has %d", bytes, len(content))
	}
	if _, again, err := open.Any("mine"); err != nil || again.Foreign == nil {
		t.Errorf("from the store: %v", err)
	}
	if _, _, err := open.Model("mine"); err == nil || !strings.Contains(err.Error(), "is an ONNX file") {
		t.Errorf("as a network of evald's own: %v", err)
	}
}
