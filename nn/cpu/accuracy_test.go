package cpu

import (
	"math"
	"slices"
	"testing"

	"github.com/evald/evald/engine/eval/evaltest"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/net"
)

// accuracyBoards are of all kinds: small, usual, with and without gravity, and of the greatest width and height.
func accuracyBoards() []*game.Board {
	var boards []*game.Board
	for _, r := range []game.Rules{
		game.TicTacToe,
		game.Connect4,
		{Rows: 4, Columns: 4, InARow: 4, Gravity: true},
		{Rows: 5, Columns: 9, InARow: 4, Gravity: true},
		{Rows: 9, Columns: 12, InARow: 5, Gravity: true},
		{Rows: 3, Columns: 32, InARow: 4, Gravity: true},
		{Rows: 31, Columns: 4, InARow: 4, Gravity: true},
	} {
		boards = append(boards, game.MustBoard(r))
	}
	return boards
}

// Every layer of whole networks agrees with the reference.
func TestLayers(t *testing.T) {
	networks := []*net.Network{network(t, "2x16/8/16", 1), network(t, "3x33/5/7", 2), network(t, "1x1/1/1", 3), network(t, "1x96/32/64", 4)}
	eachPath(t, func(t *testing.T, p kernel.Path) {
		tolerance := 1e-4
		if p.BFloat16() || p.Int8() {
			tolerance = 0.05
		}
		for _, n := range networks {
			n := forPath(t, n, p)
			w := gametest.Must(weights(n))(t)
			tower := gametest.Must(kernel.New(w, p))(t)
			boards := accuracyBoards()
			if emulated(p) && !gametest.Soak() {
				boards = boards[:2]
			}
			for _, b := range boards {
				checkLayers(t, n, tower, b, tolerance)
			}
		}
	})
}

func checkLayers(t *testing.T, n *net.Network, tower *kernel.Tower, b *game.Board, tolerance float64) {
	t.Helper()
	h, w := b.Rows(), b.Columns()
	s := tower.NewScratch(h, w)
	count := min(3, s.Positions)
	pos := gametest.Positions(gametest.Rand(5), b, count, true)
	planes := make([]float32, net.PlanesSize(b, count))
	net.Planes(b, pos, planes)
	got := make([]map[string][]float32, count)
	for i := range got {
		got[i] = map[string][]float32{}
	}
	s.Trace = func(layer string, position int, values []float32) { got[position][layer] = slices.Clone(values) }
	tower.Forward(s, planes, count)
	for i := range count {
		size := len(planes) / count
		n.Trace(planes[i*size:(i+1)*size], h, w, func(layer string, want []float32) {
			have := got[i][layer]
			delete(got[i], layer)
			if len(have) != len(want) {
				t.Fatalf("%v %v: %s has %d values, want %d", n.Config(), b.Rules(), layer, len(have), len(want))
			}
			for k, v := range want {
				if d := math.Abs(float64(have[k] - v)); !(d <= tolerance*max(1, math.Abs(float64(v)))) {
					t.Fatalf("%v %v: position %d: %s: value %d is %v, want %v", n.Config(), b.Rules(), i, layer, k, have[k], v)
				}
			}
		})
		if len(got[i]) > 0 {
			t.Errorf("layers that the reference does not have: %v", got[i])
		}
	}
}

// Accuracy of whole networks on 7x6. Float32 paths agree with the reference within 1e-4. Paths with bfloat16 or 8 bits keep the
// probabilities within 0.02 at the 99th percentile, and the best move in 99.5% of positions, in make soak of 10,000 and
// with more networks. They are compared with a float32 path, which has just been compared with the reference, because the
// reference would take minutes.
func TestEndToEnd(t *testing.T) {
	board := game.MustBoard(game.Connect4)
	for name, c := range map[string]struct {
		n         *net.Network
		positions int
	}{
		"2x16":       {network(t, "2x16/8/16", 1), 2000},
		"default":    {shippedNetwork(t), 6000},
		"6x64":       {network(t, "6x64", 1), 10_000},
		"6x64 fresh": {freshNetwork(t, "6x64"), 2000},
		"10x128":     {network(t, "10x128", 1), 400},
	} {
		n, few, many := c.n, 5, c.positions
		soak := name != "2x16" && name != "default"
		switch {
		case soak && (!gametest.Soak() || testing.Short()):
			continue
		case testing.Short():
			few, many = 3, 30
		case gametest.Soak() && !soak:
			many = 10_000
		}
		pos := distinct(gametest.Positions(gametest.Rand(6), board, many*3/2, true))
		pos = pos[:min(many, len(pos))]
		reference := answers(t, evaltest.Raw(net.NewBackend(n)), board, pos[:few])
		var exact *eval.Batch // answers of a float32 path
		t.Run(name, func(t *testing.T) {
			eachPath(t, func(t *testing.T, p kernel.Path) {
				if n := forPath(t, n, p); n != c.n { // its weights are others
					reference := answers(t, evaltest.Raw(net.NewBackend(n)), board, pos[:few])
					exact := answers(t, evaltest.Raw(evaluator(t, n, kernel.Float32())), board, pos)
					compareAnswers(t, p, answers(t, evaltest.Raw(evaluator(t, n, p)), board, pos[:few]), reference)
					if !emulated(p) {
						compareAnswers(t, p, answers(t, evaltest.Raw(evaluator(t, n, p)), board, pos), exact)
					}
					return
				}
				e := evaluator(t, n, p)
				compareAnswers(t, p, answers(t, evaltest.Raw(e), board, pos[:few]), reference)
				if !p.BFloat16() && !p.Int8() || emulated(p) {
					return
				}
				if exact == nil {
					exact = answers(t, evaltest.Raw(evaluator(t, n, kernel.Float32())), board, pos)
				}
				compareAnswers(t, p, answers(t, evaltest.Raw(e), board, pos), exact)
			})
		})
	}
}

// distinct leaves out positions that are there already: one that is often met must not decide.
func distinct(pos []game.Position) []game.Position {
	met := map[game.Position]bool{}
	return slices.DeleteFunc(pos, func(p game.Position) bool {
		was := met[p]
		met[p] = true
		return was
	})
}

func freshNetwork(t testing.TB, config string) *net.Network {
	t.Helper()
	c := gametest.Must(net.ParseConfig(config))(t)
	n := gametest.Must(net.New(c, 2))(t)
	return n
}

// shippedNetwork is the network that is used if none is named.
func shippedNetwork(t testing.TB) *net.Network {
	file, _, err := models.Open("default")
	if err != nil {
		t.Fatal(err)
	}
	n := gametest.Must(net.Parse(file))(t)
	return n
}

func answers(t *testing.T, e *eval.Evaluator, b *game.Board, pos []game.Position) *eval.Batch {
	t.Helper()
	batch := newBatch(b, pos)
	gametest.OK(t, e.Evaluate(t.Context(), batch))
	return batch
}

func compareAnswers(t *testing.T, p kernel.Path, got, want *eval.Batch) {
	t.Helper()
	n := len(want.Pos)
	var off []float64 // the largest difference in WDL of each row
	worst, changed := 0.0, 0
	for i := range n {
		d := 0.0
		for k, x := range want.WDLRow(i) {
			d = max(d, math.Abs(float64(got.WDLRow(i)[k]-x)))
		}
		off = append(off, d)
		worst = max(worst, d)
		for k, x := range want.PolicyRow(i) {
			worst = max(worst, math.Abs(float64(got.PolicyRow(i)[k]-x)))
		}
		if best(got.PolicyRow(i)) != best(want.PolicyRow(i)) {
			changed++
		}
	}
	slices.Sort(off)
	p99 := off[len(off)*99/100]
	t.Logf("WDL off by %.2g at the 99th percentile, WDL or policy by %.2g at most; %d of %d best moves changed", p99, worst, changed, n)
	if !p.BFloat16() && !p.Int8() {
		if worst > 1e-4 {
			t.Errorf("off by %v, want at most 1e-4", worst)
		}
		return
	}
	// With few positions the 99th percentile is the worst one, which may be anything. Then the median must keep the bound.
	if middle := off[len(off)/2]; n < 400 && middle > 0.02 {
		t.Errorf("WDL is off by %v in the median, want at most 0.02", middle)
	}
	if n >= 400 && p99 > 0.02 {
		t.Errorf("WDL is off by %v at the 99th percentile, want at most 0.02", p99)
	}
	if n >= 2000 && float64(changed) > 0.005*float64(n) {
		t.Errorf("%d of %d best moves changed, want at most 0.5%%", changed, n)
	}
}

func best(policy []float32) int { return slices.Index(policy, slices.Max(policy)) }
