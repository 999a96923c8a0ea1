package train

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/net"
)

// torchCompute is a Python with PyTorch, on the CPU.
func torchCompute(t testing.TB) Compute {
	t.Helper()
	python := gametest.Framework(t, "torch")
	t.Setenv("CUDA_VISIBLE_DEVICES", "")
	return Compute{Threads: 2, Python: python}
}

// both returns a Trainer of gorgonia and one of PyTorch.
func both(t testing.TB, c Config, initial *net.Network, source Source) (ours, theirs *Trainer) {
	t.Helper()
	return newTrainerOf(t, c, initial, source, Compute{Threads: 2}), newTrainerOf(t, c, initial, source, torchCompute(t))
}

// parts are all numbers of the state that a checkpoint has, by name.
func parts(t testing.TB, tr *Trainer) map[string][]float32 {
	t.Helper()
	gametest.OK(t, tr.computer.fetch())
	all := map[string][]float32{}
	for _, s := range tr.net.Config().Specs() {
		all["weight "+s.Name], all["average "+s.Name] = tr.net.Weight(s.Name).Float32s(), tr.average.Weight(s.Name).Float32s()
		if m := tr.moments[s.Name]; m != nil {
			all["first "+s.Name], all["second "+s.Name] = m.first, m.second
		}
	}
	return all
}

// sameParts compares states, without parts whose names begin with one of skip. A value may differ by `within` times the
// largest of its tensor.
func sameParts(t testing.TB, ours, theirs *Trainer, within float64, skip ...string) {
	t.Helper()
	got := parts(t, theirs)
	worst, where := 0.0, ""
	for name, want := range parts(t, ours) {
		if slices.ContainsFunc(skip, func(s string) bool { return strings.HasPrefix(name, s) }) {
			continue
		}
		if strings.HasSuffix(name, " policy.logit.bias") {
			continue // a softmax does not depend on it: its gradient is rounding alone
		}
		largest := 1e-6
		for _, v := range want {
			largest = max(largest, math.Abs(float64(v)))
		}
		for i, v := range want {
			if off := math.Abs(float64(v-got[name][i])) / largest; !(off <= worst) {
				worst, where = off, fmt.Sprintf("%s %d is %v, want %v (largest %v)", name, i, got[name][i], v, largest)
			}
		}
	}
	t.Logf("off by %.2g at most: %s", worst, where)
	if !(worst <= within) {
		t.Errorf("off by %v, want at most %v: %s", worst, within, where)
	}
}

func sameLosses(t testing.TB, want, got *Losses) {
	t.Helper()
	near(t, "the sum of the losses", got.Total, want.Total, 1e-4)
	for _, pair := range [][2]*Term{{want.WDL, got.WDL}, {want.Policy, got.Policy}, {want.GameOver, got.GameOver}} {
		if (pair[0] == nil) != (pair[1] == nil) {
			t.Fatalf("a loss is %v, want %v", pair[1], pair[0])
		}
		if pair[0] != nil {
			near(t, "a loss", pair[1].Loss, pair[0].Loss, 1e-4)
			if !slices.Equal(pair[0].Rows, pair[1].Rows) || !slices.Equal(pair[0].Right, pair[1].Right) {
				t.Errorf("counts are %v and %v, want %v and %v", pair[1].Rows, pair[1].Right, pair[0].Rows, pair[0].Right)
			}
		}
	}
}

// On one batch PyTorch has the losses, the counts and the gradients of gorgonia. The first moments of AdamW are a tenth of the
// gradient after one step. The rate is so small that the weights stay as they are.
func TestTorchGradients(t *testing.T) {
	for _, test := range []struct {
		network, rules string
		w              Weights
		symmetric      bool
	}{
		{"2x8/6/10", "7x6x4", Weights{1, 1, 0.1, 0}, false},
		{"2x6/5/7", "5x4x4", Weights{1.5, 0.5, 0.25, 0.3}, true},
		{"1x4/3/5", "3x3x3free", Weights{0.3, 2, 0, 1}, false},
		{"1x4/3/5", "4x4x3", Weights{0, 0, 1, 0}, true},
	} {
		c := testConfig()
		c.Network, c.Rules, c.Weights, c.Optimizer, c.Clip, c.L2, c.Batch = test.network, test.rules, test.w, AdamW, 0, 0, 40
		c.LR, c.Warmup = 1e-9, 0
		initial := scrambled(t, c.Network, 3)
		if test.symmetric { // a fresh network will not do: it has many equal maxima, and rounding chooses among them
			for _, s := range initial.Config().Specs() {
				symmetrise(initial.Weight(s.Name).Float32s(), s.Mirror())
			}
		}
		ours, theirs := both(t, c, initial, testSource(c))
		want, got := steps(t, ours, 1), steps(t, theirs, 1)
		sameLosses(t, &want.Losses, &got.Losses)
		near(t, "the gradient's norm", got.Norm, want.Norm, 1e-4)
		sameParts(t, ours, theirs, 1e-4, "second ")                            // squares, whose rounding counts twice
		examples := randomExamples(9, ours.lessons[0].Board, measureBatch-100) // the last rows have no target
		examples = append(examples, make([]Example, 100)...)
		var measured []*Losses
		for _, tr := range []*Trainer{ours, theirs} {
			l := gametest.Must(tr.computer.judge(0, examples))(t)
			measured = append(measured, l)
		}
		sameLosses(t, measured[0], measured[1])
	}
}

// After some steps of each optimizer, of one game and of two, PyTorch's state is gorgonia's, up to rounding. A symmetric network stays so bit
// for bit. Then each resumes from the other's checkpoint.
func TestTorchSwitch(t *testing.T) {
	for _, test := range []struct{ optimizer, rules string }{{Muon, "5x4x4"}, {AdamW, "5x4x4"}, {AdamW, "5x4x4,3x3x3free=0.5"}} {
		c := testConfig()
		c.Network, c.Rules, c.Optimizer, c.Batch, c.LR = "2x8/6/10", test.rules, test.optimizer, 32, 0.002
		by := torchCompute(t)
		ours := gametest.Must(New(c, nil, mixed(t, c), Compute{Threads: 2}))(t)
		theirs := gametest.Must(New(c, nil, mixed(t, c), by))(t)
		t.Cleanup(ours.Close)
		t.Cleanup(theirs.Close)
		want, got := steps(t, ours, 10), steps(t, theirs, 10)
		near(t, "the losses of step 10", got.Total, want.Total, 1e-3)
		sameParts(t, ours, theirs, 2e-3)
		if !theirs.net.Symmetric() || !theirs.average.Symmetric() {
			t.Errorf("%+v: the network is not symmetric any more", test)
		}
		checkpoints := [][]byte{ours.Checkpoint(), theirs.Checkpoint()}
		for i, tr := range []*Trainer{theirs, ours} {
			gametest.OK(t, tr.Restore(checkpoints[i]))
			if err := tr.computer.fetch(); err != nil || !bytes.Equal(tr.Checkpoint(), checkpoints[i]) {
				t.Errorf("%+v: the other's checkpoint is another one when it has been taken over, error %v", test, err)
			}
		}
		steps(t, ours, 10)
		steps(t, theirs, 10)
		sameParts(t, ours, theirs, 5e-3)
		for game, l := range ours.lessons {
			examples := randomExamples(9, l.Board, measureBatch)
			a, b := gametest.Must(ours.computer.judge(game, examples))(t), gametest.Must(theirs.computer.judge(game, examples))(t)
			near(t, "the losses on "+l.Board.Rules().String(), b.Total, a.Total, 1e-3)
		}
	}
}

// If this processor is faster in bfloat16, the losses of 100 steps in it are about those in float32, but not the same.
func TestTorchBFloat16(t *testing.T) {
	c := testConfig()
	c.Network, c.Rules, c.Batch, c.LR, c.Steps = "2x8/6/10", "5x4x4", 64, 0.002, 100
	var sums []float64
	for _, allowed := range []bool{false, true} {
		by := torchCompute(t)
		by.BFloat16 = allowed
		tr := newTrainerOf(t, c, nil, testSource(c), by)
		if about := tr.computer.about(); allowed && !strings.HasSuffix(about, "the CPU, bfloat16") {
			t.Skipf("%s: this processor is not clearly faster in bfloat16", about)
		} else if !allowed && !strings.HasSuffix(about, "the CPU, float32") {
			t.Errorf("%s, want float32", about)
		}
		sum := 0.0
		for range 100 {
			sum += gametest.Must(tr.Step())(t).Total
		}
		sums = append(sums, sum)
		if _, err := tr.Step(); err == nil || !strings.Contains(err.Error(), "step 101: all steps of the run have been made") {
			t.Errorf("a step after the last: error %v", err)
		}
	}
	if sums[0] == sums[1] {
		t.Error("the losses are those in float32: nothing was computed in bfloat16")
	}
	near(t, "the losses in bfloat16", sums[1], sums[0], 0.02)
	t.Logf("%v in float32, %v in bfloat16", sums[0]/100, sums[1]/100)
}

// Without PyTorch, and if its process ends or says something else, the error says so and names the ways out.
func TestTorchFails(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"not there":  {"", "no such file"},
		"no torch":   {"echo >&2 \"ModuleNotFoundError: No module named 'torch'\"; exit 1", "exit status 1: ModuleNotFoundError: No module named 'torch'; "},
		"nonsense":   {"echo hello; cat >/dev/null", `it answers "hello\n": invalid character`},
		"ends later": {`read -r run; echo '{"about": "a fake"}'; echo >&2 out of memory; exit 1`, "exit status 1: out of memory; "},
	} {
		python := filepath.Join(t.TempDir(), "python")
		if c.script != "" {
			gametest.OK(t, os.WriteFile(python, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700))
		}
		tr, err := New(testConfig(), nil, lessons(testConfig(), testSource(testConfig())), Compute{Python: python})
		if err == nil { // the pipe has room for the state
			_, err = tr.Step()
			tr.Close()
		}
		ways := []string{"pip install torch", "EVALD_PYTHON", "gorgonia, which needs none"}
		if name == "ends later" {
			ways = []string{"resumes from the checkpoint"}
		}
		for _, want := range append(ways, "PyTorch: "+python, c.want) {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want one with %q", name, err, want)
			}
		}
	}
}

// A step by PyTorch whose gradient is not finite is an error.
func TestTorchDiverges(t *testing.T) {
	c := testConfig()
	initial := scrambled(t, c.Network, 1)
	for i := range initial.Weight("stem.weight").Float32s() {
		initial.Weight("stem.weight").Float32s()[i] *= 1e38
	}
	tr := newTrainerOf(t, c, initial, testSource(c), torchCompute(t))
	if _, err := tr.Step(); err == nil || !strings.Contains(err.Error(), "the run has diverged") {
		t.Errorf("error %v", err)
	}
}

func TestWeightsTrain(t *testing.T) {
	for _, w := range []Weights{{1, 1, 1, 0.5}, {1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {1, 0, 1, 0}} {
		n := scrambled(t, "1x4/3/5", 1)
		b := game.MustBoard(game.TicTacToe)
		g := testGraph(t, n, b, randomExamples(2, b, 4), w)
		for _, s := range n.Config().Specs() {
			inGraph := slices.ContainsFunc(g.params, func(p *gorgonia.Node) bool { return p.Name() == s.Name })
			if w.train(s.Name) != inGraph {
				t.Errorf("%+v train %s: %t, in the graph: %t", w, s.Name, w.train(s.Name), inGraph)
			}
		}
	}
}

// BenchmarkFeed measures how fast batches are made for PyTorch, from records on the disk.
func BenchmarkFeed(b *testing.B) {
	board := game.MustBoard(game.Connect4)
	r, err := OpenRecords(board, RecordOptions{Seed: 1}, writeRecords(b, board, 60_000, eval.Searched))
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	c := testConfig()
	c.Batch, c.Steps = 1024, maxSteps
	t := &Trainer{config: c, lessons: []Lesson{{board, WithRules(r.Source, board, 1)}}, turns: game.NewTurns(game.Mix{{Rules: game.Connect4, Share: 1}}), examples: make([]Example, c.Batch)}
	f := (&torch{Trainer: t}).feed(0)
	defer f.stop()
	for b.Loop() {
		if _, err := f.take(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*c.Batch)/b.Elapsed().Seconds(), "positions/s")
}
