package library

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/evald/evald/engine/eval"
)

// Function is an eval.Backend that lets the caller of a Work compute the answers: Compute waits until Work.Wait has returned the batch to the
// caller and the caller has called Ask.Answer. Meanwhile searches fill the next batches.
type Function struct {
	rows   int
	number int // among the functions of a call, from 0
	asks   chan *Ask
}

// NewFunction returns a Function that prefers batches of the given number of rows.
func NewFunction(rows int) *Function { return &Function{rows: rows, asks: make(chan *Ask, 64)} }

// Another returns the next function of a call that has several. Work.Wait returns the batches of
// all.
func (f *Function) Another() *Function { return &Function{f.rows, f.number + 1, f.asks} }

// Attributes implements eval.Backend.
func (f *Function) Attributes() eval.Attributes { return eval.Attributes{Rows: f.rows, Plain: true} }

// Ask is a batch that waits for answers.
type Ask struct {
	Function int // number of the function that it is for

	batch    *eval.Batch
	answered chan error

	mu   sync.Mutex
	gone bool // the search has ended, and batch may be in use elsewhere
}

// Compute implements eval.Backend.
func (f *Function) Compute(ctx context.Context, b *eval.Batch) error {
	a := &Ask{Function: f.number, batch: b, answered: make(chan error, 1)}
	select {
	case f.asks <- a:
	case <-ctx.Done():
		return fmt.Errorf("the network's function: %w", ctx.Err())
	}
	select {
	case err := <-a.answered:
		return err
	case <-ctx.Done():
		a.mu.Lock()
		a.gone = true
		a.mu.Unlock()
		return fmt.Errorf("the network's function: %w", ctx.Err())
	}
}

// Use calls f, which may read the batch's positions and fill its WDL and Policy. It does nothing after the search has ended.
func (a *Ask) Use(f func(b *eval.Batch)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.gone {
		f(a.batch)
	}
}

// Answer completes a batch with an error or, if err is nil, with the answers written in Use. It checks these and normalizes them to sum 1. It
// returns err, or an error for invalid answers; either also ends the search.
func (a *Ask) Answer(err error) error {
	if err == nil {
		a.Use(func(b *eval.Batch) { err = tidy(b) })
	}
	a.answered <- err
	return err
}

// tidy checks a function's answers, masks illegal moves, and normalizes rows to sum 1.
func tidy(b *eval.Batch) error {
	for i, p := range b.Pos {
		wdl, policy := b.WDLRow(i), b.PolicyRow(i)
		total := float32(0)
		for k, x := range wdl {
			if !(x >= -1e-6 && x <= 1e30) {
				return &RowError{i, fmt.Errorf("the network's function answers %v with the value %v: want probabilities of win, draw and loss from 0", []string{"win", "draw", "loss"}[k], x)}
			}
			wdl[k] = max(0, x)
			total += wdl[k]
		}
		if !(total > 0) {
			return &RowError{i, errors.New("the network's function answers win, draw and loss with 0 all three")}
		}
		for k := range wdl {
			wdl[k] /= total
		}
		total = 0
		for k, x := range policy {
			if !(x >= -1e-6 && x <= 1e30) {
				return &RowError{i, fmt.Errorf("the network's function answers move %d with the probability %v, which must be a number from 0", k+1, x)}
			}
			if policy[k] = max(0, x); !b.Board.CanPlay(p, k) {
				policy[k] = 0
			}
			total += policy[k]
		}
		if total > 1e-20 {
			for k := range policy {
				policy[k] /= total
			}
		} else { // legal moves have probability 0: make them equally likely
			legal := b.Board.Legal(p)
			for s := legal; !s.IsZero(); s = s.WithoutFirst() {
				policy[b.Board.Action(s.First())] = 1 / float32(legal.OnesCount())
			}
		}
		b.Source[i] = eval.Function
	}
	return nil
}
