package evaltest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// Stub is a Backend for tests. Its answers are quick and depend on the position alone.
type Stub struct {
	Source eval.Source // of the answers

	// Before, if not nil, is called at the start of each batch; its error becomes the batch's. It may block.
	Before func(ctx context.Context, b *eval.Batch) error
	// After, if not nil, may damage the answers.
	After func(b *eval.Batch)

	Rows atomic.Uint64 // total number of rows in all batches

	mu    sync.Mutex
	sizes []int
}

// Sizes returns the sizes of the batches so far, in order.
func (s *Stub) Sizes() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sizes)
}

// Attributes prefer batches of 64 rows.
func (*Stub) Attributes() eval.Attributes { return eval.Attributes{Rows: 64, Invariant: true} }

// Compute answers with numbers derived from the position's hash.
func (s *Stub) Compute(ctx context.Context, b *eval.Batch) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("stub: %w", err)
	}
	s.mu.Lock()
	s.sizes = append(s.sizes, len(b.Pos))
	s.mu.Unlock()
	s.Rows.Add(uint64(len(b.Pos)))
	if s.Before != nil {
		if err := s.Before(ctx, b); err != nil {
			return err
		}
	}
	for i, p := range b.Pos {
		h := p.Hash()
		draw := func() float32 { // 1/256 .. 1
			h = h*6364136223846793005 + 1442695040888963407
			return float32(h>>56+1) / 256
		}
		for k := range b.WDLRow(i) {
			b.WDLRow(i)[k] = draw()
		}
		for a := range b.PolicyRow(i) {
			x := draw()
			if !b.Board.CanPlay(p, a) {
				x = 0
			}
			b.PolicyRow(i)[a] = x
		}
		normalise(b.WDLRow(i))
		normalise(b.PolicyRow(i))
		b.Source[i] = s.Source
	}
	if s.After != nil {
		s.After(b)
	}
	return nil
}

func normalise(row []float32) {
	var total float32
	for _, x := range row {
		total += x
	}
	for i := range row {
		row[i] /= total
	}
}

// Limited is a Stub of a network that supports 7x6x4 alone. Its name in errors is "limited".
type Limited struct{ Stub }

// Attributes implements eval.Backend.
func (l *Limited) Attributes() eval.Attributes {
	a := l.Stub.Attributes()
	a.Supports = func(b *game.Board) error {
		if b.Rules() == game.Connect4 {
			return nil
		}
		return &eval.UnsupportedError{Model: "limited", Rules: b.Rules(), Games: "7x6x4 alone", Instead: "name another"}
	}
	return a
}
