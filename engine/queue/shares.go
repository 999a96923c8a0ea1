package queue

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/evald/evald/engine/game"
)

// Clients with waiting rows take turns by start-time fair queueing (Goyal, Vin and Cheng, 1996). The client with the earliest turn is
// served, and its turn advances by the number of its rows divided by its weight. The turn of a new client begins one row before that of the
// client served last. So its first row is served next, and a client accumulates no turns while it is absent.
//
// So while a client has rows waiting, any other client of the same game gets at most as many rows, in proportion to their weights, plus a
// batch of each and two rows. With several games, a client that could always fill a batch gets its share of all rows, up to a few batches.

// client is a client that has waiting rows, or that has had more than its share of the batches.
type client struct {
	name   string
	turn   float64
	weight float64
	rows   int      // waiting rows
	shares []*share // one in each queue where it has waiting rows
}

// share is the waiting requests of one client in one queue.
type share struct {
	*client
	queue  *queue
	levels [priorities][]*request // High first, each in order of arrival
	rows   int
	at     int // index in the queue's heap
}

// queue holds the waiting requests of one game. It is a heap (container/heap) of the clients' shares by their turns.
type queue struct {
	rules  game.Rules
	shares []*share
	rows   int
	due    time.Time // the latest time to send it
	why    Reason    // the reason of due: Delay or Deadline
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

// before orders shares by their clients' turns, then by priority and age of their first requests.
func (s *share) before(other *share) bool {
	if s.turn != other.turn {
		return s.turn < other.turn
	}
	a, b := s.first(), other.first()
	return cmp.Or(cmp.Compare(a.caller.Priority, b.caller.Priority), cmp.Compare(a.number, b.number)) < 0
}

func (s *share) first() *request {
	for _, level := range s.levels {
		if len(level) > 0 {
			return level[0]
		}
	}
	return nil
}

func (c Caller) weight() float64 { return cmp.Or(c.Weight, 1) }

// cost is the charge for n rows to the client's share.
func (c Caller) cost(n int) float64 {
	cost := float64(n) * cmp.Or(c.Cost, 1)
	if c.Priority == Low {
		cost *= 4
	}
	return cost
}

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

// leave takes n rows of a request out of its queue. It removes an empty request from its share, an empty share from its queue, and an empty
// queue from the scheduler.
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

// serve takes n rows of a request, and advances the turn of the client that pays for them.
func (s *scheduler) serve(r *request, n int, pays *client) {
	pays.turn += r.caller.cost(n) / pays.weight
	s.latest = max(s.latest, pays.turn)
	for _, of := range pays.shares {
		if of != r.share { // leave moves r.share
			heap.Fix(of.queue, of.at)
		}
	}
	s.leave(r, n)
}

// manyClients is the number of clients above which a scheduler forgets those that have had no more than their share.
const manyClients = 1024

// forget is called when a client has no rows left. If no client has rows, all become equal again; they are removed only if there are many,
// because clients that return soon would have to be allocated again. Otherwise this client is removed, unless it has had more than its
// share. When there are many clients, all clients without rows are checked again.
func (s *scheduler) forget(c *client) {
	switch {
	case len(s.queues) == 0:
		s.turn, s.weights = s.latest+1, 0 // reset exactly: sums of fractions have rounding errors
		if len(s.clients) > manyClients {
			clear(s.clients)
		}
	case len(s.clients) > s.many:
		for name, c := range s.clients {
			if c.rows == 0 && c.turn < s.turn-1 {
				delete(s.clients, name)
			}
		}
		s.many = max(manyClients, 2*len(s.clients)) // amortizes the checks over many requests
	case c.turn < s.turn-1:
		delete(s.clients, c.name)
	}
}
