package train

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cpu/conv"
	"github.com/evald/evald/nn/net"
)

// reference is the network and its losses in float64, in plain loops, as documented in package net.
type reference struct {
	config  net.Config
	board   *game.Board
	weights map[string][]float64
}

func newReference(n *net.Network, b *game.Board) *reference {
	r := &reference{n.Config(), b, map[string][]float64{}}
	for _, s := range r.config.Specs() {
		for _, v := range n.Weight(s.Name).Float32s() {
			r.weights[s.Name] = append(r.weights[s.Name], float64(v))
		}
	}
	return r
}

// conv is a convolution of x [I][cells], k x k. With one cell and k = 1 it is a fully connected layer.
func (r *reference) conv(name string, x [][]float64, k int, relu bool, residual [][]float64) [][]float64 {
	weight, bias := r.weights[name+".weight"], r.weights[name+".bias"]
	h, w := r.board.Rows(), r.board.Columns()
	y := make([][]float64, len(bias))
	for o := range y {
		y[o] = make([]float64, len(x[0]))
		for cell := range y[o] {
			sum := bias[o]
			for i := range x {
				for t := range k * k {
					row, col := cell/w+t/k-k/2, cell%w+t%k-k/2
					if row >= 0 && row < h && col >= 0 && col < w {
						sum += weight[(o*len(x)+i)*k*k+t] * x[i][row*w+col]
					}
				}
			}
			if residual != nil {
				sum += residual[o][cell]
			}
			if relu {
				sum = max(sum, 0)
			}
			y[o][cell] = sum
		}
	}
	return y
}

// logits returns those of one position: wdl [3], gameover [4], cells [H*W].
func (r *reference) logits(p game.Position) (wdl, over, cells []float64) {
	n := r.board.Cells()
	planes := make([]float32, net.PlanesSize(r.board, 1))
	net.Planes(r.board, []game.Position{p}, planes)
	x := make([][]float64, net.PlaneCount)
	for i := range x {
		for _, v := range planes[i*n:][:n] {
			x[i] = append(x[i], float64(v))
		}
	}
	x = r.conv("stem", x, 3, true, nil)
	for i := range r.config.Blocks {
		name := "blocks." + string(rune('0'+i))
		x = r.conv(name+".conv2", r.conv(name+".conv1", x, 3, true, nil), 3, true, x)
	}
	v := r.conv("value.conv", x, 1, true, nil)
	var means, maxima [][]float64
	for _, channel := range v {
		mean := 0.0
		for _, value := range channel {
			mean += value / float64(n)
		}
		means, maxima = append(means, []float64{mean}), append(maxima, []float64{slices.Max(channel)})
	}
	f := r.conv("value.fc", append(means, maxima...), 1, true, nil)
	q := r.conv("policy.conv", x, 1, true, nil)
	return slices.Concat(r.conv("value.wdl", f, 1, false, nil)...), slices.Concat(r.conv("value.gameover", f, 1, false, nil)...), r.conv("policy.logit", q, 1, false, nil)[0]
}

// loss returns the weighted sum of the losses, and each of them.
func (r *reference) loss(examples []Example, w Weights) (total float64, parts [3]float64) {
	var mass [3]float64
	add := func(k int, logits, targets []float64, weight float32) {
		sum := 0.0
		for _, l := range logits {
			sum += math.Exp(l)
		}
		for i, t := range targets {
			parts[k] += float64(weight) * t * (math.Log(sum) - logits[i])
			mass[k] += float64(weight) * t
		}
	}
	together := func(logits, targets []float64, weight float32) {
		all, right := 0.0, 0.0
		for i, l := range logits {
			all += math.Exp(l)
			if targets[i] > 0 {
				right += math.Exp(l)
			}
		}
		parts[1] -= float64(weight) * (1 - w.Taste) * math.Log(right/all)
		for i, l := range logits {
			parts[1] -= float64(weight) * w.Taste * targets[i] * (l - math.Log(all))
		}
		mass[1] += float64(weight)
	}
	for _, e := range examples {
		wdl, over, cells := r.logits(e.Position)
		add(0, wdl, []float64{float64(e.WDL[0]), float64(e.WDL[1]), float64(e.WDL[2])}, e.Weight)
		var moves, policy []float64
		for a, p := range e.Policy {
			if !r.board.CanPlay(e.Position, a) {
				continue
			}
			bit := r.board.Cell(e.Position, a).First()
			column, row := bit/(r.board.Rows()+1), bit%(r.board.Rows()+1)
			moves = append(moves, cells[(r.board.Rows()-1-row)*r.board.Columns()+column])
			policy = append(policy, float64(p))
		}
		if e.Solved && len(moves) > 0 {
			together(moves, policy, e.Weight)
		} else {
			add(1, moves, policy, e.Weight)
		}
		class := make([]float64, net.GameOvers)
		if e.GameOver >= 0 {
			class[e.GameOver] = 1
		}
		add(2, over, class, e.Weight)
	}
	for k, weight := range []float64{w.WDL, w.Policy, w.GameOver} {
		if mass[k] > 0 {
			parts[k] /= mass[k]
		}
		total += weight * parts[k]
	}
	return total, parts
}

// randomExamples are positions with soft targets, or several moves that are equally good; some rows lack some targets.
func randomExamples(seed uint64, b *game.Board, n int) []Example {
	r := gametest.Rand(seed)
	examples := make([]Example, n)
	for i, p := range gametest.Positions(r, b, n, true) {
		e := &examples[i]
		*e = Example{Position: p, GameOver: r.IntN(net.GameOvers+1) - 1, Weight: 0.5 + r.Float32()}
		if i%4 != 1 {
			softmax(e.WDL[:], r.NormFloat64)
		}
		if i%4 == 2 || b.Legal(p).IsZero() {
			continue
		}
		e.Policy = make([]float32, b.Actions())
		legal := make([]float32, b.Legal(p).OnesCount())
		softmax(legal, r.NormFloat64)
		for a := range e.Policy {
			if b.CanPlay(p, a) {
				e.Policy[a], legal = legal[0], legal[1:]
			}
		}
		if e.Solved = i%4 == 3; e.Solved {
			equallyGood(e.Policy, r)
			if taste := make([]float32, b.Actions()); i%8 == 3 {
				softmax(taste, r.NormFloat64)
				e.Policy = shared(e.Policy, taste)
			}
		}
	}
	return examples
}

// equallyGood leaves some of a policy's moves, at least one, and makes them equally good.
func equallyGood(policy []float32, r *rand.Rand) {
	for _, a := range r.Perm(len(policy)) {
		if rest := policy[a]; rest > 0 && rest < sum32(policy) && r.IntN(2) == 0 {
			policy[a] = 0
		}
	}
	good := 0
	for _, p := range policy {
		if p > 0 {
			good++
		}
	}
	for a, p := range policy {
		if p > 0 {
			policy[a] = 1 / float32(good)
		}
	}
}

func sum32(of []float32) (total float32) {
	for _, x := range of {
		total += x
	}
	return total
}

func softmax(dst []float32, logit func() float64) {
	for i := range dst {
		dst[i] = float32(2 * logit())
	}
	net.Softmax(dst, dst)
}

func scrambled(t testing.TB, config string, seed uint64) *net.Network {
	t.Helper()
	c := gametest.Must(net.ParseConfig(config))(t)
	n := gametest.Must(net.NewScrambled(c, seed))(t)
	return n
}

func testGraph(t testing.TB, n *net.Network, b *game.Board, examples []Example, w Weights) *graph {
	t.Helper()
	g := gametest.Must(newGraph(n, b, len(examples), w, true, conv.NewPool(2)))(t)
	t.Cleanup(g.close)
	gametest.OK(t, g.batch.Fill(examples))
	return g
}

// gradients runs the graph once and returns its losses and its gradients by tensor name.
func gradients(t testing.TB, g *graph) (Losses, map[string][]float32) {
	t.Helper()
	losses := gametest.Must(g.run())(t)
	grads := map[string][]float32{}
	for _, p := range g.params {
		v := gametest.Must(p.Grad())(t)
		grads[p.Name()] = append([]float32(nil), floats(v)...)
		clear(floats(v))
	}
	return *losses, grads
}

// The losses match the reference, and the gradient of every parameter is the slope of the reference.
func TestGradients(t *testing.T) {
	if gametest.Race {
		t.Skip("TestResume has the same goroutines")
	}
	for _, test := range []struct {
		config string
		rules  string
		w      Weights
	}{
		{"1x4/3/5", "4x4x3", Weights{1, 1, 1, 0}},
		{"2x3/4/4", "5x3x3", Weights{1.5, 0.5, 0.25, 0.3}},
		{"1x4/3/5", "3x3x3free", Weights{0.3, 2, 0, 1}},
		{"1x4/3/5", "4x4x3", Weights{0, 0, 1, 0}},
	} {
		t.Run(test.config+" "+test.rules, func(t *testing.T) {
			rules := gametest.Must(game.ParseRules(test.rules))(t)
			b := game.MustBoard(rules)
			n := scrambled(t, test.config, 1)
			examples := randomExamples(2, b, 6)
			g := testGraph(t, n, b, examples, test.w)
			losses, grads := gradients(t, g)
			again, grads2 := gradients(t, g) // the second run reuses memory
			r := newReference(n, b)
			total, parts := r.loss(examples, test.w)
			near(t, "total loss", losses.Total, total, 1e-5)
			near(t, "total loss of the second run", again.Total, losses.Total, 0)
			for k, term := range []*Term{losses.WDL, losses.Policy, losses.GameOver} {
				if term != nil {
					near(t, "loss "+string(rune('0'+k)), term.Loss, parts[k], 1e-5)
				}
			}
			const step = 1e-5
			for _, s := range n.Config().Specs() {
				if grads[s.Name] == nil && !untrained(s.Name, test.w) {
					t.Errorf("%s has no gradient", s.Name)
				}
				for i, got := range grads[s.Name] {
					w := r.weights[s.Name]
					old := w[i]
					w[i] = old + step
					up, _ := r.loss(examples, test.w)
					w[i] = old - step
					down, _ := r.loss(examples, test.w)
					w[i] = old
					near(t, s.Name, float64(got), (up-down)/(2*step), 2e-5)
					near(t, s.Name+" of the second run", float64(grads2[s.Name][i]), float64(got), 0)
				}
			}
		})
	}
}

// untrained reports whether no loss reaches the tensor.
func untrained(name string, w Weights) bool {
	head := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	return head("policy.") && w.Policy == 0 || head("value.wdl") && w.WDL == 0 || head("value.gameover") && w.GameOver == 0
}

func near(t testing.TB, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within*max(1, math.Abs(want))) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}
