package train

import (
	"bytes"
	"context"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/net"
)

func testConfig() Config {
	return Config{
		Network: "1x4/4/6", Rules: "4x4x3", Batch: 16, Steps: 40, LR: 0.01, Schedule: Cosine, Warmup: 4,
		Optimizer: AdamW, L2: 0.01, Clip: 1, EMA: 0.9, Seed: 7, Weights: Weights{1, 1, 1, 0},
	}
}

// testSource gives random examples for each step.
func testSource(c Config) Source {
	rules, err := game.ParseRules(c.Rules)
	if err != nil {
		panic(err)
	}
	b := game.MustBoard(rules)
	return func(step int, dst []Example) error {
		copy(dst, randomExamples(uint64(step), b, len(dst)))
		return nil
	}
}

// lessons are those of a run of one game.
func lessons(c Config, source Source) []Lesson {
	rules, err := game.ParseRules(c.Rules)
	if err != nil {
		return nil // New refuses the configuration
	}
	return []Lesson{{game.MustBoard(rules), source}}
}

// mixed are lessons of every game of a configuration, of random examples.
func mixed(t testing.TB, c Config) (all []Lesson) {
	t.Helper()
	for i, p := range gametest.Must(game.ParseMix(c.Rules))(t) {
		b := game.MustBoard(p.Rules)
		all = append(all, Lesson{b, func(step int, dst []Example) error {
			copy(dst, randomExamples(uint64(step)<<8+uint64(i), b, len(dst)))
			return nil
		}})
	}
	return all
}

func newTrainer(t testing.TB, c Config, threads int) *Trainer {
	t.Helper()
	return newTrainerOf(t, c, nil, testSource(c), Compute{Threads: threads})
}

func newTrainerOf(t testing.TB, c Config, initial *net.Network, source Source, by Compute) *Trainer {
	t.Helper()
	tr := gametest.Must(New(c, initial, lessons(c, source), by))(t)
	t.Cleanup(tr.Close)
	return tr
}

// same gives these examples at each step.
func same(examples []Example) Source {
	return func(_ int, dst []Example) error {
		copy(dst, examples)
		return nil
	}
}

func steps(t testing.TB, tr *Trainer, n int) (last Report) {
	t.Helper()
	for range n {
		var err error
		if last, err = tr.Step(); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

func weightsOf(t testing.TB, n *net.Network) []byte {
	t.Helper()
	file := gametest.Must(n.Marshal())(t)
	return file
}

// A run resumed from a checkpoint ends with the same bytes as one that was never stopped, with any number of threads.
func TestResume(t *testing.T) {
	for _, optimizer := range []string{Muon, AdamW} {
		c := testConfig()
		c.Optimizer = optimizer
		whole := newTrainer(t, c, 1)
		steps(t, whole, c.Steps)

		first := newTrainer(t, c, 2)
		steps(t, first, 17)
		second := newTrainer(t, c, 3)
		steps(t, second, 3) // Restore replaces whatever state there was
		gametest.OK(t, second.Restore(first.Checkpoint()))
		if second.Done() != 17 {
			t.Fatalf("restored at step %d, want 17", second.Done())
		}
		steps(t, second, c.Steps-17)
		if !bytes.Equal(weightsOf(t, whole.Network()), weightsOf(t, second.Network())) {
			t.Errorf("%s: the run that was stopped has other weights", optimizer)
		}
		if !bytes.Equal(whole.Checkpoint(), second.Checkpoint()) {
			t.Errorf("%s: the run that was stopped has another state", optimizer)
		}
		if bytes.Equal(weightsOf(t, whole.net), weightsOf(t, whole.average)) {
			t.Error("the moving average is the weights themselves")
		}
	}
}

// Every faulty checkpoint is refused with an error, and the run is left unchanged.
func TestRestoreRefuses(t *testing.T) {
	tr := newTrainer(t, testConfig(), 1)
	steps(t, tr, 2)
	good := tr.Checkpoint()
	other := testConfig()
	other.LR = 0.02
	otherTrainer := newTrainer(t, other, 1)
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 4
	for _, test := range []struct {
		name, want string
		file       []byte
	}{
		{"empty", "not a checkpoint", nil},
		{"network", "not a checkpoint", weightsOf(t, tr.Network())},
		{"magic only", "too few", []byte(magic)},
		{"truncated", "damaged", good[:len(good)-1]},
		{"flipped bit", "damaged", flipped},
		{"longer", "damaged", append(bytes.Clone(good), 0)},
		{"foreign", "lr 0.02", otherTrainer.Checkpoint()},
	} {
		err := tr.Restore(test.file)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error is %v, want one about %q", test.name, err, test.want)
		}
		if !bytes.Equal(tr.Checkpoint(), good) {
			t.Fatalf("%s: the run has changed", test.name)
		}
	}
}

func FuzzRestore(f *testing.F) {
	tr := newTrainer(f, testConfig(), 1)
	f.Add(tr.Checkpoint())
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, file []byte) {
		if err := tr.Restore(file); err == nil && !bytes.Equal(tr.Checkpoint(), file) {
			t.Error("a checkpoint was accepted that is not the run's state")
		}
	})
}

// Every optimizer can learn a few examples by heart.
func TestOverfit(t *testing.T) {
	if gametest.Race {
		t.Skip("TestResume has the same goroutines")
	}
	for _, optimizer := range []string{Muon, AdamW} {
		c := testConfig()
		c.Network, c.Steps, c.Optimizer, c.L2, c.EMA, c.Warmup = "2x8/8/16", 150, optimizer, 0, 0, 5
		b := game.MustBoard(game.Rules{Rows: 4, Columns: 4, InARow: 3, Gravity: true})
		examples := randomExamples(3, b, c.Batch)
		for i := range examples {
			e := &examples[i]
			e.WDL, e.GameOver, e.Weight = [3]float32{}, i%4, 1
			e.WDL[i%3] = 1
			if legal := b.Legal(e.Position); len(e.Policy) > 0 {
				clear(e.Policy)
				e.Policy[b.Action(legal.First())] = 1
			}
		}
		tr := newTrainerOf(t, c, nil, same(examples), Compute{Threads: 2})
		first := steps(t, tr, 1).Total
		last := steps(t, tr, c.Steps-1)
		if first < 2 || last.Total > 0.25*first {
			t.Errorf("%s: loss goes from %.3f to %.3f, want to less than a quarter", optimizer, first, last.Total)
		}
		t.Logf("%s: %.6f to %.6f", optimizer, first, last.Total)
	}
}

func TestRate(t *testing.T) {
	c := Config{LR: 1, Steps: 110, Warmup: 10, Schedule: Cosine}
	for step, want := range map[int]float64{0: 1.0 / 11, 9: 10.0 / 11, 10: 1, 35: 0.85355339, 60: 0.5, 109: 0.00024672} {
		near(t, "cosine", c.Rate(step), want, 1e-7)
	}
	c.EMA = 0.99
	near(t, "first decay", c.decay(0), 0.1, 1e-12)
	near(t, "late decay", c.decay(10000), 0.99, 0)
}

// A symmetric network stays symmetric with every optimizer, bit for bit, and so does its moving average. Another network
// does not become symmetric.
func TestStaysSymmetric(t *testing.T) {
	for _, rule := range []string{Muon, AdamW} {
		c := testConfig()
		c.Network, c.Optimizer = "2x5/3/7", rule
		tr := newTrainer(t, c, 2)
		steps(t, tr, 10)
		if !tr.net.Symmetric() || !tr.Network().Symmetric() {
			t.Errorf("%s: after ten steps the weights are symmetric: %t, their average: %t", rule, tr.net.Symmetric(), tr.Network().Symmetric())
		}
		other := newTrainerOf(t, c, scrambled(t, c.Network, 4), testSource(c), Compute{Threads: 2})
		if steps(t, other, 10); other.net.Symmetric() {
			t.Errorf("%s: a network that was not symmetric has become so", rule)
		}
	}
}

// A run that begins with a network of fewer blocks has its weights (net.Network.Grow), and the added blocks learn.
func TestBeginsSmaller(t *testing.T) {
	c := testConfig()
	c.Network = "2x4/4/6"
	initial := scrambled(t, "1x4/4/6", 4)
	tr := newTrainerOf(t, c, initial, testSource(c), Compute{Threads: 2})
	for _, s := range initial.Config().Specs() {
		if want := initial.Weight(s.Name).Float32s(); !slices.Equal(tr.net.Weight(s.Name).Float32s(), want) || !slices.Equal(tr.average.Weight(s.Name).Float32s(), want) {
			t.Errorf("before the first step %s is not that of the initial network", s.Name)
		}
	}
	steps(t, tr, 2)
	if w := tr.net.Weight("blocks.1.conv2.weight").Float32s(); !slices.ContainsFunc(w, func(x float32) bool { return x != 0 }) {
		t.Error("after two steps the block that was added still changes nothing")
	}
}

// param is a parameter for tests of the solver alone.
type param struct {
	name    string
	w, grad *tensor.Dense
}

func (p param) Value() gorgonia.Value         { return p.w }
func (p param) Grad() (gorgonia.Value, error) { return p.grad, nil }
func (p param) Name() string                  { return p.name }
func vector(shape []int, values ...float32) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(values))
}

// Two steps by hand: clipping over all parameters, decay on weights but not on biases, and the moments.
func TestSolver(t *testing.T) {
	weight := param{"weight", vector([]int{1, 2}, 1, -2), vector([]int{1, 2}, 3, 0)}
	bias := param{"bias", vector([]int{1}, 1), vector([]int{1}, 4)}
	model := []gorgonia.ValueGrad{weight, bias}
	s := &solver{clip: 1, decay: 0.1, rate: 0.5, moments: map[string]*moments{
		"weight": newMoments(AdamW, net.Spec{Name: "weight", Shape: []int{1, 2}}, false),
		"bias":   newMoments(AdamW, net.Spec{Name: "bias", Shape: []int{1}}, false),
	}}
	w, m, v := []float64{1, -2, 1}, make([]float64, 3), make([]float64, 3)
	for step, grads := range [][]float64{{3, 0, 4}, {0.1, -0.2, 0.2}} {
		copy(weight.grad.Float32s(), []float32{float32(grads[0]), float32(grads[1])})
		bias.grad.Float32s()[0] = float32(grads[2])
		gametest.OK(t, s.Step(model))
		norm := math.Sqrt(grads[0]*grads[0] + grads[1]*grads[1] + grads[2]*grads[2])
		near(t, "norm", s.norm, norm, 1e-6)
		for i, g := range grads {
			g /= max(1, norm)
			if i < 2 {
				w[i] -= 0.5 * 0.1 * w[i]
			}
			m[i], v[i] = 0.9*m[i]+0.1*g, 0.999*v[i]+0.001*g*g
			n := float64(step + 1)
			w[i] -= 0.5 * m[i] / (1 - math.Pow(0.9, n)) / (math.Sqrt(v[i]/(1-math.Pow(0.999, n))) + 1e-8)
		}
		for i, got := range append(weight.w.Float32s()[:2:2], bias.w.Float32s()[0]) {
			near(t, "parameter", float64(got), w[i], 1e-5)
		}
		if weight.grad.Float32s()[0] != 0 || bias.grad.Float32s()[0] != 0 {
			t.Fatal("gradients are left for the next step")
		}
	}
	before := weight.w.Float32s()[0]
	weight.grad.Float32s()[1] = float32(math.NaN())
	if err := s.Step(model); err == nil || !strings.Contains(err.Error(), "diverged") || weight.w.Float32s()[0] != before {
		t.Errorf("a gradient of NaN gives error %v and weight %v, want an error and %v", err, weight.w.Float32s()[0], before)
	}
}

// The moving average follows its definition.
func TestAverage(t *testing.T) {
	c := testConfig()
	tr := newTrainer(t, c, 1)
	value := func(n *net.Network) float64 { return float64(n.Weight("stem.weight").Float32s()[3]) }
	want := value(tr.net)
	for step := range 12 {
		steps(t, tr, 1)
		d := min(0.9, float64(1+step)/float64(10+step))
		want = d*want + (1-d)*value(tr.net)
		near(t, "average", value(tr.Network()), want, 1e-6)
	}
}

// The rates of classes are as documented.
func TestPositionRates(t *testing.T) {
	gametest.OneGoroutine(t)
	b := game.MustBoard(game.Connect4)
	count := func(s Source, batches int) (classes [4]float64) {
		examples := make([]Example, 1000)
		for step := range batches {
			gametest.OK(t, s(step, examples))
			for _, e := range examples {
				if want := map[game.Result]int{game.Ongoing: 0, game.Win: 1, game.Loss: 2, game.Draw: 3}[b.Result(e.Position)]; e.GameOver != want {
					t.Fatalf("position %v has class %d, want %d", e.Position, e.GameOver, want)
				}
				classes[e.GameOver] += 1 / float64(1000*batches)
			}
		}
		return classes
	}
	within := func(name string, got [4]float64, want [4]float64, by float64) {
		t.Helper()
		for class := range got {
			if math.Abs(got[class]-want[class]) > by {
				t.Errorf("%s: class %d has rate %.5f, want %.5f", name, class, got[class], want[class])
			}
		}
	}
	natural := count(NaturalPositions(b, 1), 100)
	within("natural", natural, [4]float64{0.953, 0.0235, 0.0235, 0.00015}, 0.002)
	if natural[game.Drawn] == 0 {
		t.Error("no draw among 100,000 natural positions")
	}
	within("to learn", count(RulePositions(b, 1), 20), [4]float64{0.5, 0.125, 0.125, 0.25}, 0.012)
	line := game.MustBoard(game.Rules{Rows: 1, Columns: 3, InARow: 1, Gravity: true}) // cannot be drawn
	if err := RulePositions(line, 1)(0, make([]Example, 8)); err != nil {
		t.Error(err)
	}
}

// Decided positions have the targets that trying every move gives.
func TestDecidedPositions(t *testing.T) {
	for _, b := range gametest.Boards() {
		dst := make([]Example, 400)
		gametest.OK(t, DecidedPositions(b, 2)(0, dst))
		if err := NewBatch(b, len(dst)).Fill(dst); err != nil {
			t.Errorf("%v: %v", b.Rules(), err)
		}
		won, lost, forced := 0, 0, 0
		for i, e := range dst {
			if b.Result(e.Position) != game.Ongoing || e.Policy == nil && e.WDL == [3]float32{} {
				continue // a natural position: the board had no decided one
			}
			wins, threats := map[int]bool{}, 0 // the winning moves; how many moves leave the other side no win
			safe := -1
			for a := range b.Actions() {
				if !b.CanPlay(e.Position, a) {
					continue
				}
				after := b.Play(e.Position, a)
				if b.Result(after) == game.Loss {
					wins[a] = true
				}
				if b.Wins(after).IsZero() {
					safe, threats = a, threats+1
				}
			}
			switch {
			case len(wins) > 0:
				won++
				for a, p := range e.Policy {
					if !wins[a] && p != 0 || wins[a] && p != 1/float32(len(wins)) {
						t.Fatalf("%v: example %d: policy %v, want that of %v", b.Rules(), i, e.Policy, wins)
					}
				}
				if e.WDL != [3]float32{1, 0, 0} {
					t.Fatalf("%v: example %d is won, its target %v", b.Rules(), i, e.WDL)
				}
			case threats == 0:
				lost++
				if e.WDL != [3]float32{0, 0, 1} || e.Policy != nil {
					t.Fatalf("%v: example %d is lost, its targets %v and %v", b.Rules(), i, e.WDL, e.Policy)
				}
			case threats == 1:
				forced++
				if e.Policy[safe] != 1 {
					t.Fatalf("%v: example %d: policy %v, want move %d", b.Rules(), i, e.Policy, safe)
				}
			}
		}
		if b.Rules() == game.Connect4 && (won < 180 || lost < 90 || forced < 90) {
			t.Errorf("%d won, %d lost, %d forced of %d", won, lost, forced, len(dst))
		}
	}
}

// The examples of a step do not depend on the steps before it.
func TestSourcesByStep(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	for _, s := range []Source{NaturalPositions(b, 3), RulePositions(b, 3), DecidedPositions(b, 3)} {
		once, again := make([]Example, 32), make([]Example, 32)
		gametest.OK(t, s(5, once))
		for step, same := range []bool{4: false, 5: true} {
			gametest.OK(t, s(step, again))
			if reflect.DeepEqual(once, again) != same {
				t.Errorf("step %d has the examples of step 5: %t", step, !same)
			}
		}
	}
}

// Measure agrees with the network's reference forward pass.
func TestMeasure(t *testing.T) {
	b := game.MustBoard(game.TicTacToe)
	n := scrambled(t, "1x4/3/5", 9)
	source := NaturalPositions(b, 2)
	got := gametest.Must(Measure(context.Background(), n, b, source, 1, Weights{GameOver: 1}, nil))(t)
	examples := make([]Example, measureBatch)
	gametest.OK(t, source(0, examples))
	var rows, right [4]int
	for _, e := range examples {
		rows[e.GameOver]++
		planes := net.NewPlanes(b, []game.Position{e.Position}).Float32s()
		n.Trace(planes, b.Rows(), b.Columns(), func(layer string, logits []float32) {
			if layer == "value.gameover" && slices.Index(logits, slices.Max(logits)) == e.GameOver {
				right[e.GameOver]++
			}
		})
	}
	for k := range rows {
		if got.GameOver.Rows[k] != rows[k] || got.GameOver.Right[k] != right[k] {
			t.Errorf("class %d: %d of %d right, want %d of %d", k, got.GameOver.Right[k], got.GameOver.Rows[k], right[k], rows[k])
		}
	}
}

func TestFillRefuses(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	full := b.PlayMoves(make([]int, 6))
	nan := float32(math.NaN())
	for want, e := range map[string]Example{
		"weight is NaN":          {Weight: nan},
		"weight is -1":           {Weight: -1},
		"policy has 3 actions":   {Weight: 1, Policy: make([]float32, 3)},
		"gameover is 4":          {Weight: 1, GameOver: 4},
		"win, draw and loss":     {Weight: 1, WDL: [3]float32{nan, 0, 0}},
		"want probabilities":     {Weight: 1, Policy: []float32{nan, 0, 0, 0, 0, 0, 0}},
		"is for illegal actions": {Weight: 1, Position: full, Policy: []float32{1, 0, 0, 0, 0, 0, 0}},
	} {
		err := NewBatch(b, 1).Fill([]Example{e})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
}

// About half of the examples of a step are mirrored, different ones at each step.
func TestStepMirrors(t *testing.T) {
	c := testConfig()
	c.Batch = 400
	b := game.MustBoard(game.Rules{Rows: 4, Columns: 4, InARow: 3, Gravity: true})
	left := b.Play(game.Position{}, 0)
	examples := slices.Repeat([]Example{{Position: left, Policy: []float32{1, 0, 0, 0}, Weight: 1}}, c.Batch)
	tr := newTrainerOf(t, c, nil, same(examples), Compute{Threads: 1})
	var first []Example
	for range 2 {
		steps(t, tr, 1)
		mirrored := 0
		for _, e := range tr.examples {
			if e.Position == b.Mirror(left) && e.Policy[3] == 1 {
				mirrored++
			} else if e.Position != left || e.Policy[0] != 1 {
				t.Fatalf("an example has become %+v", e)
			}
		}
		if mirrored < 150 || mirrored > 250 {
			t.Errorf("%d of 400 examples are mirrored", mirrored)
		}
		if cmp.Equal(first, tr.examples, cmp.Comparer(func(a, b game.Position) bool { return a == b })) {
			t.Error("two steps mirror the same examples")
		}
		first = slices.Clone(tr.examples)
	}
}

// Without gravity, the examples of a step are random images of the position, all eight about equally often.
func TestStepImages(t *testing.T) {
	c := testConfig()
	c.Rules, c.Batch = "3x3x3free", 800
	b := game.MustBoard(game.TicTacToe)
	p := b.PlayMoves([]int{0, 1})
	policy := make([]float32, b.Actions())
	policy[5] = 1
	tr := newTrainerOf(t, c, nil, same(slices.Repeat([]Example{{Position: p, Policy: policy, Weight: 1}}, c.Batch)), Compute{Threads: 1})
	steps(t, tr, 1)
	seen := map[game.Position]int{}
	for _, e := range tr.examples {
		seen[b.Play(e.Position, slices.Index(e.Policy, 1))]++
	}
	for s := range b.Symmetries() {
		if n := seen[b.Image(b.Play(p, 5), s)]; n < 70 || n > 130 {
			t.Errorf("%d of 800 examples are image %d, want about 100", n, s)
		}
	}
	if len(seen) != b.Symmetries() {
		t.Errorf("%d different images, want 8", len(seen))
	}
}

// Steps of several games are shared as the configuration says, each source is asked for its own steps in their order, and the weights are
// those that steps of one game at a time make: the state goes from one game to the next.
func TestMixedSteps(t *testing.T) {
	c := testConfig()
	c.Rules, c.Steps = "4x4x3=2,3x3x3free,5x4x4=0.5", 21
	all, asked := mixed(t, c), make([][]int, 3)
	for i := range all {
		source := all[i].Source
		all[i].Source = func(step int, dst []Example) error {
			asked[i] = append(asked[i], step)
			return source(step, dst)
		}
	}
	tr := gametest.Must(New(c, nil, all, Compute{Threads: 2}))(t)
	defer tr.Close()
	var report Report
	for range c.Steps {
		report = steps(t, tr, 1)
	}
	for i, want := range []int{12, 6, 3} {
		if len(asked[i]) != want || !slices.IsSorted(asked[i]) || asked[i][want-1] != want-1 {
			t.Errorf("game %d was asked for steps %v, want 0 to %d", i, asked[i], want-1)
		}
	}
	if report.Step != c.Steps || report.Policy == nil {
		t.Errorf("the last report is %+v", report)
	}

	// The same steps of trainers of one game, which hand the state on.
	mix := gametest.Must(game.ParseMix(c.Rules))(t)
	single, turns := make([]*Trainer, len(mix)), game.NewTurns(mix)
	for i, p := range mix {
		one := c
		one.Rules = p.Rules.String()
		single[i] = newTrainerOf(t, one, nil, nil, Compute{Threads: 1})
	}
	before := single[0]
	for step := range c.Steps {
		turn, had := turns.At(step)
		now := single[turn]
		now.lessons[0].Source = func(_ int, dst []Example) error { return all[turn].Source(had, dst) }
		for i, part := range before.state() {
			copy(now.state()[i], part)
		}
		now.step = step
		gametest.OK(t, now.computer.send())
		steps(t, now, 1)
		before = now
	}
	for i, part := range tr.state() {
		if !slices.Equal(part, before.state()[i]) {
			t.Fatalf("part %d of the state is another one", i)
		}
	}
}

func TestLessonsRefused(t *testing.T) {
	c := testConfig()
	c.Rules = "4x4x3,3x3x3free"
	all := mixed(t, c)
	for want, l := range map[string][]Lesson{
		"lesson 2 must be of 3x3x3free": all[:1],
		"lesson 1 must be of 4x4x3":     {all[1], all[0]},
		"3 lessons, and":                append(all, all[0]),
	} {
		if _, err := New(c, nil, l, Compute{Threads: 1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
