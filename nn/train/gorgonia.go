package train

import (
	"gorgonia.org/gorgonia"

	"github.com/evald/evald/kernels/cpu/conv"
	"github.com/evald/evald/nn/net"
)

// local computes steps in this process, with gorgonia's graph and the kernels of package conv. It uses the memory of the Trainer's
// networks.
type local struct {
	*Trainer
	pool    *conv.Pool
	solver  *solver
	graphs  []*graph // by game; nil until first used
	judging []*graph // by game: graphs of the moving average; nil until first used
}

func newGorgonia(t *Trainer, threads int) (*local, error) {
	pool := conv.NewPool(threads)
	s := &solver{clip: t.config.Clip, decay: t.config.L2, pool: pool, moments: t.moments}
	l := &local{Trainer: t, pool: pool, solver: s, graphs: make([]*graph, len(t.lessons)), judging: make([]*graph, len(t.lessons))}
	_, err := l.graph(l.graphs, 0, l.net, l.config.Batch, true)
	return l, err
}

// graph returns a game's graph, made on first use.
func (l *local) graph(graphs []*graph, game int, n *net.Network, rows int, gradients bool) (g *graph, err error) {
	if graphs[game] == nil {
		graphs[game], err = newGraph(n, l.lessons[game].Board, rows, l.config.Weights, gradients, l.pool)
	}
	return graphs[game], err
}

func (l *local) step(rate, keep float64) (*Losses, float64, error) {
	var g *graph
	_, err := l.fill(l.Trainer.step, func(game int) (b *Batch, err error) {
		if g, err = l.graph(l.graphs, game, l.net, l.config.Batch, true); err != nil {
			return nil, err
		}
		return g.batch, nil
	})
	if err != nil {
		return nil, 0, err
	}
	losses, err := g.run()
	if err != nil {
		return nil, 0, err
	}
	l.solver.rate = rate
	if err := l.solver.Step(gorgonia.NodesToValueGrads(g.params)); err != nil {
		return nil, 0, err
	}
	if l.average != l.net {
		for _, p := range g.params {
			follow(l.average.Weight(p.Name()).Float32s(), floats(p.Value()), float32(keep))
		}
	}
	return losses, l.solver.norm, nil
}

// follow updates the moving average: average = keep*average + (1-keep)*values.
func follow(average, values []float32, keep float32) {
	for i, v := range values {
		average[i] = keep*average[i] + (1-keep)*v
	}
}

func (l *local) judge(game int, examples []Example) (*Losses, error) {
	g, err := l.graph(l.judging, game, l.average, measureBatch, false)
	if err != nil {
		return nil, err
	}
	return g.measure(examples)
}

func (l *local) fetch() error { return nil }

func (l *local) send() error {
	l.solver.steps = l.Trainer.step
	return nil
}

func (l *local) about() string { return "gorgonia" }

func (l *local) close() {
	for _, g := range append(l.graphs, l.judging...) {
		if g != nil {
			g.close()
		}
	}
}
