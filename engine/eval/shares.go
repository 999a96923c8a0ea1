package eval

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/evald/evald/engine/game"
)

// Clients whose rows wait take turns as in start-time fair queueing (Goyal, Vin and Cheng, 1996): the client with the earliest
// turn is served, and its turn moves on by its rows, divided by its weight. A client that comes anew gets a turn one row before
// that of the one that was served last: so its first row is served next, and nobody collects turns while away.

// client is one that has rows waiting, or has had more of the batches than others.
type client struct {
	name   string
	turn   float64
	weight float64
	rows   int      // that wait
	shares []*share // one in each queue where rows of it wait
}

// share is what one client has waiting in one queue.
type share struct {
	*client
	queue  *queue
	levels [priorities][]*request // High first, each in order of arrival
	rows   int
	at     int // its place in the queue
}

// queue holds what waits for one game. It is a heap (container/heap) of the clients' shares by their turns.
type queue struct {
	rules  game.Rules
	shares []*share
	rows   int
	timer  *time.Timer
	due    time.Time   // the latest time to send it
	why    BatchReason // of due: Delay or Deadline
}

func (q *queue) Len() int           { return len(q.shares) }
func (q *queue) Less(i, j int) bool { return q.shares[i].before(q.shares[j]) }
func (q *queue) Swap(i, j int) {
	q.shares[i], q.shares[j] = q.shares[j], q.shares[i]
	q.shares[i].at, q.shares[j].at = i, j
}

func (q *queue) Push(x any) {
	s := x.(*share)
	s.at = len(q.shares)
	q.shares = append(q.shares, s)
}

func (q *queue) Pop() any {
	last := len(q.shares) - 1
	s := q.shares[last]
	q.shares = q.shares[:last]
	return s
}

// before orders shares by their clients' turns, then by the priority and the age of their first requests.
func (s *share) before(other *share) bool {
	if s.turn != other.turn {
		return s.turn < other.turn
	}
	a, b := s.first(), other.first()
	return cmp.Or(cmp.Compare(a.caller.Priority, b.caller.Priority), a.arrived.Compare(b.arrived)) < 0
}

// first is the request to send first.
func (s *share) first() *request {
	for _, level := range s.levels {
		if len(level) > 0 {
			return level[0]
		}
	}
	return nil
}

func (c Caller) weight() float64 { return cmp.Or(c.Weight, 1) }

// join puts a request into a queue. b.mu is held.
func (b *batcher) join(q *queue, r *request) {
	c := b.clients[r.caller.Client]
	if c == nil {
		c = &client{name: r.caller.Client}
		b.clients[c.name] = c
	}
	if c.rows == 0 {
		c.weight, c.turn = r.caller.weight(), max(c.turn, b.turn-1)
		b.weights += c.weight
	}
	i := slices.IndexFunc(c.shares, func(s *share) bool { return s.queue == q })
	if i < 0 {
		i = len(c.shares)
		c.shares = append(c.shares, &share{client: c, queue: q})
	}
	s := c.shares[i]
	r.share = s
	level := &s.levels[r.caller.Priority+1]
	*level = append(*level, r)
	s.rows, c.rows, q.rows, b.stats.Queued = s.rows+r.rows, c.rows+r.rows, q.rows+r.rows, b.stats.Queued+r.rows
	if s.rows == r.rows {
		heap.Push(q, s)
	} else {
		heap.Fix(q, s.at)
	}
}

// leave takes n rows of a request out of its queue. If none is left there, the request is no longer in its share, nor an empty
// share in its queue, nor an empty queue in the batcher. b.mu is held.
func (b *batcher) leave(r *request, n int) {
	s := r.share
	q, c := s.queue, s.client
	r.taken += n
	s.rows, c.rows, q.rows, b.stats.Queued = s.rows-n, c.rows-n, q.rows-n, b.stats.Queued-n
	if r.taken == r.rows {
		level := &s.levels[r.caller.Priority+1]
		if (*level)[0] == r {
			*level = (*level)[1:]
		} else {
			i := slices.Index(*level, r)
			*level = slices.Delete(*level, i, i+1)
		}
		r.share = nil
	}
	if s.rows == 0 {
		heap.Remove(q, s.at)
		i := slices.Index(c.shares, s)
		c.shares = slices.Delete(c.shares, i, i+1)
	} else {
		heap.Fix(q, s.at)
	}
	if c.rows == 0 {
		b.weights -= c.weight
		b.forget(c)
	}
	if q.rows == 0 {
		b.remove(q)
	}
}

// serve takes n rows of a client's request and moves its turn on. b.mu is held.
func (b *batcher) serve(r *request, n int) {
	c, cost := r.share.client, float64(n)*cmp.Or(r.caller.Cost, 1)
	if r.caller.Priority == Low {
		cost *= 4
	}
	b.turn = max(b.turn, c.turn)
	c.turn += cost / c.weight
	for _, s := range c.shares {
		if s != r.share { // leave moves that one
			heap.Fix(s.queue, s.at)
		}
	}
	b.leave(r, n)
}

// forget removes a client without rows, unless it has had more than others. Those that had are looked at again when there
// are many. b.mu is held.
func (b *batcher) forget(c *client) {
	switch {
	case len(b.queues) == 0 || len(b.clients) > 1024:
		for name, c := range b.clients {
			if c.rows == 0 && (c.turn < b.turn-1 || len(b.queues) == 0) {
				delete(b.clients, name)
			}
		}
	case c.turn < b.turn-1:
		delete(b.clients, c.name)
	}
}
