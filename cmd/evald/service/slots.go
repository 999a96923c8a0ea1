package service

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
)

// slots bound how many messages are read at once, each of which may be as long as a message can be. If no slot is free, a
// message waits for one. Clients that are known go first, and strangers may have half of the slots. Of the strangers the last
// to come goes first: during a rush, those who have waited for long will mostly give up before their turn. While somebody
// waits, a message that does not arrive in time loses its slot.
type slots struct {
	n int

	mu      sync.Mutex
	held    []*slot // the oldest first
	by      map[string]int
	unknown int
	waiting []*slot // in the order in which they came
}

// slot is one that a call holds or waits for.
type slot struct {
	from    string
	known   bool
	cancel  func() // ends the call
	since   time.Time
	granted chan struct{}
	lost    atomic.Bool
}

// slowMessage is how long a message may take while others wait.
const slowMessage = time.Second

func newSlots(n int) *slots { return &slots{n: n, by: map[string]int{}} }

// acquire waits for a slot until ctx ends.
func (s *slots) acquire(ctx context.Context, from string, known bool, cancel func()) (*slot, error) {
	w := &slot{from: from, known: known, cancel: cancel, since: time.Now()}
	s.mu.Lock()
	if s.may(w) {
		s.grant(w)
		s.mu.Unlock()
		return w, nil
	}
	w.granted = make(chan struct{})
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()
	look := time.NewTicker(slowMessage / 4)
	defer look.Stop()
	for {
		select {
		case <-w.granted:
			return w, nil
		case now := <-look.C:
			s.end(now.Add(-slowMessage))
		case <-ctx.Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			if i := slices.Index(s.waiting, w); i >= 0 {
				s.waiting = slices.Delete(s.waiting, i, i+1)
				return nil, refuse(codes.ResourceExhausted, "too many messages come at once, and slowly")
			}
			return w, nil // it was granted at the same moment
		}
	}
}

// may reports whether a call may have a slot. mu is held.
func (s *slots) may(w *slot) bool {
	if w.known {
		return len(s.held) < s.n && s.by[w.from] < max(1, s.n/4*3)
	}
	return len(s.held) < s.n && s.by[w.from] < max(1, s.n/2) && s.unknown < max(1, s.n/2)
}

// grant gives a call a slot. mu is held.
func (s *slots) grant(w *slot) {
	w.since = time.Now()
	s.held = append(s.held, w)
	s.by[w.from]++
	if !w.known {
		s.unknown++
	}
}

// end ends the call that has held a slot for the longest time, if it has held it since before then.
func (s *slots) end(then time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.held {
		if w.since.After(then) {
			return
		}
		if !w.lost.Swap(true) {
			w.cancel()
			return
		}
	}
}

// release gives a slot back, or to a call that waits and may have it.
func (s *slots) release(w *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.held, w)
	s.held = slices.Delete(s.held, i, i+1)
	if s.by[w.from]--; s.by[w.from] == 0 {
		delete(s.by, w.from)
	}
	if !w.known {
		s.unknown--
	}
	next := -1
	for i, w := range s.waiting {
		if !s.may(w) {
			continue
		}
		if next = i; w.known {
			break
		}
	}
	if next >= 0 {
		w := s.waiting[next]
		s.waiting = slices.Delete(s.waiting, next, next+1)
		s.grant(w)
		close(w.granted)
	}
}

// why says why a message was not read.
func (w *slot) why(err error) error {
	if w.lost.Load() {
		return refuse(codes.ResourceExhausted, "the message took more than %v to come, and others waited", slowMessage)
	}
	return err
}
