package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"google.golang.org/grpc/codes"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/queue"
	"github.com/evald/evald/engine/solver"
)

// This file decides which requests are refused, which wait and for what, and accounts for the memory, slots and places that each holds. A
// request of a counted connection (connections.go) passes these functions in this order:
//
//	arrive   after its headers: refuses it if there are too many connections, its token does not open the call, or the server drains
//	acquire  over gRPC, where a message is read whole: waits for a slot
//	take     reserves memory for reading, decoding and the answer; never waits
//	room     refuses it if the model's queue has no room for its rows; over REST before the rows are read (foresee)
//	admit    after reading: counts it, waits for a place if it is a large search, and reserves memory until it is answered
//
// So the limit of requests, memory and the queue's room are each checked twice: early, and again when
// the request is complete, because others may have come meanwhile. The second check of room is the
// batcher's, when the rows join the queue. Only long messages and the bodies of REST, whose sizes are
// not known before, ask for memory more often.

// hold lists the memory, slot, turn and references that a request holds. computed and end release them; each is released once.
type hold struct {
	bytes      int64 // reserved in the budget under the client's address
	advance    int   // part of bytes: reserved for a decoded message before it is read
	need, work int   // parts of bytes: what admit reserved, and of that what is only needed until the answer is computed
	foreseen   bool  // whether foresee has found room for the rows
	slot       slot
	under      *Server // the server that counts the request as in progress; nil: not counted
	served     *model  // the model that answers it
	place      bool    // among those of large searches
}

// computed releases the memory that is only needed until the answer is computed.
func (r *request) computed() {
	r.give(r.work)
	r.work = 0
	if r.place {
		r.under.large.Leave()
	}
	if r.under != nil {
		r.under.leave()
	}
	if r.served != nil {
		r.served.release()
	}
	r.place, r.under, r.served = false, nil, nil
}

// end releases everything. It is called when the answer is being sent, or when there is none.
func (r *request) end() {
	r.computed()
	r.give(int(r.bytes))
}

// arrive accepts or refuses a call after its headers.
func (s *Server) arrive(r *request, token string) (err error) {
	if r.conn.spare && r.group != healthCalls {
		r.conn.of.refused[answeredFull].Add(1)
		return refuse(codes.Unavailable, "too many connections are open, from your address or together: close some, or try again")
	}
	if err = s.allow(r, token); err == nil && r.group == inferenceCalls {
		err = s.enter(0)
	}
	return err
}

// enter counts n more requests as in progress, or refuses them. With n = 0 it only checks.
func (s *Server) enter(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == draining {
		return errDraining
	}
	if s.requests >= s.config.Limits.Requests {
		return refuse(codes.ResourceExhausted, "%d requests are under way already", s.requests)
	}
	s.requests += n
	s.answering.Add(n)
	return nil
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests--
	s.answering.Done()
}

// room returns an error if the model's queue has no room for n rows at the request's priority and timeout. It accepts all rows of models
// with a cache, because cached rows need no room; there only the batcher decides. It also accepts searches, which admit limits by memory.
func (r *request) room(m *model, n int) error {
	if m.searches || m.cache != nil {
		return nil
	}
	return toStatus(m.batcher.Room(r.caller(false), n, r.deadline(m)))
}

// foresee refuses a request for n rows while it is being read, if it would be refused later. Unless known, the parameters have not been
// read, and foresee assumes the most favourable ones.
func (s *Server) foresee(r *request, n int, known bool) error {
	m, err := s.models.find(r.model, r.version)
	if err != nil {
		return err
	}
	ask := request{conn: r.conn, forwarded: r.forwarded, token: r.token, shown: r.shown, asked: r.asked, parameters: r.parameters}
	if !known {
		ask.priority, ask.timeout = queue.High, 0
	}
	r.foreseen = true
	return ask.room(m, n)
}

// admit accepts or refuses a request that has been read, and reserves what it needs until it is answered. It is called again if the rows
// turn out to be on another board than the request's.
func (s *Server) admit(ctx context.Context, r *request, names []string) error {
	m, work := r.served, 0
	switch {
	case m.searches:
		r.search.Visits = cmp.Or(r.search.Visits, m.Visits)
		work = min(r.rows, mcts.AtOnce(max(1, min(m.MaxRows, r.rows)))) * mcts.TreeBytes(r.board, r.search.Visits)
		if most := s.memory.limit() / 2; int64(work) > most {
			return invalid("%d positions of %d visits take %d MiB, more than the %d that a request may have: ask for fewer", r.rows, r.search.Visits, work>>20, most>>20)
		}
	case m.solves():
		work = r.rows * (2*4*r.board.Actions() + 256) // of solveJob.found
	default:
		if r.search.Exact = cmp.Or(r.search.Exact, m.Exact); r.search.Exact > 0 {
			work = r.rows * rowSize(r.board) // of exactStep's batch
		}
	}
	if r.under == nil {
		if err := s.enter(1); err != nil {
			return err
		}
		r.under = s
		if !r.foreseen {
			if err := r.room(m, r.rows); err != nil {
				return err
			}
		}
	}
	if m.searches && (r.rows >= largeSearch || r.search.Exact > solver.ProbeNodes) && !r.place {
		if err := s.large.Take(ctx); err != nil {
			return toStatus(fmt.Errorf("search: %w", err))
		}
		r.place = true
	}
	more := work + r.cost(names) - r.need
	if err := r.take(more); err != nil {
		return err
	}
	r.need, r.work = r.need+max(more, 0), work
	return nil
}

// slowDown is called before a REST request is refused for lack of room. If the client has retried on the same connection before
// Retry-After is over, slowDown waits first. Otherwise a few clients that retry immediately would use the processors' time.
func (s *Server) slowDown(ctx context.Context, c *connection) {
	again := false
	c.update(func() {
		now := time.Now()
		again, c.refused = now.Sub(c.refused) < retryAfter*time.Second, now
	})
	if again {
		wait, cancel := context.WithTimeout(ctx, retryAfter*time.Second/4)
		defer cancel()
		stop := context.AfterFunc(s.taking, cancel)
		defer stop()
		<-wait.Done()
	}
}

// largeSearch is the minimum number of positions of a large search. A search with probes of more than solver.ProbeNodes is large, too. At
// most one large search per processor runs at once, and the others wait: more would not be faster, and would delay other requests.
const largeSearch = 256

// cost estimates the memory of computing and sending the answer, in bytes: the batch, the values of the outputs, and r.copies times these
// values for their encoded form.
func (r *request) cost(names []string) int {
	size := rowSize(r.board)
	for _, name := range names {
		size += (1 + max(r.copies, 1)) * outputs[name].room(r.board)
	}
	return r.rows * size
}

// rowSize is the approximate size of a row of a batch in bytes.
func rowSize(b *game.Board) int { return int(unsafe.Sizeof(game.Position{})) + 64 + 4*b.Actions() }

// caller identifies the request's client for the batcher: by its token, else by its certificate, else by its address.
func (r *request) caller(accepted bool) queue.Caller {
	c := queue.Caller{Client: "address " + r.from(), Priority: r.priority, Accepted: accepted}
	if kind, name := r.identity(); kind != "" {
		c.Client = kind + " " + name
	}
	if r.token != nil {
		c.Weight = r.token.weight
	}
	return c
}

// deadline returns the time until which the request must be answered.
func (r *request) deadline(m *model) time.Time {
	timeout := m.Timeout
	if r.timeout > 0 {
		timeout = min(timeout, r.timeout)
	}
	return r.asked.Add(timeout)
}

// budget limits the memory of models and requests: weights, encoded and decoded messages, searches, and answers that clients have not
// fetched. Memory is reserved in the budget before it is allocated. A request never waits for memory: if it does not fit, it is refused.
//
// A quarter of the budget is reserved for small requests. One address may hold half of the budget with large requests, and three quarters
// in all. So clients with small requests are answered even while others hold their maximum.
type budget struct {
	mu    sync.Mutex
	total int64 // bytes for requests: the whole budget less the memory of models

	checks int // calls of take that have asked for memory

	used int64
	high int64            // maximum of used since cooled last returned true
	by   map[string]int64 // address -> bytes
}

// smallRequest is the maximum size of a small request in bytes.
const smallRequest = 256 << 10

func newBudget(total int64) *budget { return &budget{total: total, by: map[string]int64{}} }

// reserve takes n bytes for a model from the budget, and n more until loaded is called, because reading a model takes twice its memory. It
// leaves at least least bytes to requests.
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

// release returns n bytes of a model to the budget.
func (b *budget) release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total += n
}

// limit returns the maximum memory of all requests together, and inUse the memory that they have reserved, in bytes.
func (b *budget) limit() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// take reserves n more bytes for the request. If they are not available, it reserves nothing and returns ResourceExhausted.
func (r *request) take(n int) error {
	if n <= 0 {
		return nil
	}
	b, address := r.conn.of.memory, r.from()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.checks++
	room, from := b.total-b.used, b.total/4*3-b.by[address]
	if r.bytes+int64(n) > smallRequest {
		room -= b.total / 4
		from -= b.total / 4
	}
	switch {
	case int64(n) > room:
		return refuse(codes.ResourceExhausted, "the memory for requests is in use: %d of %d MiB; ask again later, or for less", b.used>>20, b.total>>20)
	case int64(n) > from:
		return refuse(codes.ResourceExhausted, "requests from your address hold their share of the memory for requests, %d MiB: ask again when some are answered, or for less", b.by[address]>>20)
	}
	r.bytes += int64(n)
	b.add(address, int64(n))
	return nil
}

// give returns n bytes to the budget.
func (r *request) give(n int) {
	if n == 0 {
		return
	}
	r.bytes -= int64(n)
	r.conn.of.memory.force(r.from(), -n)
}

// force counts n bytes that an address already uses, even beyond the limits. A negative n returns bytes.
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

// cooled returns true once after each peak of at least an eighth of the budget, when at most a 64th is in use again.
func (b *budget) cooled() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.high < b.total/8 || b.used > b.total/64 {
		return false
	}
	b.high = b.used
	return true
}

// grow returns b with capacity for n more bytes. It reserves memory in the budget before it allocates.
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

// slots limit the number of messages that are read at once; each slot has room for the longest message. If no slot is free, a message
// waits. Known clients are served first, first in, first out; unknown ones may hold half of the slots. Unknown clients are served last in,
// first out, because under overload a client that has waited long has mostly given up. While messages wait, a message that takes longer
// than slowMessage to arrive loses its slot.
type slots struct {
	n int

	mu      sync.Mutex
	held    []*request // the oldest first
	waiting []*request // in the order of arrival
}

// slot is the slot of a gRPC request.
type slot struct {
	cancel  func() // ends the call
	known   bool   // whether the client was known when the message came
	since   time.Time
	granted chan struct{}
	lost    atomic.Bool
}

// slowMessage is the time in which a message must arrive while others wait.
const slowMessage = time.Second

// acquire waits for a slot until ctx ends.
func (s *slots) acquire(ctx context.Context, w *request) error {
	w.slot.known, w.slot.granted = w.conn.isKnown(), make(chan struct{})
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	if s.may(w) {
		s.grant(len(s.waiting) - 1)
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	look := time.NewTicker(slowMessage / 4)
	defer look.Stop()
	for {
		select {
		case <-w.slot.granted:
			return nil
		case now := <-look.C:
			s.end(now.Add(-slowMessage))
		case <-ctx.Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			if i := slices.Index(s.waiting, w); i >= 0 {
				s.waiting = slices.Delete(s.waiting, i, i+1)
				return refuse(codes.ResourceExhausted, "too many messages arrive slowly at the same time")
			}
			return nil // the slot was granted at the same moment
		}
	}
}

// may reports whether a call may get a slot now. mu is held.
func (s *slots) may(w *request) bool {
	from, unknown := 0, 0
	for _, h := range s.held {
		if h.from() == w.from() {
			from++
		}
		if !h.slot.known {
			unknown++
		}
	}
	if w.slot.known {
		return len(s.held) < s.n && from < max(1, s.n/4*3)
	}
	return len(s.held) < s.n && from < max(1, s.n/2) && unknown < max(1, s.n/2)
}

// grant gives a slot to waiting call i. mu is held.
func (s *slots) grant(i int) {
	w := s.waiting[i]
	s.waiting = slices.Delete(s.waiting, i, i+1)
	w.slot.since = time.Now()
	s.held = append(s.held, w)
	close(w.slot.granted)
}

// end cancels the call that has held its slot for the longest time, if it got the slot before then.
func (s *slots) end(then time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.held {
		if w.slot.since.After(then) {
			return
		}
		if !w.slot.lost.Swap(true) {
			w.slot.cancel()
			return
		}
	}
}

// release frees a slot, and grants it to the next waiting call that may have it.
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
		if next = i; w.slot.known {
			break
		}
	}
	if next >= 0 {
		s.grant(next)
	}
}

// notRead returns the status of a message that could not be read.
func (r *request) notRead(err error) error {
	if r.slot.lost.Load() {
		return refuse(codes.ResourceExhausted, "the message took more than %v to arrive while others waited", slowMessage)
	}
	return err
}
