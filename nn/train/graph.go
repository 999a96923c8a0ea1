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

// Weights are the factors of the losses in their sum. A loss of weight 0 is left out, and parameters that only it would
// train do not change.
type Weights struct {
	WDL      float64 `json:"wdl"`
	Policy   float64 `json:"policy"`
	GameOver float64 `json:"gameover"`
}

func (w Weights) check() error {
	if w == (Weights{}) || w.WDL < 0 || w.Policy < 0 || w.GameOver < 0 {
		return fmt.Errorf("weights of the losses are %+v: want none negative and one positive", w)
	}
	return nil
}

// train reports whether a loss depends on a tensor of net.Config.Specs.
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

// graph is the network and its losses for batches of one size on one board, as a gorgonia graph with the machine that runs
// it. The graph uses the memory of the network's tensors: a step of the solver changes the network.
type graph struct {
	batch  *Batch
	params gorgonia.Nodes // those that a loss depends on, in the order of net.Config.Specs
	seen   Losses
	total  *gorgonia.Node
	vm     gorgonia.VM
	pool   *conv.Pool
}

// newGraph builds the graph of n for batches of rows positions. With gradients each run also computes the gradients of
// params. threads is the number of threads of the kernels, 0 for all processors; results do not depend on it.
func newGraph(n *net.Network, b *game.Board, rows int, w Weights, gradients bool, threads int) (*graph, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	g := &graph{batch: NewBatch(b, rows), pool: conv.NewPool(threads)}
	build := builder{graph: gorgonia.NewGraph(), net: n, pool: g.pool, params: map[string]*gorgonia.Node{}}
	losses := build.losses(g, w)
	g.total = losses[0]
	for _, l := range losses[1:] {
		g.total = must(gorgonia.Add(g.total, l))
	}
	for _, s := range n.Config().Specs() {
		if p := build.params[s.Name]; p != nil {
			g.params = append(g.params, p)
		}
	}
	if !gradients {
		g.vm = gorgonia.NewTapeMachine(build.graph)
		return g, nil
	}
	if _, err := gorgonia.Grad(g.total, g.params...); err != nil {
		g.pool.Close()
		return nil, fmt.Errorf("differentiate: %w", err)
	}
	g.vm = gorgonia.NewTapeMachine(build.graph, gorgonia.BindDualValues(g.params...))
	return g, nil
}

// run computes the losses of the batch, and adds their gradients to those stored in params.
func (g *graph) run() (*Losses, error) {
	defer g.vm.Reset()
	if err := g.vm.RunAll(); err != nil {
		return nil, fmt.Errorf("run the graph: %w", err)
	}
	g.seen.Total = float64(floats(g.total.Value())[0])
	return &g.seen, nil
}

// measure is run of as many examples as the batch has room for.
func (g *graph) measure(examples []Example) (*Losses, error) {
	if err := g.batch.Fill(examples); err != nil {
		return nil, err
	}
	return g.run()
}

func (g *graph) close() {
	if g.pool != nil {
		g.vm.Close()
		g.pool.Close()
		g.pool = nil
	}
}

// builder adds a network to a graph.
type builder struct {
	graph  *gorgonia.ExprGraph
	net    *net.Network
	pool   *conv.Pool
	params map[string]*gorgonia.Node
}

// losses returns one node for each loss whose weight is not 0, multiplied by its weight.
func (b *builder) losses(g *graph, w Weights) (all gorgonia.Nodes) {
	x := b.tower(b.data("planes", g.batch.planes))
	term := func(name string, weight float64, logits *gorgonia.Node, targets *tensor.Dense, seen **Term) {
		*seen = &Term{}
		loss := crossEntropy(logits, b.data(name, targets), *seen)
		all = append(all, must(gorgonia.Mul(loss, gorgonia.NewConstant(float32(weight), gorgonia.WithName(name+" weight")))))
	}
	if w.WDL > 0 || w.GameOver > 0 {
		f := b.valueHead(x)
		if w.WDL > 0 {
			term("wdl targets", w.WDL, b.layer("value.wdl", false).apply(f, nil), g.batch.wdl, &g.seen.WDL)
		}
		if w.GameOver > 0 {
			term("gameover targets", w.GameOver, b.layer("value.gameover", false).apply(f, nil), g.batch.gameover, &g.seen.GameOver)
		}
	}
	if w.Policy > 0 {
		q := b.layer("policy.conv", true).apply(x, nil)
		term("policy targets", w.Policy, b.layer("policy.logit", false).apply(q, nil), g.batch.cells, &g.seen.Policy)
	}
	return all
}

// tower is the stem and the blocks: planes [N,H,W,5] to [N,H,W,C].
func (b *builder) tower(planes *gorgonia.Node) *gorgonia.Node {
	stem := b.layer("stem", true)
	stem.first = true
	x := stem.apply(planes, nil)
	for i := range b.net.Config().Blocks {
		name := fmt.Sprintf("blocks.%d", i)
		t := b.layer(name+".conv1", true).apply(x, nil)
		x = b.layer(name+".conv2", true).apply(t, x)
	}
	return x
}

// valueHead is the part that wdl and gameover share: [N,H,W,C] to [N,F].
func (b *builder) valueHead(x *gorgonia.Node) *gorgonia.Node {
	v := b.layer("value.conv", true).apply(x, nil)
	return b.layer("value.fc", true).apply(pool(v), nil)
}

func (b *builder) layer(name string, relu bool) layer {
	return layer{pool: b.pool, weight: b.param(name + ".weight"), bias: b.param(name + ".bias"), relu: relu}
}

// param is the node of one of the network's tensors, and shares its memory.
func (b *builder) param(name string) *gorgonia.Node {
	if b.params[name] == nil {
		b.params[name] = b.data(name, b.net.Weight(name))
	}
	return b.params[name]
}

// data is a node that shares a tensor's memory.
func (b *builder) data(name string, t *tensor.Dense) *gorgonia.Node {
	return gorgonia.NewTensor(b.graph, tensor.Float32, t.Dims(), gorgonia.WithShape(t.Shape()...), gorgonia.WithName(name), gorgonia.WithValue(t))
}
