package tables

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/nn/pattern"
	"github.com/evald/evald/nn/train"
)

var board = game.MustBoard(game.Connect4)

const lanes = 64 // of testConfig

func testConfig() train.Config {
	return train.Config{
		Task: "all", Network: "pattern64x16x16", Rules: "7x6x4", Batch: 150, Steps: 4, LR: 0.003, Warmup: 2, Schedule: train.Cosine,
		Optimizer: train.Adam, Seed: 3, Weights: train.Weights{WDL: 1, Policy: 0.7},
	}
}

// randomExamples are of all kinds: searched and solved, with and without a policy, finished, and of weight 0.
func randomExamples(seed uint64, n int) []train.Example {
	r := rand.New(rand.NewPCG(seed, 1))
	all := make([]train.Example, n)
	for i := range all {
		e := &all[i]
		e.Position, e.Weight, e.GameOver = gametest.Position(r, board, r.IntN(36), true), float32(r.IntN(3)), -1
		e.WDL[r.IntN(3)] += 0.7
		e.WDL[r.IntN(3)] += 0.3
		if e.Solved = r.IntN(2) == 0; board.Result(e.Position) != game.Ongoing || r.IntN(4) == 0 {
			continue
		}
		e.Policy = make([]float32, 7)
		total := float32(0)
		for a := range e.Policy {
			if board.CanPlay(e.Position, a) && (total == 0 || r.IntN(2) == 0) {
				e.Policy[a] = float32(1 + r.IntN(3))
				if e.Solved {
					e.Policy[a] = 1
				}
				total += e.Policy[a]
			}
		}
		for a := range e.Policy {
			e.Policy[a] /= total
		}
	}
	return all
}

func source(step int, dst []train.Example) error {
	copy(dst, randomExamples(uint64(step), len(dst)))
	return nil
}

func newTrainer(t *testing.T, c train.Config, threads int) *Trainer {
	t.Helper()
	tr := gametest.Must(New(c, nil, source, threads))(t)
	return tr
}

// slowLoss is the definition of the total loss in doc.go, in float64 and one number at a time.
func slowLoss(n *pattern.Real, examples []train.Example, w train.Weights) float64 {
	var loss, mass [2]float64
	for _, e := range examples {
		if e.Weight == 0 || board.Result(e.Position) != game.Ongoing {
			continue
		}
		x := logits(n, e.Position)
		total := math.Exp(x[0]) + math.Exp(x[1]) + math.Exp(x[2])
		for k, target := range e.WDL {
			loss[0] -= float64(e.Weight) * float64(target) * math.Log(math.Exp(x[k])/total)
			mass[0] += float64(e.Weight) * float64(target)
		}
		if len(e.Policy) == 0 {
			continue
		}
		mass[1] += float64(e.Weight)
		total = 0
		for a := range 7 {
			if board.CanPlay(e.Position, a) {
				total += math.Exp(x[3+a])
			}
		}
		together, logs, good := 0.0, 0.0, 0.0
		for a, target := range e.Policy {
			if p := math.Exp(x[3+a]) / total; target > 0 && e.Solved {
				together, logs, good = together+p, logs+math.Log(p), good+1
			} else if target > 0 {
				loss[1] -= float64(e.Weight) * float64(target) * math.Log(p)
			}
		}
		if e.Solved {
			loss[1] -= float64(e.Weight) * (0.85*math.Log(together) + 0.15*logs/good)
		}
	}
	return float64(w.WDL)*loss[0]/mass[0] + float64(w.Policy)*loss[1]/mass[1]
}

// The loss is that of the definition, and its gradient is what the loss changes by if a number is moved a little.
func TestGradient(t *testing.T) {
	if gametest.Race {
		t.Skip("TestFolder has the same goroutines")
	}
	c := testConfig()
	tr := newTrainer(t, c, 2)
	r := rand.New(rand.NewPCG(5, 5))
	for i := range tr.net.Table {
		tr.net.Table[i] = float32(r.NormFloat64() * 0.06)
	}
	size, each, rows := 70, 20, 80 // examples; numbers of each part and of the table that are checked
	if gametest.Soak() {
		size, each, rows = 100, 40, 150
	}
	examples := randomExamples(77, size)
	losses := tr.losses(examples, true)
	want := slowLoss(tr.net, examples, c.Weights)
	if math.Abs(losses.Total-want) > 1e-4 || want < 1 {
		t.Fatalf("the loss is %v, want %v", losses.Total, want)
	}
	// The gradient as update sees it.
	sum := slices.Clone(tr.batch.blocks[0])
	addTo(sum, tr.batch.blocks[1])
	tr.sort()
	checked, sizes := 0, 0.0
	check := func(name string, values []float32, i int, got float64) {
		was := values[i]
		slope := func(by float32) float64 { // by float32, so what was really added is asked for
			values[i] = was + by
			moved := slowLoss(tr.net, examples, c.Weights)
			step := float64(values[i]) - float64(was)
			values[i] = was
			return (moved - want) / step
		}
		up, down := slope(1e-4), slope(-1e-4)
		if math.Abs(up-down) > 0.002*math.Abs(up)+1e-6 { // a bend of a clamp is near
			return
		}
		checked++
		sizes += math.Abs(got)
		if mean := (up + down) / 2; math.Abs(got-mean) > 0.002*math.Abs(mean)+2e-6 {
			t.Errorf("%s[%d]: gradient %v, want %v", name, i, got, mean)
		}
	}
	at := 0
	for k, v := range tr.layers {
		for range each {
			i := r.IntN(len(v.now))
			check([]string{"bias", "w0", "b0", "w1", "b1", "w2", "b2"}[k], v.now, i, float64(sum[at+i]))
		}
		at += len(v.now)
	}
	for range rows {
		row := int(tr.batch.touched[r.IntN(len(tr.batch.touched))])
		lane := r.IntN(lanes)
		got := 0.0
		for _, e := range tr.batch.order[tr.batch.starts[row]:tr.batch.starts[row+1]] {
			got += float64(tr.batch.lanes[int(e)*lanes+lane])
		}
		check("table", tr.net.Table, row*lanes+lane, got)
	}
	if checked < (7*each+rows)*3/5 || sizes/float64(checked) < 1e-4 {
		t.Errorf("%d numbers were checked, whose gradients are %v in the mean", checked, sizes/float64(checked))
	}
}

// Each row is changed by Adam with the sum of its examples' gradients, and rows that no example has stay as they are.
func TestUpdate(t *testing.T) {
	tr := newTrainer(t, testConfig(), 2)
	r := rand.New(rand.NewPCG(6, 6))
	for _, v := range append(tr.layers, tr.table) {
		for i := range v.first[:len(v.first)/map[bool]int{false: 1, true: 100}[gametest.Race]] { // under the race detector all take seconds
			v.first[i], v.second[i] = float32(r.NormFloat64()*1e-4), float32(r.Float64()*1e-7)
		}
	}
	tr.step = 4
	copy(tr.examples, randomExamples(8, len(tr.examples)))
	tr.losses(tr.examples, true)
	want := map[int][]float64{} // by row
	for i, e := range tr.examples {
		if e.Weight == 0 {
			continue
		}
		for _, row := range pattern.AppendRows(nil, e.Position) {
			if want[int(row)] == nil {
				want[int(row)] = make([]float64, lanes)
			}
			for lane := range lanes {
				want[int(row)][lane] += float64(tr.batch.lanes[i*lanes+lane])
			}
		}
	}
	table, first, second := slices.Clone(tr.table.now), slices.Clone(tr.table.first), slices.Clone(tr.table.second)
	tr.update(0.003)
	if gametest.Race {
		return // the comparison takes seconds, and one goroutine
	}
	for i, now := range tr.table.now {
		row, was := i/lanes, table[i]
		if want[row] == nil {
			if now != was || tr.table.first[i] != first[i] || tr.table.second[i] != second[i] {
				t.Fatalf("row %d, which no example has, was changed", row)
			}
			continue
		}
		g := want[row][i%lanes]
		m, s := 0.9*float64(first[i])+0.1*g, 0.999*float64(second[i])+0.001*g*g
		expected := float64(was) - 0.003*(m/(1-math.Pow(0.9, 5)))/(math.Sqrt(s/(1-math.Pow(0.999, 5)))+1e-8)
		if math.Abs(float64(now)-expected) > 1e-5 {
			t.Fatalf("row %d, lane %d is %v, want %v", row, i%lanes, now, expected)
		}
	}
	for k, v := range tr.layers {
		if v.most == 0 {
			continue
		}
		for _, x := range v.now {
			if x > v.most || x < -v.most {
				t.Fatalf("a weight of part %d is %v", k, x)
			}
		}
	}
}

// What a step is follows from its number: threads, a stop and a checkpoint change no bit of a run, whose network is the one in
// whole numbers.
func TestFolder(t *testing.T) {
	if gametest.Race {
		t.Skip("18 s under the race detector, and TestUpdate trains in the same goroutines")
	}
	c := testConfig()
	c.Steps = 8
	run := func(dir string, threads, interrupt int) error {
		tr := newTrainer(t, c, threads)
		f, err := train.OpenFolder(dir, c, tr)
		if err != nil {
			t.Fatal(err)
		}
		if threads > 1 { // measuring changes nothing
			f.HeldOut = [][]train.Example{randomExamples(5, 40)}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err = f.Train(ctx, time.Hour, func(r train.Report) {
			if r.Step != tr.Done() || r.Norm <= 0 || r.Total <= 0 || r.Rate != c.Rate(tr.Done()-1) {
				t.Errorf("a strange report %+v", r)
			}
			if r.Step == interrupt {
				cancel()
			}
		})
		return errors.Join(err, f.Close())
	}
	whole, halves := t.TempDir(), t.TempDir()
	gametest.OK(t, run(whole, 1, 0))
	if err := run(halves, 2, 5); !errors.Is(err, context.Canceled) {
		t.Fatalf("the interrupted run: %v", err)
	}
	gametest.OK(t, run(halves, 5, 0))
	for _, name := range []string{train.NetworkFile, train.CheckpointFile, train.ConfigFile} {
		a := gametest.Must(os.ReadFile(filepath.Join(whole, name)))(t)
		if b, err := os.ReadFile(filepath.Join(halves, name)); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s is another after an interruption: %v", name, err)
		}
	}
	first := newTrainer(t, c, 2)
	if c.Seed++; slices.Equal(first.net.Dense[0].Weight, newTrainer(t, c, 2).net.Dense[0].Weight) {
		t.Error("another seed gives the same network")
	}
	n := gametest.Must(pattern.ReadFile(filepath.Join(whole, train.NetworkFile)))(t)
	if n.String() != c.Network || !strings.Contains(n.Metadata["evald.training"], `"step":8`) {
		t.Errorf("the network is %s, of %s", n, n.Metadata["evald.training"])
	}
	metrics := gametest.Must(train.ReadMetrics(filepath.Join(halves, train.MetricsFile)))(t)
	if last := metrics[len(metrics)-1]; len(metrics) != c.Steps || last.Step != c.Steps || last.WDL == nil || last.Policy == nil || last.HeldOut == nil {
		t.Errorf("%d lines of metrics, the last %+v", len(metrics), metrics[len(metrics)-1])
	}
}

// A few positions are learned by heart, and the network of whole numbers knows them too.
func TestLearns(t *testing.T) {
	if gametest.Race {
		t.Skip("TestFolder has the same goroutines")
	}
	c := testConfig()
	c.Network, c.Steps, c.LR, c.Batch = "pattern64x16x16", 150, 0.01, 64
	few := randomExamples(21, c.Batch)
	seen := map[game.Position]bool{}
	for i := range few {
		e := &few[i]
		if seen[e.Position] || seen[board.Mirror(e.Position)] {
			e.Weight = 0
		}
		seen[e.Position] = true
		e.WDL, e.Solved = [3]float32{}, false
		e.WDL[i%3] = 1
	}
	tr, err := New(c, nil, func(_ int, dst []train.Example) error {
		copy(dst, few)
		return nil
	}, 2)
	if err != nil {
		t.Fatal(err)
	}
	before := gametest.Must(tr.Judge(0, few))(t)
	first := before.WDL.Loss
	for range c.Steps {
		if _, err := tr.Step(); err != nil {
			t.Fatal(err)
		}
	}
	last := gametest.Must(tr.Judge(0, few))(t)
	if first < 0.9 || last.WDL.Loss > 0.1 || last.WDL.Accuracy() < 0.99 {
		t.Errorf("the loss went from %v to %v, accuracy %v", first, last.WDL.Loss, last.WDL.Accuracy())
	}
	n := gametest.Must(tr.Network())(t)
	right, count := 0, 0
	k := gametest.Must(kernel.New(&n.Weights, kernel.Go))(t)
	out := make([]int32, kernel.Outputs)
	for i, e := range few {
		if e.Weight == 0 {
			continue
		}
		k.Forward(pattern.AppendRows(nil, e.Position), pattern.Each, out)
		if count++; out[i%3] == max(out[0], out[1], out[2]) {
			right++
		}
	}
	if count < 20 || right < count-1 {
		t.Errorf("in whole numbers %d of %d results are right", right, count)
	}
	again := gametest.Must(New(c, n, source, 1))(t)
	if got, err := again.Judge(0, few); err != nil || got.WDL.Accuracy() < 0.95 {
		t.Errorf("a run that begins with it has accuracy %v: %v", got.WDL.Accuracy(), err)
	}
}

func TestWrongConfig(t *testing.T) {
	gametest.OneGoroutine(t)
	for _, c := range []struct {
		edit func(c *train.Config)
		want string
	}{
		{func(c *train.Config) { c.Network = "6x64" }, `shape "6x64": want lanes`},
		{func(c *train.Config) { c.Network = "pattern64x16" }, "want lanes"},
		{func(c *train.Config) { c.Network = "pattern64x016x16" }, `"016" is no number`},
		{func(c *train.Config) { c.Network = "pattern65x16x16" }, "lanes is 65, must be a multiple of 32"},
		{func(c *train.Config) { c.Network = "pattern64x16x8" }, "hidden layer 2 has 8 outputs"},
		{func(c *train.Config) { c.Optimizer = train.Muon }, `optimizer is "muon", want adam`},
		{func(c *train.Config) { c.Rules = "5x4x4" }, "rules are 5x4x4"},
		{func(c *train.Config) { c.LR = -1 }, "lr is -1"},
	} {
		config := testConfig()
		c.edit(&config)
		if _, err := New(config, nil, source, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
	n := gametest.Must(newTrainer(t, testConfig(), 1).Network())(t)
	config := testConfig()
	config.Network = "pattern96x16x16"
	if _, err := New(config, n, source, 1); err == nil || !strings.Contains(err.Error(), "the initial network is pattern64x16x16") {
		t.Errorf("an initial network of another shape: %v", err)
	}
}

func BenchmarkStep(b *testing.B) {
	for _, shape := range []string{"pattern128x64x32", "pattern256x64x32"} {
		b.Run(shape, func(b *testing.B) {
			c := testConfig()
			c.Network, c.Batch, c.Steps = shape, 4096, 1<<30
			var examples []train.Example
			for len(examples) < c.Batch {
				for _, e := range randomExamples(uint64(len(examples)), 1000) {
					if e.Weight > 0 && board.Result(e.Position) == game.Ongoing {
						examples = append(examples, e)
					}
				}
			}
			tr, err := New(c, nil, func(_ int, dst []train.Example) error {
				copy(dst, examples)
				return nil
			}, 1)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := tr.Step(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(c.Batch)*float64(b.N)/b.Elapsed().Seconds(), "positions/s")
		})
	}
}
