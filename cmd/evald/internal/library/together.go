package library

import (
	"context"
	"sync"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/fault"
)

// together merges the leaves of all games of a match in which a function is to move. It calls the
// function when each of these games waits for a leaf, so its batches are as large as possible
// without a clock.
type together struct {
	*Function
	match context.Context

	mu      sync.Mutex
	moving  int       // games in which the function is to move
	waiting []waiting // those that wait for answers
	calls   sync.WaitGroup
}

// waiting is a batch of one game.
type waiting struct {
	batch *eval.Batch
	done  chan error
}

// Compute implements eval.Backend. It waits until the function has answered, or the match has ended.
func (t *together) Compute(_ context.Context, b *eval.Batch) error {
	w := waiting{b, make(chan error, 1)}
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.call()
	t.mu.Unlock()
	return <-w.done
}

// move adds change to the number of games in which the function is to move.
func (t *together) move(change int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moving += change
	t.call()
}

// call starts a call of the function if all games wait.
func (t *together) call() {
	if len(t.waiting) == 0 || len(t.waiting) < t.moving {
		return
	}
	some := t.waiting
	t.waiting = nil
	t.calls.Go(func() {
		err := t.answer(some)
		for _, w := range some {
			w.done <- err
		}
	})
}

// answer answers some games' batches with one of the function.
func (t *together) answer(some []waiting) (err error) {
	defer fault.Catch(&err)
	rows := 0
	for _, w := range some {
		rows += len(w.batch.Pos)
	}
	all := eval.NewBatch(some[0].batch.Board, rows)
	at := 0
	for _, w := range some {
		at += copy(all.Pos[at:], w.batch.Pos)
	}
	if err := t.Function.Compute(t.match, all); err != nil {
		return err
	}
	at = 0
	for _, w := range some {
		part := all.Slice(at, at+len(w.batch.Pos))
		copy(w.batch.WDL, part.WDL)
		copy(w.batch.Policy, part.Policy)
		copy(w.batch.Source, part.Source)
		at += len(part.Pos)
	}
	return nil
}
