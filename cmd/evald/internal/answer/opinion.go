package answer

import (
	"context"
	"slices"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
)

// opinionRequest asks what a network or heuristic thinks of each move, at sight.
type opinionRequest struct {
	Position string `json:"position"`
	Model    string `json:"model"` // "": the page's network; else one of Config.Networks, or a heuristic
}

// Sight is what an evaluator thinks of one move without a search.
type Sight struct {
	Share float32 `json:"share"` // of the evaluator's policy, 0..1
	Value float32 `json:"value"` // of the position after the move, -1..1 for the side that makes it
	Exact bool    `json:"exact"` // whether the value is a result by the rules
}

// opinion answers with a Sight of each move, by action, and null for moves that are not legal.
func (a *Answerer) opinion(ctx context.Context, q *opinionRequest) (any, error) {
	b, p, err := parseOngoing(q.Position)
	if err != nil {
		return nil, err
	}
	e, err := a.evaluator(q.Model)
	if err != nil {
		return nil, err
	}
	ctx, end, err := a.begin(ctx, a.config.Limits.Time)
	if err != nil {
		return nil, err
	}
	defer end()
	positions, legal := []game.Position{p}, []int(nil)
	for action := range b.Actions() {
		if b.CanPlay(p, action) {
			positions, legal = append(positions, b.Play(p, action)), append(legal, action)
		}
	}
	batch := eval.NewBatch(b, len(positions))
	copy(batch.Pos, positions)
	if err := e.Evaluate(ctx, batch); err != nil {
		return nil, why(ctx, err)
	}
	moves := make([]*Sight, b.Actions())
	for i, action := range legal {
		by := batch.Source[1+i]
		moves[action] = &Sight{batch.PolicyRow(0)[action], -batch.Value(1 + i), by == eval.Rules || by == eval.Terminal}
	}
	return struct {
		Moves []*Sight `json:"moves"`
	}{moves}, nil
}

// evaluator returns the evaluator of a model that a question names.
func (a *Answerer) evaluator(model string) (*eval.Evaluator, error) {
	h, isHeuristic, err := heuristic.Parse(model)
	switch {
	case model == "" || model == a.config.Model:
		return a.config.Evaluator, nil
	case err != nil:
		return nil, bad("model", "%v", err)
	case isHeuristic:
		return eval.New(h.New(), eval.Options{}), nil
	case !slices.Contains(a.config.Networks, model):
		return nil, bad("model", "model is %q, must be a heuristic or one of %q", cut(model), a.config.Networks)
	}
	e, err := a.config.Agents.Models(model)
	if err != nil {
		return nil, bad("model", "model %q: %v", cut(model), err)
	}
	return e, nil
}
