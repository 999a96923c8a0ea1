package train

import (
	"fmt"
	"strings"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/kernels/cpu/conv"
	"github.com/evald/evald/nn/net"
)

// Weights are the factors of the losses in the total loss. A loss of weight 0 is omitted; parameters that affect no other loss do not
// change.
type Weights struct {
	WDL      float64 `json:"wdl"`
	Policy   float64 `json:"policy"`
	GameOver float64 `json:"gameover"`

	// Taste, 0 to 1, is the share of the policy's loss in which a network learns the distribution of Example.Policy among equally good
	// moves. In the rest of the loss, it is free to choose among them. Taste affects training, but not measuring.
	Taste float64 `json:"taste,omitempty"`
}

func (w Weights) check() error {
	if w.WDL+w.Policy+w.GameOver == 0 || w.WDL < 0 || w.Policy < 0 || w.GameOver < 0 || !(w.Taste >= 0 && w.Taste <= 1) {
		return fmt.Errorf("weights of the losses are %+v: want none negative, one positive, and taste from 0 to 1", w)
	}
	return nil
}

// train reports whether a loss of non-zero weight depends on a tensor of net.Config.Specs.
func (w Weights) train(name string) bool {
	switch part, _, _ := strings.Cut(name, "."); {
	case part == "policy":
		return w.Policy > 0
	case strings.HasPrefix(name, "value.wdl."):
		return w.WDL > 0
	case strings.HasPrefix(name, "value.gameover."):
		return w.GameOver > 0
	case part == "value":
		return w.WDL > 0 || w.GameOver > 0
	}
	return true
}

// Losses are the losses of one step. Those of weight 0 are nil.
type Losses struct {
	Total                 float64 // the weighted sum
	WDL, Policy, GameOver *Term
}

// graph is the network and its losses for batches of one size on one board, as a gorgonia graph, and the machine that runs it. It uses the
// memory of the network's tensors, so a step of the solver changes the network.
type graph struct {
	batch  *Batch
	params gorgonia.Nodes // those that affect a loss, in the order of net.Config.Specs
	seen   Losses
	total  *gorgonia.Node
	vm     gorgonia.VM
	pool   *conv.Pool
	net    *net.Network
	nodes  *gorgonia.ExprGraph
}

// newGraph builds the graph of n for batches of rows positions. If gradients is set, each run also computes the gradients of params. pool
// runs the kernels; its number of threads does not change results.
func newGraph(n *net.Network, b *game.Board, rows int, w Weights, gradients bool, pool *conv.Pool) (*graph, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	if !gradients {
		w.Taste = 0
	}
	g := &graph{batch: NewBatch(b, rows), pool: pool, net: n, nodes: gorgonia.NewGraph()}
	g.build(w)
	if !gradients {
		g.vm = gorgonia.NewTapeMachine(g.nodes)
		return g, nil
	}
	if _, err := gorgonia.Grad(g.total, g.params...); err != nil {
		return nil, fmt.Errorf("differentiate: %w", err)
	}
	g.vm = gorgonia.NewTapeMachine(g.nodes, gorgonia.BindDualValues(g.params...))
	return g, nil
}

// run computes the losses of the batch, and adds their gradients to those in params.
func (g *graph) run() (*Losses, error) {
	defer g.vm.Reset()
	if err := g.vm.RunAll(); err != nil {
		return nil, fmt.Errorf("run the graph: %w", err)
	}
	g.seen.Total = float64(floats(g.total.Value())[0])
	return &g.seen, nil
}

// measure computes the losses of one batch of examples.
func (g *graph) measure(examples []Example) (*Losses, error) {
	if err := g.batch.Fill(examples); err != nil {
		return nil, err
	}
	return g.run()
}

func (g *graph) close() {
	if g.vm != nil {
		g.vm.Close()
		g.vm = nil
	}
}

// build adds the network and its losses of non-zero weight to the graph.
func (g *graph) build(w Weights) {
	stem := g.layer("stem", true)
	stem.first = true
	x := stem.apply(g.data("planes", g.batch.planes), nil)
	for i := range g.net.Config().Blocks {
		name := fmt.Sprintf("blocks.%d", i)
		t := g.layer(name+".conv1", true).apply(x, nil)
		x = g.layer(name+".conv2", true).apply(t, x)
	}
	term := func(name string, weight float64, logits *gorgonia.Node, targets *tensor.Dense, seen **Term) {
		*seen = &Term{}
		factor := gorgonia.NewConstant(float32(weight), gorgonia.WithName(name+" weight"))
		loss := must(gorgonia.Mul(crossEntropy(logits, g.data(name, targets), w.Taste, *seen), factor))
		if g.total != nil {
			loss = must(gorgonia.Add(g.total, loss))
		}
		g.total = loss
	}
	if w.WDL > 0 || w.GameOver > 0 {
		v := g.layer("value.conv", true).apply(x, nil)
		f := g.layer("value.fc", true).apply(pool(v), nil)
		if w.WDL > 0 {
			term("wdl targets", w.WDL, g.layer("value.wdl", false).apply(f, nil), g.batch.wdl, &g.seen.WDL)
		}
		if w.GameOver > 0 {
			term("gameover targets", w.GameOver, g.layer("value.gameover", false).apply(f, nil), g.batch.gameover, &g.seen.GameOver)
		}
	}
	if w.Policy > 0 {
		q := g.layer("policy.conv", true).apply(x, nil)
		term("policy targets", w.Policy, g.layer("policy.logit", false).apply(q, nil), g.batch.cells, &g.seen.Policy)
	}
}

func (g *graph) layer(name string, relu bool) layer {
	weight, bias := g.data(name+".weight", g.net.Weight(name+".weight")), g.data(name+".bias", g.net.Weight(name+".bias"))
	g.params = append(g.params, weight, bias)
	return layer{pool: g.pool, weight: weight, bias: bias, relu: relu}
}

// data returns a node that shares a tensor's memory.
func (g *graph) data(name string, t *tensor.Dense) *gorgonia.Node {
	return gorgonia.NewTensor(g.nodes, tensor.Float32, t.Dims(), gorgonia.WithShape(t.Shape()...), gorgonia.WithName(name), gorgonia.WithValue(t))
}
