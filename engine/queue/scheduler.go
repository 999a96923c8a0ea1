package queue

import (
	"fmt"
	"math"
	"time"

	"github.com/evald/evald/engine/game"
)

// scheduler makes the decisions of a batcher: which requests are accepted, when a batch is sent, and which rows it contains. It is a state
// machine without goroutines, locks or clock, so its decisions depend only on the calls and their times. The batcher calls it under a lock;
// a simulation (simulate_test.go) calls it in virtual time.
//
// submit adds a request. After every event the caller calls next repeatedly, until it returns no more batches to send now. Then it calls
// wake, which returns the time of the next call of next. Each batch from next is completed by count and end.
type scheduler struct {
	config  Config
	queues  map[game.Rules]*queue // only queues with waiting rows
	clients map[string]*client
	many    int       // number of clients above which forget checks all of them
	turn    float64   // the turn of the client that was last served
	latest  float64   // the latest turn of any client
	weights float64   // sum over the clients with waiting rows
	joined  uint64    // requests so far
	running int       // batches in progress
	closed  bool      // no new requests, and waiting ones are sent without delay
	alarm   time.Time // when the batcher's timer is due, from wake; zero if it is not set
	stats   Stats
	pace    pace
}

// sending is a batch that is being sent.
type sending struct {
	parts  []part
	reason Reason
	queue  *queue // the queue whose rows fill has yet to take; nil once the parts are known
}

// part is the rows of a request in one batch.
type part struct {
	*request
	from, to int
}

func newScheduler(c Config) scheduler {
	return scheduler{config: c, queues: map[game.Rules]*queue{}, clients: map[string]*client{}, many: manyClients}
}

// submit adds a request to its queue, or returns why it is rejected.
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

// refuse returns nil if rows of a caller are accepted; otherwise it returns the reason. It counts
// checks and refusals. If no rows wait, any number is accepted. Otherwise Low rows may fill half of
// the queue, Normal rows three quarters, and High rows all of it. Of that part, each client may fill
// at most half of the room that other clients leave, so there is always room for a client with few
// rows. The predicted wait is compared with the deadline only if a full batch waits, because the
// times of small batches predict little.
func (s *scheduler) refuse(c Caller, rows int, deadline, now time.Time) error {
	s.stats.Checked++
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
		return fmt.Errorf("%w: about %v of %v", ErrLate, wait.Round(time.Millisecond), left.Round(time.Millisecond))
	}
	return nil
}

// hurry moves a queue's due time forward if a request must be sent earlier.
func (s *scheduler) hurry(q *queue, r *request) {
	due, why := r.arrived.Add(s.config.MaxDelay), Delay
	if last := r.deadline.Add(-2 * s.pace.batch); !r.deadline.IsZero() && last.Before(due) {
		due, why = last, Deadline
	}
	if q.due.IsZero() || due.Before(q.due) {
		q.due, q.why = due, why
	}
}

// next starts the next batch if one is due. If no other batch is in progress, fill takes its rows later.
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

// fill takes the rows of a batch that was started because no other batch was in progress. They include rows that have arrived since; there
// may be none, if all were sent or dropped since.
func (s *scheduler) fill(x sending, now time.Time) sending {
	if x.queue.rows > 0 {
		x.reason, _ = s.due(x.queue, now, true)
		x.parts = s.take(x.queue, now)
	}
	x.queue = nil
	return x
}

// pick returns the due queue with the earliest turn, and the reason to send it; nil if none is due.
func (s *scheduler) pick(now time.Time, idle bool) (best *queue, reason Reason) {
	for _, q := range s.queues {
		why, due := s.due(q, now, idle)
		if due && (best == nil || q.shares[0].before(best.shares[0])) {
			best, reason = q, why
		}
	}
	return best, reason
}

// due reports whether a queue should be sent now, and the reason.
func (s *scheduler) due(q *queue, now time.Time, idle bool) (Reason, bool) {
	switch {
	case q.rows >= s.config.MaxRows:
		return Full, true
	case !now.Before(q.due), s.closed:
		return q.why, true
	}
	return Idle, idle
}

// waitingFor returns the earliest turn among the clients that wait in other due queues, except q's first client.
func (s *scheduler) waitingFor(q *queue, now time.Time) float64 {
	turn := math.Inf(1)
	for _, other := range s.queues {
		if _, due := s.due(other, now, false); !due || other == q {
			continue
		}
		for _, of := range other.shares[:min(3, len(other.shares))] { // of a heap, so the two earliest are among these
			if of.client != q.shares[0].client {
				turn = min(turn, of.turn)
			}
		}
	}
	return turn
}

// wake returns when to call next again if no other event comes first. The caller must have called next before. ok is false if no such call
// is needed, or if the timer is already set to an earlier time.
func (s *scheduler) wake() (at time.Time, ok bool) {
	if s.running == s.config.InFlight { // the end of a batch is the next event
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

// take removes the rows of the next batch from a queue. At each turn a client gets an even part of the batch, so that turns come often even
// with many clients.
//
// The batch is the turn of the queue's first client, and clients of other games wait for it. If the first client does not fill the batch,
// it may contain rows of clients whose turns are far later than those of waiting clients; these rows are charged to the first client.
// Otherwise a client could get many batches of one game through a few rows of another.
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

// drop removes the waiting rows of a request, and reports whether there were any. If whole is set, it does so only if all rows of the
// request still wait.
func (s *scheduler) drop(r *request, whole bool) bool {
	if r.share == nil || whole && r.taken > 0 {
		return false
	}
	if r.taken == 0 { // otherwise gather counts it, if its first rows were dropped
		s.stats.Dropped++
	}
	s.leave(r, r.rows-r.taken)
	return true
}

// count adds a sent batch to the pace, and the number of requests that gather dropped to the counts.
func (s *scheduler) count(sent Sent, dropped int) {
	s.stats.Dropped += uint64(dropped)
	if sent.Requests > 0 {
		s.pace.add(sent.Rows, s.running, sent.Took)
	}
}

// end is called when a batch has ended.
func (s *scheduler) end() { s.running-- }

// idle reports whether no row waits and no batch is in progress.
func (s *scheduler) idle() bool { return s.running == 0 && len(s.queues) == 0 }

// pace predicts the time until rows are answered from past batches, with more weight on recent ones.
type pace struct {
	time, rows float64       // decaying sums; time is divided by the number of concurrent batches
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

// left is the predicted time until the given number of rows is answered.
func (p *pace) left(rows int) time.Duration {
	if p.rows == 0 {
		return 0
	}
	return time.Duration(p.time/p.rows*float64(rows)) + p.batch
}
