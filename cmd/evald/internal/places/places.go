// Package places limits how many requests compute at once, and how many wait for that.
package places

import (
	"context"
	"errors"
	"runtime"
	"time"
)

// Places are places for requests that compute. A request without a place waits for one.
type Places struct {
	Bytes int64 // memory that a request may use in its place

	taken chan struct{}
	asked chan struct{} // those that have a place or wait; nil: any number may wait, for any time
}

// New returns n places, for which any number of requests may wait.
func New(n int) *Places { return &Places{taken: make(chan struct{}, n)} }

// Limited returns n places for which at most waiting requests wait, each for Patience.
func Limited(n, waiting int) *Places {
	return &Places{Bytes: usualBytes, taken: make(chan struct{}, n), asked: make(chan struct{}, n+waiting)}
}

// Patience is the time that a request waits for a limited place.
const Patience = 3 * time.Second

// Memory of a place of the page in bytes: the minimum, if there are several places, and the default.
const (
	leastBytes = 96 << 20
	usualBytes = 300 << 20
)

// ForPage returns the places of the page's analyses, moves and reviews, which together use memory
// bytes: two for each processor, or fewer if that is too little memory. 0 stands for as much as they
// need.
func ForPage(memory int64) *Places {
	n := int64(2 * runtime.GOMAXPROCS(0))
	if memory == 0 {
		memory = n * usualBytes
	}
	n = max(1, min(n, memory/leastBytes))
	p := Limited(int(n), 32)
	p.Bytes = memory / n
	return p
}

// ErrBusy means that too many requests wait for a place, or that none was free in time.
var ErrBusy = errors.New("the server runs its maximum number of searches; try again soon")

// Take waits for a place. If it returns nil, the caller must call Leave. Its errors are ErrBusy and
// that of ctx.
func (p *Places) Take(ctx context.Context) error {
	var tooLong <-chan time.Time
	if p.asked != nil {
		select {
		case p.asked <- struct{}{}:
		default:
			return ErrBusy
		}
		timer := time.NewTimer(Patience)
		defer timer.Stop()
		tooLong = timer.C
	}
	var err error
	select {
	case p.taken <- struct{}{}:
		return nil
	case <-tooLong:
		err = ErrBusy
	case <-ctx.Done():
		err = ctx.Err()
	}
	if p.asked != nil {
		<-p.asked
	}
	return err
}

// Leave frees a place.
func (p *Places) Leave() {
	<-p.taken
	if p.asked != nil {
		<-p.asked
	}
}

// Taken returns the number of places that are taken.
func (p *Places) Taken() int { return len(p.taken) }

// Waiting returns the number of requests that wait for a limited place.
func (p *Places) Waiting() int { return max(0, len(p.asked)-len(p.taken)) }
