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

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/solver"
)

// This file has all of admission: which requests are refused, which wait and for what, and the memory and places that each holds. A
// request of a counted connection (connections.go) passes these points in this order:
//
//	arrive   after its headers: are there too many connections, does its token open the call, does the server drain?
//	acquire  a gRPC message, which is read whole, waits for a slot
//	take     memory for reading, decoding and the answer; never waits
//	room     when the number of rows is known, over REST before they are read: is there room in the server and the model's queue?
//	admit    after reading: room, a turn if it is a large search, and the memory until it is answered
//
// When its rows join the queue, the batcher checks the same rule (eval.Evaluator.Room) again, because other rows may have joined.

// hold is the memory and the places that a request has. computed and end release them, each part once.
type hold struct {
	bytes      int64 // of the budget, for its address
	need, work int   // of these: the bytes that admit took, and the part of them that is used until the answer is computed
	slot       slot
	under      *Server // the server that counts it as in progress; nil: none
	served     *model  // the model that answers it
	turn       bool
}

// computed releases the memory that is only needed until the answer is computed.
func (r *request) computed() {
	r.give(r.work)
	r.work = 0
	if r.turn {
		<-r.under.large
	}
	if r.under != nil {
		r.under.leave()
	}
	if r.served != nil {
		r.served.release()
	}
	r.turn, r.under, r.served = false, nil, nil
}

// end releases everything, when the answer is being sent or there is none.
func (r *request) end() {
	r.computed()
	r.give(int(r.bytes))
}

// arrive decides about a call after its headers.
func (s *Server) arrive(r *request, token string) (err error) {
	if r.conn.spare && r.group != healthCalls {
		return refuse(codes.Unavailable, "too many connections are open, from your address or together: close some, or try again")
	}
	if r.token, err = s.config.Tokens.allow(r.group, token); err == nil && r.group == inferenceCalls {
		err = s.enter(0)
	}
	return err
}

// enter counts n more requests in progress, or refuses them.
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

// room is nil if the model's queue has room for n rows of the caller, according to its priority and timeout. Cached rows need no room,
// so with a cache only the batcher decides. A search is admitted by its memory, and its leaves are never refused.
func (r *request) room(m *model, n int) error {
	if m.searches || m.cache != nil {
		return nil
	}
	return toStatus(m.evaluator.For(r.caller(false)).Room(n, r.deadline(m)))
}

// foresee decides about a request for n rows that is still being read. It assumes the most favourable parameters until they are known.
func (s *Server) foresee(r *request, n int, known bool) error {
	m, err := s.models.find(r.model, r.version)
	if err != nil {
		return err
	}
	ask := request{conn: r.conn, token: r.token, shown: r.shown, asked: r.asked, parameters: r.parameters}
	if !known {
		ask.priority, ask.timeout = eval.High, 0
	}
	return cmp.Or(s.enter(0), ask.room(m, n))
}

// admit decides about a request that was read, and takes what it needs until it is answered. It is called again if the rows are on
// another board than the request said.
func (s *Server) admit(ctx context.Context, r *request, names []string) error {
	m, work := r.served, 0
	switch {
	case m.searches:
		r.visits = cmp.Or(r.visits, m.Visits)
		work = min(r.rows, mcts.AtOnce(max(1, min(m.MaxRows, r.rows)))) * mcts.TreeBytes(r.board, r.visits)
		if most := s.memory.limit() / 2; int64(work) > most {
			return invalid("%d positions of %d visits take %d MiB, more than the %d that a request may have: ask for fewer", r.rows, r.visits, work>>20, most>>20)
		}
	case m.solves():
		work = r.rows * (2*4*r.board.Actions() + 256) // of solveJob.found
	default:
		if r.exact = cmp.Or(r.exact, m.Exact); r.exact > 0 {
			work = r.rows * rowSize(r.board) // of exactStep's batch
		}
	}
	if r.under == nil {
		if err := s.enter(1); err != nil {
			return err
		}
		r.under = s
		if err := r.room(m, r.rows); err != nil {
			return err
		}
	}
	if m.searches && (r.rows >= largeSearch || r.exact > solver.ProbeNodes) && !r.turn {
		select {
		case s.large <- struct{}{}:
			r.turn = true
		case <-ctx.Done():
			return toStatus(fmt.Errorf("search: %w", ctx.Err()))
		}
	}
	more := work + r.cost(names) - r.need
	if err := r.take(more); err != nil {
		return err
	}
	r.need, r.work = r.need+max(more, 0), work
	return nil
}

// slowDown is called before a REST request is refused for lack of room. A client that retries on the same connection before the time of
// Retry-After waits here first. Otherwise a few clients that retry immediately would take the time of others.
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

// largeSearch is the number of positions from which a search is large. A search with probes of more than solver.ProbeNodes is large
// too. At most one for each processor runs at once, and the others wait: more would not be faster, and would delay other requests.
const largeSearch = 256

// cost estimates the bytes that the answer to the request takes: a batch, the outputs' values, and these once more in the form
// in which they are sent.
func (r *request) cost(names []string) int {
	size := rowSize(r.board)
	for _, name := range names {
		size += (1 + max(r.copies, 1)) * outputs[name].room(r.board)
	}
	return r.rows * size
}

// rowSize is the approximate size of a row of a batch in bytes.
func rowSize(b *game.Board) int { return int(unsafe.Sizeof(game.Position{})) + 64 + 4*b.Actions() }

// caller is the client of the request: the holder of a token, or of a certificate, or else an address.
func (r *request) caller(accepted bool) eval.Caller {
	c := eval.Caller{Client: "address " + r.conn.from, Priority: r.priority, Accepted: accepted}
	switch {
	case r.token != nil:
		c.Client, c.Weight = fmt.Sprint("token ", r.token.number), r.token.weight
	case r.shown != "":
		c.Client = "certificate " + r.shown
	}
	return c
}

// deadline is until when the request must be answered.
func (r *request) deadline(m *model) time.Time {
	timeout := m.Timeout
	if r.timeout > 0 {
		timeout = min(timeout, r.timeout)
	}
	return r.asked.Add(timeout)
}

// budget bounds the memory of models and requests: weights, read and decoded messages, searches, and answers that
// clients have not fetched. Memory is taken from the budget before it is allocated. No request waits for it: one that
// does not fit is refused.
//
// A quarter of the budget is reserved for small requests. One address may have half of the budget for large requests, and three
// quarters in all. So small clients are answered while others use all that they may.
type budget struct {
	mu    sync.Mutex
	total int64 // the part of requests, without that of models

	used int64
	high int64            // maximum in use since cooled last reported true
	by   map[string]int64 // address -> bytes
}

// smallRequest is the maximum size of a small request in bytes.
const smallRequest = 256 << 10

func newBudget(total int64) *budget { return &budget{total: total, by: map[string]int64{}} }

// reserve takes n bytes for a model, and twice that until loaded is called, because it is being read. Requests keep least bytes.
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

// limit is the number of bytes of all requests, and inUse the number that they have taken.
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
		return refuse(codes.ResourceExhausted, "the memory for requests is in use: %d of %d MiB; ask again later, or for less", b.used>>20, b.total>>20)
	case int64(n) > from:
		return refuse(codes.ResourceExhausted, "requests from your address hold their share of the memory for requests, %d MiB: ask again when some are answered, or for less", b.by[address]>>20)
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

// force counts n bytes of an address that are already in use, without a limit. A negative n gives bytes back.
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

// cooled reports once after each peak of an eighth or more of the budget that hardly anything is in use any more.
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

// slots bound the number of messages that are read at once, each with room for the longest message. If no slot is free, a
// message waits for one. Known clients are served first, and unknown ones may have half of the slots. Unknown clients are
// served last in, first out, because under overload those that have waited long mostly give up before their turn. While a message
// waits, another one that does not arrive in time loses its slot.
type slots struct {
	n int

	mu      sync.Mutex
	held    []*request // the oldest first
	waiting []*request // in the order in which they came
}

// slot is the slot of a gRPC request.
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
		if !h.slot.known {
			unknown++
		}
	}
	if w.slot.known {
		return len(s.held) < s.n && from < max(1, s.n/4*3)
	}
	return len(s.held) < s.n && from < max(1, s.n/2) && unknown < max(1, s.n/2)
}

// grant gives a slot to a call that waits. mu is held.
func (s *slots) grant(i int) {
	w := s.waiting[i]
	s.waiting = slices.Delete(s.waiting, i, i+1)
	w.slot.since = time.Now()
	s.held = append(s.held, w)
	close(w.slot.granted)
}

// end ends the call that has held its slot for the longest time, if it got the slot before then.
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
		if next = i; w.slot.known {
			break
		}
	}
	if next >= 0 {
		s.grant(next)
	}
}

// notRead is the error for a message that was not read.
func (r *request) notRead(err error) error {
	if r.slot.lost.Load() {
		return refuse(codes.ResourceExhausted, "the message took more than %v to come, and others waited", slowMessage)
	}
	return err
}
