package service

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// slotRequest is a request from an address that is known or not.
func slotRequest(from string, known bool, cancel func()) *request {
	r := &request{conn: connectionFrom(from, newBudget(1<<20)), slot: slot{cancel: cancel}}
	if known {
		r.conn.know()
	}
	return r
}

// Many ask for few slots: no more are held than there are, each gets one in the end or hears that its time is over, and
// none is lost.
func TestSlots(t *testing.T) {
	s := newSlots(4)
	var held, most, refused atomic.Int64
	var wait sync.WaitGroup
	for i := range 200 {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+r.IntN(20))*time.Millisecond)
				w := slotRequest([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}[i%3], i%4 == 0, cancel)
				if err := s.acquire(ctx, w); err != nil {
					refused.Add(1)
					if status.Code(err) != codes.ResourceExhausted {
						t.Error(err)
					}
				} else {
					n := held.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					held.Add(-1)
					s.release(w)
				}
				cancel()
			}
		})
	}
	wait.Wait()
	if most.Load() > 4 || len(s.held) != 0 || len(s.by) != 0 || s.unknown != 0 || len(s.waiting) != 0 {
		t.Errorf("at most %d held, at the end %d of %v, %d unknown, %d waiting", most.Load(), len(s.held), s.by, s.unknown, len(s.waiting))
	}
}

// Unknown clients have half of the slots, and an address too; a message that does not come is ended when others wait.
func TestSlotsOfTheUnknown(t *testing.T) {
	s := newSlots(4)
	ended := make(chan struct{})
	acquire := func(from string, known bool, cancel func()) *request {
		t.Helper()
		w := slotRequest(from, known, cancel)
		if err := s.acquire(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		return w
	}
	first := acquire("10.0.0.1", false, func() { close(ended) })
	acquire("10.0.0.1", false, func() {})
	acquire("10.0.0.2", true, func() {}) // as fast as ever
	got := make(chan *request)
	go func() { got <- acquire("10.0.0.1", false, func() {}) }()
	<-ended
	if err := first.why(context.Canceled); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the one that lost its slot hears %v", err)
	}
	s.release(first)
	<-got
}
