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
				slot, err := s.acquire(ctx, []string{"a", "b", "c"}[i%3], i%4 == 0, cancel)
				if err != nil {
					refused.Add(1)
					if status.Code(err) != codes.ResourceExhausted {
						t.Error(err)
					}
				} else {
					n := held.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					held.Add(-1)
					s.release(slot)
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
	acquire := func(from string, known bool, cancel func()) *slot {
		t.Helper()
		slot, err := s.acquire(t.Context(), from, known, cancel)
		if err != nil {
			t.Fatal(err)
		}
		return slot
	}
	first := acquire("a", false, func() { close(ended) })
	acquire("a", false, func() {})
	acquire("b", true, func() {}) // as fast as ever
	got := make(chan *slot)
	go func() { got <- acquire("a", false, func() {}) }()
	<-ended
	if err := first.why(context.Canceled); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the one that lost its slot hears %v", err)
	}
	s.release(first)
	<-got
}
