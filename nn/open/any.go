package open

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/models"
)

// AnyModel is the shipped network for boards of many sizes and for three to six in a row.
const AnyModel = "any"

// anyNetwork answers games in the range of AnyModel with AnyModel, and others with bitsquares. It opens the network on first use, because
// most programs never evaluate another board.
type anyNetwork struct {
	ranges game.Ranges
	other  eval.Backend
	open   func() (*Opened, error)

	mu     sync.Mutex // guards the rest
	opened *Opened
	closed bool
}

// Shipped returns the model that answers a game if Options name no model: DefaultModel, AnyModel, or bitsquares.
func Shipped(r game.Rules) string {
	if e, _ := models.Find(DefaultModel); slices.Contains(e.Rules, r.String()) {
		return DefaultModel
	}
	e, _ := models.Find(AnyModel)
	if ranges, err := game.ParseRanges(e.Range); err == nil && ranges.Contains(r) {
		return AnyModel
	}
	return eval.Bitsquares.String()
}

// newAny returns AnyModel with the same options.
func newAny(o Options) (*anyNetwork, error) {
	entry, _ := models.Find(AnyModel)
	ranges, err := game.ParseRanges(entry.Range)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", AnyModel, err)
	}
	o.Model, o.Exact = AnyModel, 0
	return &anyNetwork{ranges: ranges, other: bitsquares(), open: func() (*Opened, error) { return named(o) }}, nil
}

// Attributes are those of every network of convolutions.
func (a *anyNetwork) Attributes() eval.Attributes { return a.other.Attributes() }

// Compute implements eval.Backend.
func (a *anyNetwork) Compute(ctx context.Context, b *eval.Batch) error {
	if !a.ranges.Contains(b.Board.Rules()) {
		return a.other.Compute(ctx, b)
	}
	e, err := a.network()
	if err != nil {
		return err
	}
	return e.Backend().Compute(ctx, b)
}

func (a *anyNetwork) network() (*Opened, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, fmt.Errorf("model %s: the evaluator is closed", AnyModel)
	}
	if a.opened == nil {
		e, err := a.open()
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", AnyModel, err)
		}
		a.opened = e
	}
	return a.opened, nil
}

func (a *anyNetwork) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed = true; a.opened == nil {
		return nil
	}
	return a.opened.Close()
}
