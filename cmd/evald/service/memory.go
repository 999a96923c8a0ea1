package service

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// budget bounds the memory of models and requests: weights, what was read of them, what was decoded from it, their searches, and answers that
// their clients have not fetched. Memory is taken from the budget before it is used. Nothing waits for it: a request that
// does not fit is refused.
//
// Large requests leave a quarter of the budget to small ones. One address may have half of it for large requests, and three
// quarters in all. So clients that ask for little are answered while others ask for all there is.
type budget struct {
	mu    sync.Mutex
	total int64 // what requests may have: all but what models take

	used int64
	high int64            // the most that was in use since cooled last reported true
	by   map[string]int64 // address -> bytes
}

// smallRequest is the most bytes that a small request holds.
const smallRequest = 256 << 10

func newBudget(total int64) *budget { return &budget{total: total, by: map[string]int64{}} }

// reserve takes n bytes for a model, and as many again while it is being read, until loaded is called. Requests keep least bytes.
func (b *budget) reserve(n, least int64) (loaded func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > 0 && (b.total-n < least || b.total-2*n < b.used) {
		return nil, fmt.Errorf("takes %d MiB of memory, and as much again while it is read; %d MiB are left, of which requests use %d and keep %d",
			n>>20, b.total>>20, b.used>>20, least>>20)
	}
	b.total -= 2 * n
	return func() { b.release(n) }, nil
}

// release gives back n bytes that a model had.
func (b *budget) release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total += n
}

// limit is how many bytes requests may have.
func (b *budget) limit() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// take takes n bytes more for the request, or none and returns an error, ResourceExhausted.
func (r *request) take(n int) error {
	if n <= 0 {
		return nil
	}
	b, address := r.conn.of.memory, r.conn.from
	b.mu.Lock()
	defer b.mu.Unlock()
	room, from := b.total-b.used, b.total/4*3-b.by[address]
	if r.bytes+int64(n) > smallRequest {
		room -= b.total / 4
		from -= b.total / 4
	}
	switch {
	case int64(n) > room:
		return status.Errorf(codes.ResourceExhausted, "the memory for requests is in use: %d of %d MiB; ask again later, or for less", b.used>>20, b.total>>20)
	case int64(n) > from:
		return status.Errorf(codes.ResourceExhausted, "requests from your address hold their share of the memory for requests, %d MiB: ask again when some are answered, or for less", b.by[address]>>20)
	}
	r.bytes += int64(n)
	b.add(address, int64(n))
	return nil
}

// give gives n bytes back.
func (r *request) give(n int) {
	r.bytes -= int64(n)
	r.conn.of.memory.force(r.conn.from, -n)
}

// end gives everything back.
func (r *request) end() { r.give(int(r.bytes)) }

// force counts n bytes of an address that are in use already. A negative n gives bytes back.
func (b *budget) force(from string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(from, int64(n))
}

// add counts n bytes. mu is held.
func (b *budget) add(from string, n int64) {
	b.used += n
	b.high = max(b.high, b.used)
	if b.by[from] += n; b.by[from] == 0 {
		delete(b.by, from)
	}
}

// inUse is how many bytes are taken.
func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// cooled reports whether hardly anything is in use after an eighth or more was. It reports each such rush once.
func (b *budget) cooled() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.high < b.total/8 || b.used > b.total/64 {
		return false
	}
	b.high = b.used
	return true
}

// grow returns b with room for n more bytes, which it takes from the budget first.
func (r *request) grow(b []byte, n int) ([]byte, error) {
	if len(b)+n <= cap(b) {
		return b, nil
	}
	size := max(2*cap(b), len(b)+n, 512)
	if err := r.take(size); err != nil {
		return nil, err
	}
	larger := make([]byte, len(b), size)
	copy(larger, b)
	r.give(cap(b))
	return larger, nil
}

// addressOf is the name under which a client is counted: its IPv4 address, the first 64 bits of its IPv6 address, or if the
// text is no address, the text.
func addressOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a.String()
	}
	return netip.PrefixFrom(a, 64).Masked().Addr().String()
}

// slots bound how many messages are read at once, each of which may be as long as a message can be. If no slot is free, a
// message waits for one. Known clients are served first, and unknown ones may have half of the slots. Unknown clients are
// served last in, first out: during a rush, those that have waited for long mostly give up before their turn. While a message
// waits, another one that does not arrive in time loses its slot.
type slots struct {
	n int

	mu      sync.Mutex
	held    []*request // the oldest first
	waiting []*request // in the order in which they came
}

// slot is what a request of gRPC knows of its own slot.
type slot struct {
	cancel  func() // ends the call
	known   bool   // its client was, when it came
	since   time.Time
	granted chan struct{}
	lost    atomic.Bool
}

// slowMessage is how long a message may take while others wait.
const slowMessage = time.Second

// acquire waits for a slot until ctx ends.
func (s *slots) acquire(ctx context.Context, w *request) error {
	w.known = w.conn.isKnown()
	s.mu.Lock()
	if s.may(w) {
		s.grant(w)
		s.mu.Unlock()
		return nil
	}
	w.granted = make(chan struct{})
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()
	look := time.NewTicker(slowMessage / 4)
	defer look.Stop()
	for {
		select {
		case <-w.granted:
			return nil
		case now := <-look.C:
			s.end(now.Add(-slowMessage))
		case <-ctx.Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			if i := slices.Index(s.waiting, w); i >= 0 {
				s.waiting = slices.Delete(s.waiting, i, i+1)
				return refuse(codes.ResourceExhausted, "too many messages come at once, and slowly")
			}
			return nil // it was granted at the same moment
		}
	}
}

// may reports whether a call may have a slot. mu is held.
func (s *slots) may(w *request) bool {
	from, unknown := 0, 0
	for _, h := range s.held {
		if h.conn.from == w.conn.from {
			from++
		}
		if !h.known {
			unknown++
		}
	}
	if w.known {
		return len(s.held) < s.n && from < max(1, s.n/4*3)
	}
	return len(s.held) < s.n && from < max(1, s.n/2) && unknown < max(1, s.n/2)
}

// grant gives a call a slot. mu is held.
func (s *slots) grant(w *request) {
	w.since = time.Now()
	s.held = append(s.held, w)
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
func (s *slots) release(w *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.held, w)
	s.held = slices.Delete(s.held, i, i+1)
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

// notRead is the error for a message that was not read.
func (w *request) notRead(err error) error {
	if w.lost.Load() {
		return refuse(codes.ResourceExhausted, "the message took more than %v to come, and others waited", slowMessage)
	}
	return err
}
