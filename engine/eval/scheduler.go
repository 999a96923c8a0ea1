package eval

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/evald/evald/engine/game"
)

// scheduler makes the decisions of a batcher: which requests are accepted, when a batch is sent, and which rows are in it. It is a
// state machine. It has no goroutines, locks or clock, and what it does depends on the calls and their times alone. The batcher
// calls it under its lock, and a simulation (simulate_test.go) in virtual time.
//
// A request joins. Whenever something has happened, next says which batches are sent now, until there is none, and wake when to
// ask again. Each batch that next has started ends with count and end.
type scheduler struct {
	config  BatcherConfig
	queues  map[game.Rules]*queue // of which none is empty
	clients map[string]*client
	many    int       // clients, after which forget looks at all of them
	turn    float64   // the turn of the client that was last served
	latest  float64   // the latest turn of any client
	weights float64   // of the clients whose rows wait
	joined  uint64    // requests so far
	running int       // batches that have begun and not ended
	closed  bool      // no request joins any more, and those that wait are sent without delay
	alarm   time.Time // at which the batcher asks again, as wake has said; zero if it does not
	stats   BatcherStats
	pace    pace
}

// sending is a batch that is being sent.
type sending struct {
	parts  []part
	reason BatchReason
	queue  *queue // that parts are still to be taken from, see fill; nil if they are
}

// part is rows of a request that travel in one batch.
type part struct {
	*request
	from, to int
}

func newScheduler(c BatcherConfig) scheduler {
	return scheduler{config: c, queues: map[game.Rules]*queue{}, clients: map[string]*client{}, many: manyClients}
}

// submit lets a request wait for its batch, or says why not.
func (s *scheduler) submit(r *request, now time.Time) error {
	if s.closed {
		return ErrClosed
	}
	if err := s.refuse(r.caller, r.rows, r.deadline, now); err != nil {
		return err
	}
	rules := r.batch.Board.Rules()
	q := s.queues[rules]
	if q == nil {
		q = &queue{rules: rules}
		s.queues[rules] = q
	}
	r.number = s.joined
	s.joined++
	s.join(q, r)
	s.hurry(q, r)
	return nil
}

// refuse is nil if rows of a caller are accepted, or says why not, and counts that. If no rows wait, any number is accepted.
// Otherwise Low rows may fill half of the queue and Normal ones three quarters, and each client may fill half of what is left by
// then: so there is always room for a client that asks for little. The pace counts only if batches are full, since small ones say
// little about it.
func (s *scheduler) refuse(c Caller, rows int, deadline, now time.Time) error {
	queued := s.stats.Queued
	if c.Accepted || queued == 0 {
		return nil
	}
	own, weight, weights := 0, c.weight(), s.weights
	if c := s.clients[c.Client]; c != nil && c.rows > 0 {
		own = c.rows
	} else {
		weights += weight
	}
	if most := s.config.Room(c.Priority); s.config.MaxQueued > 0 && 2*(own+rows) > most-queued+own {
		s.stats.Refused++
		return fmt.Errorf("%w: %d, %d of them yours, of at most %d", ErrFull, queued, own, most)
	}
	if deadline.IsZero() || queued < s.config.MaxRows {
		return nil
	}
	ahead := min(queued+rows, int(float64(own+rows)*weights/weight))
	if wait, left := s.pace.left(ahead), deadline.Sub(now); wait > left/2 {
		s.stats.Refused++
		return fmt.Errorf("%w: about %v, of which there are %v", ErrLate, wait.Round(time.Millisecond), left.Round(time.Millisecond))
	}
	return nil
}

// hurry lets a queue be sent in time for a request.
func (s *scheduler) hurry(q *queue, r *request) {
	due, why := r.arrived.Add(s.config.MaxDelay), Delay
	if last := r.deadline.Add(-2 * s.pace.batch); !r.deadline.IsZero() && last.Before(due) {
		due, why = last, Deadline
	}
	if q.due.IsZero() || due.Before(q.due) {
		q.due, q.why = due, why
	}
}

// next starts the next batch, if one is to be sent now. If nothing else was under way, its rows are not taken yet: fill does that.
func (s *scheduler) next(now time.Time) (x sending, ok bool) {
	if s.running == s.config.InFlight {
		return sending{}, false
	}
	q, reason := s.pick(now, s.running == 0)
	if q == nil {
		return sending{}, false
	}
	s.running++
	if reason == Idle {
		return sending{queue: q, reason: Idle}, true
	}
	return sending{parts: s.take(q, now), reason: reason}, true
}

// fill takes the rows of a batch that had nothing to wait for. Those that came meanwhile are among them. There is none if all were
// sent or dropped meanwhile.
func (s *scheduler) fill(x sending, now time.Time) sending {
	if x.queue.rows > 0 {
		x.reason, _ = s.due(x.queue, now, true)
		x.parts = s.take(x.queue, now)
	}
	x.queue = nil
	return x
}

// pick is the queue of the client whose turn it is, of those that are due, and why it is sent; nil if none is due.
func (s *scheduler) pick(now time.Time, idle bool) (best *queue, reason BatchReason) {
	for _, q := range s.queues {
		why, due := s.due(q, now, idle)
		if due && (best == nil || q.shares[0].before(best.shares[0])) {
			best, reason = q, why
		}
	}
	return best, reason
}

// due reports whether a queue is to be sent, and why.
func (s *scheduler) due(q *queue, now time.Time, idle bool) (BatchReason, bool) {
	switch {
	case q.rows >= s.config.MaxRows:
		return Full, true
	case !now.Before(q.due), s.closed:
		return q.why, true
	}
	return Idle, idle
}

// waitingFor is the earliest turn of the clients who wait in other queues that are due, but for that of q's first client.
func (s *scheduler) waitingFor(q *queue, now time.Time) float64 {
	turn := math.Inf(1)
	for _, other := range s.queues {
		if _, due := s.due(other, now, false); !due || other == q {
			continue
		}
		for _, of := range other.shares[:min(3, len(other.shares))] { // of a heap: the two earliest are among these
			if of.client != q.shares[0].client {
				turn = min(turn, of.turn)
			}
		}
	}
	return turn
}

// wake is asked after next, and says when to ask next again although nothing else has happened. It is not ok if the batcher need
// not wait for that, or waits already.
func (s *scheduler) wake() (at time.Time, ok bool) {
	if s.running == s.config.InFlight { // the end of a batch comes first
		return at, false
	}
	for _, q := range s.queues {
		if at.IsZero() || q.due.Before(at) {
			at = q.due
		}
	}
	if at.IsZero() || !s.alarm.IsZero() && !at.Before(s.alarm) {
		return at, false
	}
	s.alarm = at
	return at, true
}

// take removes the rows of the next batch from a queue: with each turn a client's even part of a batch, so that turns come often
// where there are many clients.
//
// The batch is the turn of the queue's first client, and clients of other games wait for it. If the first client does not fill it, rows
// of those that are far ahead of the others are at the first client's cost. Otherwise a client could get many batches of one game by the few rows of another.
func (s *scheduler) take(q *queue, now time.Time) (parts []part) {
	first, others := q.shares[0].client, s.waitingFor(q, now)
	for room := s.config.MaxRows; room > 0 && len(q.shares) > 0; {
		of := q.shares[0]
		r, pays := of.first(), of.client
		n := min(r.rows-r.taken, room, max(1, s.config.MaxRows/len(q.shares)))
		if last := len(parts) - 1; last >= 0 && parts[last].request == r {
			parts[last].to += n
		} else {
			parts = append(parts, part{r, r.taken, r.taken + n})
		}
		if of.turn > others+r.caller.cost(s.config.MaxRows)/first.weight {
			pays = first
		} else {
			s.turn = max(s.turn, of.turn)
		}
		s.serve(r, n, pays)
		room -= n
	}
	q.due = time.Time{}
	for _, share := range q.shares {
		for _, level := range share.levels {
			for _, r := range level {
				s.hurry(q, r)
			}
		}
	}
	return parts
}

// drop removes the rows of a request that still wait, and reports whether there were any. If whole is set, it does so only if all
// of them wait.
func (s *scheduler) drop(r *request, whole bool) bool {
	if r.share == nil || whole && r.taken > 0 {
		return false
	}
	if r.taken == 0 { // otherwise gather decides about its first rows
		s.stats.Dropped++
	}
	s.leave(r, r.rows-r.taken)
	return true
}

// count adds a batch to the counts, and the requests that gather has dropped.
func (s *scheduler) count(sent Sent, dropped int) {
	s.stats.Dropped += uint64(dropped)
	if sent.Requests == 0 {
		return
	}
	s.stats.Batches[sent.Reason]++
	s.stats.Sizes[min(bits.Len(uint(sent.Rows-1)), len(s.stats.Sizes)-1)]++
	s.stats.Rows += uint64(sent.Rows)
	s.pace.add(sent.Rows, s.running, sent.Took)
	if sent.Err != nil {
		s.stats.Failed++
	}
}

// end makes room for the next batch.
func (s *scheduler) end() { s.running-- }

// idle reports whether nothing waits and nothing is under way.
func (s *scheduler) idle() bool { return s.running == 0 && len(s.queues) == 0 }

// pace predicts how long rows take, from the batches so far; recent ones count most.
type pace struct {
	time, rows float64       // decaying sums; time is divided by the batches that were under way together
	batch      time.Duration // decaying mean of a batch's time
}

func (p *pace) add(rows, together int, took time.Duration) {
	const keep = 0.9
	p.time = keep*p.time + float64(took)/float64(together)
	p.rows = keep*p.rows + float64(rows)
	if p.batch == 0 {
		p.batch = took
	}
	p.batch += (took - p.batch) / 10
}

// left is the predicted time until that many rows are answered.
func (p *pace) left(rows int) time.Duration {
	if p.rows == 0 {
		return 0
	}
	return time.Duration(p.time/p.rows*float64(rows)) + p.batch
}
