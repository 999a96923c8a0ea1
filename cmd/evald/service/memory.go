package service

import (
	"net"
	"net/netip"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// budget bounds the memory of requests: what was read of them, what was decoded from it, their searches, and answers that
// their clients have not fetched. Memory is taken from the budget before it is used. Nothing waits for it: a request that
// does not fit is refused.
//
// Large requests leave a quarter of the budget to small ones. One address may have half of it for large requests, and three
// quarters in all. So clients that ask for little are answered while others ask for all there is.
type budget struct {
	total int64

	mu   sync.Mutex
	used int64
	high int64            // the most that was in use since cooled last reported true
	by   map[string]int64 // address -> bytes
}

// smallRequest is the most bytes that a small request holds.
const smallRequest = 256 << 10

// hold is the part of the budget that one request has. One goroutine uses it. A nil hold holds nothing and is never refused.
type hold struct {
	budget *budget
	from   string
	bytes  int64
}

func newBudget(total int64) *budget { return &budget{total: total, by: map[string]int64{}} }

// hold begins a request from an address.
func (b *budget) hold(from string) *hold { return &hold{budget: b, from: from} }

// take takes n bytes more, or none and returns an error, ResourceExhausted.
func (h *hold) take(n int) error {
	if h == nil || n <= 0 {
		return nil
	}
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	room, from := b.total-b.used, b.total/4*3-b.by[h.from]
	if h.bytes+int64(n) > smallRequest {
		room -= b.total / 4
		from -= b.total / 4
	}
	switch {
	case int64(n) > room:
		return status.Errorf(codes.ResourceExhausted, "the memory for requests is in use: %d of %d MiB; ask again later, or for less", b.used>>20, b.total>>20)
	case int64(n) > from:
		return status.Errorf(codes.ResourceExhausted, "requests from your address hold their share of the memory for requests, %d MiB: ask again when some are answered, or for less", b.by[h.from]>>20)
	}
	h.bytes += int64(n)
	b.add(h.from, int64(n))
	return nil
}

// give gives n bytes back.
func (h *hold) give(n int) {
	if h == nil {
		return
	}
	h.budget.mu.Lock()
	defer h.budget.mu.Unlock()
	h.bytes -= int64(n)
	h.budget.add(h.from, -int64(n))
}

// end gives everything back.
func (h *hold) end() {
	if h != nil {
		h.give(int(h.bytes))
	}
}

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

// most is how many bytes one request may have if there is no other.
func (b *budget) most() int64 { return b.total / 2 }

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
func (h *hold) grow(b []byte, n int) ([]byte, error) {
	if len(b)+n <= cap(b) {
		return b, nil
	}
	size := max(2*cap(b), len(b)+n, 512)
	if err := h.take(size); err != nil {
		return nil, err
	}
	larger := make([]byte, len(b), size)
	copy(larger, b)
	h.give(cap(b))
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
