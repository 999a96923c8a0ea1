package train

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

func openRun(t testing.TB, dir string, source Source, by Compute) *Run {
	t.Helper()
	r := gametest.Must(OpenRun(dir, testConfig(), nil, lessons(testConfig(), source), by))(t)
	t.Cleanup(func() { r.Close() })
	return r
}

func read(t testing.TB, dir, name string) []byte {
	t.Helper()
	file := gametest.Must(os.ReadFile(filepath.Join(dir, name)))(t)
	return file
}

// wholeRun returns the folder of a run without interruption.
func wholeRun(t *testing.T, source Source, by Compute) string {
	t.Helper()
	dir := t.TempDir()
	gametest.OK(t, openRun(t, dir, source, by).Train(t.Context(), time.Hour, nil))
	return dir
}

// sameRun compares the networks and the steps of the metrics.
func sameRun(t *testing.T, want, got string) {
	t.Helper()
	if !bytes.Equal(read(t, want, NetworkFile), read(t, got, NetworkFile)) {
		t.Error("the network's file is another")
	}
	metrics := gametest.Must(ReadMetrics(filepath.Join(got, MetricsFile)))(t)
	for i, m := range metrics {
		if m.Step != i+1 || m.WDL == nil || !(m.WDL.Loss > 0) {
			t.Fatalf("line %d of the metrics is of step %d: %+v", i+1, m.Step, m)
		}
	}
	if len(metrics) != testConfig().Steps {
		t.Errorf("metrics have %d lines, want %d", len(metrics), testConfig().Steps)
	}
}

func TestRunInterrupted(t *testing.T) {
	dir, source := t.TempDir(), testSource(testConfig())
	ctx, cancel := context.WithCancel(t.Context())
	r := openRun(t, dir, source, Compute{Threads: 2})
	err := r.Train(ctx, time.Hour, func(r Report) {
		if r.Step == 17 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || r.Done() != 17 {
		t.Fatalf("error %v after %d steps, want that of a cancelled context after 17", err, r.Done())
	}
	if _, err := OpenRun(dir, testConfig(), nil, lessons(testConfig(), source), Compute{Threads: 1}); !errors.Is(err, durable.ErrFolderInUse) {
		t.Errorf("opening the folder a second time gives %v, want that it is in use", err)
	}
	gametest.OK(t, r.Close())
	again := openRun(t, dir, source, Compute{Threads: 2})
	if again.Done() != 17 {
		t.Fatalf("resumes after %d steps, want 17", again.Done())
	}
	gametest.OK(t, again.Train(t.Context(), time.Hour, nil))
	sameRun(t, wholeRun(t, source, Compute{Threads: 1}), dir)
}

const (
	killedDir    = "EVALD_TEST_KILLED"        // the folder of the run that kills itself
	killedScores = "EVALD_TEST_KILLED_SCORES" // the exact scores that it learns from; random examples if empty
	killedPython = "EVALD_TEST_KILLED_PYTHON" // of PyTorch, which makes the steps; gorgonia if empty
)

// killedSource opens the data of a killed run.
func killedSource(t *testing.T, scores string) Source {
	if scores == "" {
		return testSource(testConfig())
	}
	b := game.MustBoard(game.Rules{Columns: 4, Rows: 4, InARow: 3, Gravity: true})
	r := gametest.Must(OpenSolved(b, RecordOptions{Seed: 7}, scores))(t)
	t.Cleanup(func() { r.Close() })
	return WithRules(r.Source, b, 7)
}

// A run is killed in its 17th step, when the checkpoint is of the 16th step and the metrics' last line is incomplete.
func TestRunKilled(t *testing.T) {
	if dir := os.Getenv(killedDir); dir != "" {
		r := openRun(t, dir, killedSource(t, os.Getenv(killedScores)), Compute{Threads: 2, Python: os.Getenv(killedPython)})
		err := r.Train(t.Context(), 0, func(report Report) {
			if report.Step == 17 {
				metrics, err := os.OpenFile(filepath.Join(dir, MetricsFile), os.O_WRONLY|os.O_APPEND, 0)
				if err == nil {
					_, err = metrics.WriteString(`{"step":`)
				}
				if err != nil {
					t.Error(err)
				}
				self, err := os.FindProcess(os.Getpid())
				if err == nil {
					err = self.Kill()
				}
				if err != nil {
					t.Error(err)
				}
				select {} // the signal is on its way
			}
		})
		t.Fatalf("the run did not end: %v", err)
	}
	if gametest.Race {
		t.Skip("TestRunInterrupted has the same goroutines")
	}
	for _, scores := range []string{"", writeScores(t, 200)} {
		testKilled(t, scores, Compute{Threads: 2})
	}
}

func TestTorchKilled(t *testing.T) { testKilled(t, writeScores(t, 200), torchCompute(t)) }

func testKilled(t *testing.T, scores string, by Compute) {
	t.Helper()
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestRunKilled$")
	child.Env = append(os.Environ(), killedDir+"="+dir, killedScores+"="+scores, killedPython+"="+by.Python)
	out, err := child.CombinedOutput()
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the run ended with %v: %s", err, out)
	}
	r := openRun(t, dir, killedSource(t, scores), by)
	if r.Done() != 16 {
		t.Fatalf("resumes after %d steps, want 16", r.Done())
	}
	gametest.OK(t, r.Train(t.Context(), time.Hour, nil))
	sameRun(t, wholeRun(t, killedSource(t, scores), by), dir)
}

func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	r := openRun(t, dir, testSource(testConfig()), Compute{Threads: 2})
	gametest.OK(t, r.Save())
	gametest.OK(t, r.Close())
	refused := func(c Config, want string) {
		t.Helper()
		if _, err := OpenRun(dir, c, nil, lessons(c, testSource(c)), Compute{Threads: 1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
	c := testConfig()
	c.Seed = 8
	refused(c, "the run has seed 7, and now it is 8")
	gametest.OK(t, os.WriteFile(filepath.Join(dir, CheckpointFile), []byte("torn"), 0o644))
	refused(testConfig(), "remove it to begin anew")
}

// Errors name the wrong field of a configuration.
func TestConfigRefuses(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"network config":     func(c *Config) { c.Network = "6" },
		"rules":              func(c *Config) { c.Rules = "7" },
		"batch is 0":         func(c *Config) { c.Batch = 0 },
		"steps is 0":         func(c *Config) { c.Steps, c.Warmup = 0, 0 },
		"lr is -1":           func(c *Config) { c.LR = -1 },
		"warmup is 41":       func(c *Config) { c.Warmup = 41 },
		"ema is 1":           func(c *Config) { c.EMA = 1 },
		"schedule is":        func(c *Config) { c.Schedule = "none" },
		"optimizer is":       func(c *Config) { c.Optimizer = "" },
		"weights of the los": func(c *Config) { c.Weights = Weights{} },
	} {
		c := testConfig()
		change(&c)
		if _, err := New(c, nil, lessons(c, nil), Compute{Threads: 1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
	c := testConfig()
	if _, err := New(c, scrambled(t, "2x4/4/6", 1), lessons(c, nil), Compute{Threads: 1}); err == nil || !strings.Contains(err.Error(), "2x4/4/6") {
		t.Errorf("a network of another shape to begin with gives %v", err)
	}
}

// BenchmarkStep measures steps of a 6x64 network on batches of 256: by gorgonia, whose steps with AdamW are those of peer.py,
// and by PyTorch.
func BenchmarkStep(b *testing.B) {
	for _, rule := range []string{AdamW, Muon, "torch/" + Muon} {
		b.Run(rule, func(b *testing.B) {
			rule, by := rule, Compute{}
			if after, ok := strings.CutPrefix(rule, "torch/"); ok {
				rule, by = after, torchCompute(b)
			}
			c := testConfig()
			c.Network, c.Rules, c.Batch, c.Steps, c.Optimizer = "6x64", "7x6x4", 256, 1<<20, rule
			examples := randomExamples(1, game.MustBoard(game.Connect4), c.Batch)
			tr := newTrainerOf(b, c, nil, same(examples), by)
			steps(b, tr, 1)
			for b.Loop() {
				steps(b, tr, 1)
			}
			b.ReportMetric(float64(b.N*c.Batch)/b.Elapsed().Seconds(), "positions/s")
		})
	}
}
