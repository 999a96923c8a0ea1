package jobs

import (
	"context"
	"iter"

	"github.com/evald/evald/engine/fault"
)

// Stream works on items while it reads further ones, and writes them in the order in which they were read.
type Stream[T any] struct {
	// Items reads the items; an error ends the stream. Its ctx ends with that of Run, or after an error.
	Items func(ctx context.Context) iter.Seq2[T, error]
	// Work is called for several items at once. worker is a number below Workers that no concurrent call has. ctx is Finishing of Run's
	// context, and ends after an error. An error of Work ends the stream, unless Run's context has ended: then the item is dropped.
	Work    func(ctx context.Context, worker int, item T) error
	Workers int // items that are worked on at once, from 1
	Window  int // upper bound on the number of finished items that wait for earlier ones
	// Write is called for each item whose Work began, one call at a time, in the order of the items. done is false for the first dropped
	// item and for all items after it.
	Write func(item T, done bool) error
}

// Run returns when all items whose Work began have been written. If ctx ends, items that were read but not begun are dropped, and calls of
// Work in progress have another second. So the finished items are always the first ones. The error is that of reading, working or writing,
// or ctx.Err() if ctx left items unfinished. A panic of Items or Work is its error.
func (s Stream[T]) Run(ctx context.Context) (err error) {
	finishing, cancel := Finishing(ctx)
	defer cancel()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	type begun struct {
		item T
		done chan error // receives the result of Work
	}
	order := make(chan begun, s.Window)
	workers := make(chan int, s.Workers)
	for i := range s.Workers {
		workers <- i
	}
	var unread error // why reading stopped early; set before order is closed
	go func() {
		defer close(order)
		defer fault.Catch(&unread)
		for item, err := range s.Items(reading) {
			if err == nil {
				err = reading.Err()
			}
			worker := 0
			if err == nil {
				select {
				case worker = <-workers:
				case <-reading.Done():
					err = reading.Err()
				}
			}
			if err != nil {
				unread = err
				return
			}
			b := begun{item, make(chan error, 1)}
			go func() {
				err := s.work(finishing, worker, item)
				workers <- worker
				b.done <- err
			}()
			order <- b
		}
	}()
	givenUp := false
	for b := range order {
		failed := <-b.done
		if failed != nil && !givenUp && err == nil && ctx.Err() == nil {
			err = failed
		}
		givenUp = givenUp || failed != nil
		if err == nil {
			err = s.Write(b.item, !givenUp)
		}
		if err != nil { // the other items are not needed
			stop()
			cancel()
		}
	}
	switch {
	case err != nil:
		return err
	case unread == nil && givenUp:
		return ctx.Err()
	}
	return unread
}

func (s Stream[T]) work(ctx context.Context, worker int, item T) (err error) {
	defer fault.Catch(&err)
	return s.Work(ctx, worker, item)
}
