package service

import (
	"net"
	"net/netip"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// budget bounds the memory of requests: what was read of them, what was made of that, their searches, and answers that
// nobody has fetched. Nothing is read or made before it is taken from here, and nothing waits for it: what does not fit is
// refused.
//
// Large requests leave a quarter to small ones, and no address may have more than half of it for large requests, nor more
// than three quarters in all: clients who ask for little are answered while others ask for all there is.
type budget struct {
	total int64

	mu   sync.Mutex
	used int64
	high int64            // the most that was used since cooled said so
	by   map[string]int64 // address -> what it has of it
}

// smallRequest is how many bytes a request may hold and still be small.
const smallRequest = 256 << 10

// hold is what one request has of the budget. It is of one goroutine; nil holds nothing and is never refused.
type hold struct {
	budget *budget
	from   string
	bytes  int64
}

func newBudget(total int64) *budget { return &budget{total: total, by: map[string]int64{}} }

// hold begins a request of an address.
func (b *budget) hold(from string) *hold { return &hold{budget: b, from: from} }

// take has n bytes more, or none and an error, ResourceExhausted.
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

// give has n bytes fewer.
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

// force counts n bytes of an address that exist already: fewer, if n is negative.
func (b *budget) force(from string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(from, int64(n))
}

// add counts n bytes; mu is held.
func (b *budget) add(from string, n int64) {
	b.used += n
	b.high = max(b.high, b.used)
	if b.by[from] += n; b.by[from] == 0 {
		delete(b.by, from)
	}
}

// most is what one request may have where there is no other.
func (b *budget) most() int64 { return b.total / 2 }

// inUse is how many bytes are taken.
func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// cooled reports, once after each time that an eighth or more was in use, that hardly any of it is now.
func (b *budget) cooled() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.high < b.total/8 || b.used > b.total/64 {
		return false
	}
	b.high = b.used
	return true
}

// grow is b with room for n more bytes, which the hold has before they are there.
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

// addressOf is whom an address is counted as: one of IPv4, the network of 64 bits of IPv6, or the text where it is none.
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
