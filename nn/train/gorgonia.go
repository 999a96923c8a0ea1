package train

import "gorgonia.org/gorgonia"

// local makes steps in this process, with gorgonia's graph and our kernels. It uses the memory of the Trainer's networks.
type local struct {
	*Trainer
	threads int
	graph   *graph
	solver  *solver
	judging *graph // of the moving average; nil until it is needed
}

func newGorgonia(t *Trainer, threads int) (*local, error) {
	g, err := newGraph(t.net, t.board, t.config.Batch, t.config.Weights, true, threads)
	if err != nil {
		return nil, err
	}
	s := &solver{clip: t.config.Clip, decay: t.config.L2, pool: g.pool, moments: t.moments}
	return &local{Trainer: t, threads: threads, graph: g, solver: s}, nil
}

func (l *local) step(rate, keep float64) (*Losses, float64, error) {
	if err := l.fill(l.Trainer.step, l.graph.batch); err != nil {
		return nil, 0, err
	}
	losses, err := l.graph.run()
	if err != nil {
		return nil, 0, err
	}
	l.solver.rate = rate
	if err := l.solver.Step(gorgonia.NodesToValueGrads(l.graph.params)); err != nil {
		return nil, 0, err
	}
	if l.average != l.net {
		for _, p := range l.graph.params {
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

func (l *local) judge(examples []Example) (*Losses, error) {
	if l.judging == nil {
		var err error
		if l.judging, err = newGraph(l.average, l.board, measureBatch, l.config.Weights, false, l.threads); err != nil {
			return nil, err
		}
	}
	return l.judging.measure(examples)
}

func (l *local) fetch() error { return nil }

func (l *local) send() error {
	l.solver.steps = l.Trainer.step
	return nil
}

func (l *local) about() string { return "gorgonia" }

func (l *local) close() {
	l.graph.close()
	if l.judging != nil {
		l.judging.close()
	}
}
