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

// This file is all of admission: it says which requests are refused, which wait and for what, and what each holds meanwhile. A request
// of a connection that is counted (connections.go) passes these points in this order:
//
//	arrive   its headers are here: is its connection one of too many, is its token one that opens the call, does the server drain?
//	acquire  a message of gRPC, which is read whole, waits for a slot
//	take     memory for what is read, decoded and answered; never waits
//	room     the number of its rows is known, over REST before they are read: have the server and the model's queue room for them?
//	admit    it was read: room, a turn if it is a large search, and the memory that it takes until it is answered
//
// When its rows join the queue, the batcher asks once more, by the same rule (eval.Evaluator.Room), since others may have come.

// hold is what a request has taken. computed and end give it back, each part once.
type hold struct {
	bytes      int64 // of the budget, for its address
	need, work int   // of these: what admit took, and the part of that which is used until the answer is there
	slot       slot
	under      *Server // it counts as under way there; nil: it does not
	served     *model  // that answers it
	turn       bool
}

// computed gives back what is not needed any more when the answer is there.
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

// end gives everything back. The answer is on its way, or there is none.
func (r *request) end() {
	r.computed()
	r.give(int(r.bytes))
}

// arrive decides about a call of which nothing was read but its headers.
func (s *Server) arrive(r *request, token string) (err error) {
	if r.conn.spare && r.group != healthCalls {
		return refuse(codes.Unavailable, "too many connections are open, from your address or together: close some, or try again")
	}
	if r.token, err = s.config.Tokens.allow(r.group, token); err == nil && r.group == inferenceCalls {
		err = s.enter(0)
	}
	return err
}

// enter counts n requests more as under way, or refuses them.
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

// room is nil if n rows of the caller have room in the model's queue, by its priority and timeout. Rows that the cache has need no room,
// so that with a cache the batcher alone decides. A search is admitted by its memory, and its leaves are never refused.
func (r *request) room(m *model, n int) error {
	if m.searches || m.cache != nil {
		return nil
	}
	return toStatus(m.evaluator.For(r.caller(false)).Room(n, r.deadline(m)))
}

// foresee decides about a request for n rows that is still being read. Unless its parameters are known, they are taken for the
// best that it could have.
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

// slowDown is called before a client over REST is told that there is no room. If the client was told so before on this connection and
// has not waited as long as it was asked to, it waits here first. Without that, a few clients that retry at once would take the time of
// others.
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

// largeSearch is the number of positions that make a search large. So does a bound of more than solver.ProbeNodes on its probes. There
// are at most as many large searches at once as processors, and the others wait for their turn: more would not be faster, and would
// delay everybody else.
const largeSearch = 256

// cost is about how many bytes it takes to answer the request: a batch, the outputs' values, and these once more in the form
// in which they are sent.
func (r *request) cost(names []string) int {
	size := rowSize(r.board)
	for _, name := range names {
		size += (1 + max(r.copies, 1)) * outputs[name].room(r.board)
	}
	return r.rows * size
}

// rowSize is about how many bytes a row of a batch takes.
func rowSize(b *game.Board) int { return int(unsafe.Sizeof(game.Position{})) + 64 + 4*b.Actions() }

// caller is whom the request is for: the holder of a token, or of a certificate, or else an address.
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

// limit is how many bytes requests may have, and inUse how many they have taken.
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

// end ends the call that has held a slot for the longest time, if it has held it since before then.
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
