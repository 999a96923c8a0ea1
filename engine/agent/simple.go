package agent

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/solver"
)

// random plays any legal move.
type random struct{ *rand.Rand }

func newRandom(s Spec, _ Models) (Agent, error) { return random{source(s.Seed)}, nil }

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)) }

func (r random) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("random: %w", err)
	}
	legal := b.Legal(p)
	for range r.IntN(legal.OnesCount()) {
		legal = legal.WithoutFirst()
	}
	return b.Action(legal.First()), nil
}

// flat plays random games after each legal move, unless one wins at once, and takes the best mean result.
type flat struct {
	games int
	*rand.Rand
}

func newFlat(s Spec, _ Models) (Agent, error) { return &flat{s.Games, source(s.Seed)}, nil }

func (f *flat) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	best, most := -1, -f.games-1
	for legal := b.Legal(p); !legal.IsZero(); legal = legal.WithoutFirst() {
		if err := ctx.Err(); err != nil {
			return 0, fmt.Errorf("flat: %w", err)
		}
		a := b.Action(legal.First())
		child := b.PlayCell(p, legal.LowBit())
		if b.Won(child.Other()) {
			return a, nil
		}
		sum := 0
		for range f.games {
			sum -= f.playOut(b, child)
		}
		if sum > most {
			best, most = a, sum
		}
	}
	return best, nil
}

// playOut is the result of a random game for the side to move at p: 1, 0 or -1.
func (f *flat) playOut(b *game.Board, p game.Position) int {
	for sign := -1; ; sign = -sign {
		if b.Won(p.Other()) {
			return sign
		}
		legal := b.Legal(p)
		n := legal.OnesCount()
		if n == 0 {
			return 0
		}
		for range f.IntN(n) {
			legal = legal.WithoutFirst()
		}
		p = b.PlayCell(p, legal.LowBit())
	}
}

// policy plays an evaluator's likeliest move.
type policy struct{ eval.Evaluator }

func newPolicy(s Spec, models Models) (Agent, error) {
	e, err := evaluator(s.Model, models)
	return policy{e}, err
}

// evaluator is a heuristic by its name, or else a network.
func evaluator(name string, models Models) (eval.Evaluator, error) {
	for _, source := range []eval.Source{eval.Bitsquares, eval.Gameovers, eval.OddEven, eval.Rollout, eval.Uniform} {
		if source.String() == name {
			return heuristic.New(source)
		}
	}
	if models == nil {
		return nil, fmt.Errorf("agent: no networks here, so no model %q", name)
	}
	return models(name)
}

func (a policy) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	batch := eval.NewBatch(b, 1)
	batch.Pos[0] = p
	if err := a.Evaluate(ctx, batch); err != nil {
		return 0, fmt.Errorf("policy: %w", err)
	}
	best := 0
	for i, x := range batch.Policy {
		if x > batch.Policy[best] {
			best = i
		}
	}
	return best, nil
}

// exact plays the solver's best move.
type exact struct{ last *solver.Solver }

func newSolver(Spec, Models) (Agent, error) { return &exact{}, nil }

func (e *exact) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	if e.last == nil || e.last.Board().Rules() != b.Rules() {
		s, err := solver.New(b, solver.Options{})
		if err != nil {
			return 0, err
		}
		e.last = s
	}
	r, err := e.last.Solve(ctx, p)
	return r.Best, err
}
