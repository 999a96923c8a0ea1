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
//
// So while a client has rows waiting, no other one of the same game gets more than it, by their weights, but for a batch of each and two
// rows. If there are several games, a client that could always fill a batch gets its share of all rows, but for a few batches.

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
	return cmp.Or(cmp.Compare(a.caller.Priority, b.caller.Priority), cmp.Compare(a.number, b.number)) < 0
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

// cost is what n rows take of the client's share.
func (c Caller) cost(n int) float64 {
	cost := float64(n) * cmp.Or(c.Cost, 1)
	if c.Priority == Low {
		cost *= 4
	}
	return cost
}

// join puts a request into a queue.
func (s *scheduler) join(q *queue, r *request) {
	c := s.clients[r.caller.Client]
	if c == nil {
		c = &client{name: r.caller.Client}
		s.clients[c.name] = c
	}
	if c.rows == 0 {
		c.weight, c.turn = r.caller.weight(), max(c.turn, s.turn-1)
		s.weights += c.weight
	}
	i := slices.IndexFunc(c.shares, func(of *share) bool { return of.queue == q })
	if i < 0 {
		i = len(c.shares)
		c.shares = append(c.shares, &share{client: c, queue: q})
	}
	of := c.shares[i]
	r.share = of
	level := &of.levels[r.caller.Priority+1]
	*level = append(*level, r)
	of.rows, c.rows, q.rows, s.stats.Queued = of.rows+r.rows, c.rows+r.rows, q.rows+r.rows, s.stats.Queued+r.rows
	if of.rows == r.rows {
		heap.Push(q, of)
	} else {
		heap.Fix(q, of.at)
	}
}

// leave takes n rows of a request out of its queue. If none is left there, the request is no longer in its share, nor an empty
// share in its queue, nor an empty queue in the scheduler.
func (s *scheduler) leave(r *request, n int) {
	of := r.share
	q, c := of.queue, of.client
	r.taken += n
	of.rows, c.rows, q.rows, s.stats.Queued = of.rows-n, c.rows-n, q.rows-n, s.stats.Queued-n
	if r.taken == r.rows {
		level := &of.levels[r.caller.Priority+1]
		if (*level)[0] == r {
			*level = (*level)[1:]
		} else {
			i := slices.Index(*level, r)
			*level = slices.Delete(*level, i, i+1)
		}
		r.share = nil
	}
	if of.rows == 0 {
		heap.Remove(q, of.at)
		i := slices.Index(c.shares, of)
		c.shares = slices.Delete(c.shares, i, i+1)
	} else {
		heap.Fix(q, of.at)
	}
	if q.rows == 0 {
		delete(s.queues, q.rules)
	}
	if c.rows == 0 {
		s.weights -= c.weight
		s.forget(c)
	}
}

// serve takes n rows of a request, and moves the turn on of the client that pays for them.
func (s *scheduler) serve(r *request, n int, pays *client) {
	pays.turn += r.caller.cost(n) / pays.weight
	s.latest = max(s.latest, pays.turn)
	for _, of := range pays.shares {
		if of != r.share { // leave moves that one
			heap.Fix(of.queue, of.at)
		}
	}
	s.leave(r, n)
}

// manyClients is how many clients a scheduler knows before it forgets those that have had no more than others.
const manyClients = 1024

// forget is called when a client has no rows. When nothing waits, all clients are equal again, and they are removed if there are
// many: those that come back soon are not made anew. Otherwise the client is removed, unless it has had more than others. Those
// that had are looked at again when there are many.
func (s *scheduler) forget(c *client) {
	switch {
	case len(s.queues) == 0:
		s.turn, s.weights = s.latest+1, 0 // sums of fractions are not exact
		if len(s.clients) > manyClients {
			clear(s.clients)
		}
	case len(s.clients) > s.many:
		for name, c := range s.clients {
			if c.rows == 0 && c.turn < s.turn-1 {
				delete(s.clients, name)
			}
		}
		s.many = max(manyClients, 2*len(s.clients)) // so that looking costs little for each request
	case c.turn < s.turn-1:
		delete(s.clients, c.name)
	}
}
