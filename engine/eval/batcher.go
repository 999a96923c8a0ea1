package eval

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/evald/evald/engine/game"
)

// Why a batcher refuses a request at once.
var (
	ErrClosed = errors.New("evaluate: batcher is closed")
	ErrFull   = errors.New("evaluate: too many rows wait already")
	ErrLate   = errors.New("evaluate: the rows that wait would take more than half of the time to the deadline")
)

// BatcherConfig says when a merged batch is sent.
type BatcherConfig struct {
	MaxRows   int           // rows of a full batch, from 1; a request that does not fit is split; 1: the backend gets its context
	MaxDelay  time.Duration // how long the oldest request waits for others while the backend is busy
	InFlight  int           // batches under way at once, from 1
	MaxQueued int           // rows that may wait, see refuse; 0 is no bound
	OnBatch   func(Sent)    // unless nil, is called with each merged batch before its callers have their answers; concurrently

	// MaxWait is how long a request may wait for its first batch, by priority, High first; 0: until its deadline.
	MaxWait [priorities]time.Duration
}

// Room is how many rows may wait when a request of that priority comes.
func (c BatcherConfig) Room(p Priority) int { return c.MaxQueued * (3 - int(p)) / 4 }

// Caller is whom requests are for.
type Caller struct {
	Client   string   // while rows wait, clients get equal shares of the batches; those without a name are one client
	Weight   float64  // of the client's share; 0 stands for 1
	Cost     float64  // that each row has of the client's share; 0 stands for 1
	Priority Priority // among the client's own requests
	Accepted bool     // the request is part of a search that was accepted as a whole: it is not refused
}

// Priority of a request. Of one client's requests, those of a higher priority are sent first, whatever their age. Between clients
// it does not count, but for one thing: a Low row takes as much of its client's share as four others.
type Priority int8

// The priorities, the highest first. The zero value is Normal.
const (
	High Priority = iota - 1
	Normal
	Low
	priorities = 3
)

// Why a batch was sent.
type BatchReason uint8

// The reasons. Idle: nothing was under way, so there was nothing to wait for. Deadline: a request had no time left to wait
// for others.
const (
	Full BatchReason = iota
	Delay
	Deadline
	Idle
	BatchReasons // their number
)

func (r BatchReason) String() string { return [...]string{"full", "delay", "deadline", "idle"}[r] }

// Sent is a merged batch that was answered.
type Sent struct {
	Rows, Requests int
	Accepted       int // rows of Callers that set Accepted
	Reason         BatchReason
	Took           time.Duration // of the backend
	Err            error         // of the backend; each of the requests got it
}

// BatcherStats count since the Evaluator was made.
type BatcherStats struct {
	Batches [BatchReasons]uint64 // merged batches sent, by reason
	Sizes   [24]uint64           // merged batches sent, by rows: [0] of 1, [1] of 2, [2] of 3 and 4, [i] of up to 2^i
	Rows    uint64               // rows in them
	Dropped uint64               // requests whose context ended before their batch was formed
	Refused uint64               // requests that were refused at once: ErrFull and ErrLate
	Failed  uint64               // merged batches that ended in an error; each of their requests got it
	Queued  int                  // rows that wait now
}

// Timing is how long a request waited for its batch to be sent, and how long that was evaluated.
type Timing struct{ Queued, Computed time.Duration }

// batcher merges concurrent requests into batches for the backend behind it. Requests of different rules never share a batch.
// The clients whose rows wait take turns (see shares.go), each with its requests by priority, then in order of arrival. A batch is
// sent when it is full, when a request has waited MaxDelay or is near its deadline, or at once if nothing is under way. Rows of
// requests cancelled or expired by then are left out.
type batcher struct {
	next   Backend
	config BatcherConfig

	mu      sync.Mutex
	queues  map[game.Rules]*queue
	clients map[string]*client
	turn    float64 // the turn of the client that was last served
	weights float64 // of the clients whose rows wait
	running int
	closed  bool
	idle    sync.Cond // running == 0 and nothing queued; for Close
	stats   BatcherStats
	pace    pace

	merged *sync.Pool // *Batch; outside, as that of Cache
}

// request is one call of Submit. The batcher's mu guards taken and share; mu guards the fields after it.
type request struct {
	ctx      context.Context
	caller   Caller
	rows     int
	arrived  time.Time
	deadline time.Time // zero if there is none
	taken    int       // rows that are in a batch
	share    *share    // where the others wait; nil if none do

	mu       sync.Mutex
	batch    *Batch // nil once the caller is gone
	answered int    // rows
	timing   Timing
	done     chan error // receives once, unless the request was dropped
}

// newBatcher batches requests for next. It panics if c is out of range, since no input reaches it.
func newBatcher(next Backend, c BatcherConfig) *batcher {
	if c.MaxRows < 1 || c.InFlight < 1 || c.MaxDelay < 0 || c.MaxQueued < 0 {
		panic(fmt.Sprintf("eval: %+v is not a batcher's config", c))
	}
	b := &batcher{next: next, config: c, queues: map[game.Rules]*queue{}, clients: map[string]*client{}}
	b.idle.L = &b.mu
	b.merged = &sync.Pool{New: func() any { return new(Batch) }}
	return b
}

// Stats are the counts so far.
func (b *batcher) Stats() BatcherStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}

// Close refuses new requests, sends those accepted without delay, and returns when they are answered.
func (b *batcher) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.dispatch()
	for b.running > 0 || len(b.queues) > 0 {
		b.idle.Wait()
	}
}

// Submit waits until the batch is answered or ctx ends; from then on the batch is the caller's again. A request that finds
// too many rows waiting is refused at once: with ErrFull, or with ErrLate if they would take more than half of the time to
// its deadline. The other half is kept for what cannot be foreseen. ErrLate is also for requests that have waited MaxWait.
func (b *batcher) Submit(ctx context.Context, batch *Batch, c Caller) (Timing, error) {
	r := &request{ctx: ctx, batch: batch, rows: len(batch.Pos), caller: c, arrived: time.Now(), done: make(chan error, 1)}
	r.deadline, _ = ctx.Deadline()
	if err := b.enqueue(r); err != nil {
		return Timing{}, err
	}
	var tooLong <-chan time.Time
	if most := b.config.MaxWait[c.Priority+1]; most > 0 && !c.Accepted {
		timer := time.NewTimer(most)
		defer timer.Stop()
		tooLong = timer.C
	}
	for {
		select {
		case err := <-r.done:
			if err != nil {
				b.drop(r, false) // what is left of it
			}
			return r.timing, err
		case <-tooLong:
			if b.drop(r, true) {
				return Timing{}, fmt.Errorf("%w: %v is the most that requests of this priority wait", ErrLate, b.config.MaxWait[c.Priority+1])
			}
			tooLong = nil
			continue
		case <-ctx.Done():
		}
		break
	}
	b.drop(r, false)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.done) > 0 {
		return r.timing, <-r.done
	}
	r.batch = nil
	return Timing{}, fmt.Errorf("evaluate: %w", ctx.Err())
}

func (b *batcher) enqueue(r *request) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	if err := b.refuse(r.caller, r.rows, r.deadline); err != nil {
		return err
	}
	rules := r.batch.Board.Rules()
	q := b.queues[rules]
	if q == nil {
		q = &queue{rules: rules}
		b.queues[rules] = q
	}
	b.join(q, r)
	b.hurry(q, r)
	b.dispatch()
	return nil
}

// refuse is nil if rows of a caller are accepted, or says why not, and counts that. If no rows wait, any number is accepted.
// Otherwise Low rows may fill half of the queue and Normal ones three quarters, and each client may fill half of what is left by
// then: so there is always room for a client that asks for little. The pace counts only if batches are full, since small ones say
// little about it. b.mu is held.
func (b *batcher) refuse(c Caller, rows int, deadline time.Time) error {
	queued := b.stats.Queued
	if c.Accepted || queued == 0 {
		return nil
	}
	own, weight, weights := 0, c.weight(), b.weights
	if c := b.clients[c.Client]; c != nil && c.rows > 0 {
		own = c.rows
	} else {
		weights += weight
	}
	if most := b.config.Room(c.Priority); b.config.MaxQueued > 0 && 2*(own+rows) > most-queued+own {
		b.stats.Refused++
		return fmt.Errorf("%w: %d, %d of them yours, of at most %d", ErrFull, queued, own, most)
	}
	if deadline.IsZero() || queued < b.config.MaxRows {
		return nil
	}
	ahead := min(queued+rows, int(float64(own+rows)*weights/weight))
	if wait, left := b.pace.left(ahead), time.Until(deadline); wait > left/2 {
		b.stats.Refused++
		return fmt.Errorf("%w: about %v, of which there are %v", ErrLate, wait.Round(time.Millisecond), left.Round(time.Millisecond))
	}
	return nil
}

// hurry sets the queue's timer so that a request is sent in time. b.mu is held.
func (b *batcher) hurry(q *queue, r *request) {
	due, why := r.arrived.Add(b.config.MaxDelay), Delay
	if last := r.deadline.Add(-2 * b.pace.batch); !r.deadline.IsZero() && last.Before(due) {
		due, why = last, Deadline
	}
	if !q.due.IsZero() && !due.Before(q.due) {
		return
	}
	q.due, q.why = due, why
	if q.timer != nil {
		q.timer.Stop()
	}
	if b.config.MaxDelay == 0 || b.running == 0 { // then no others wait, and dispatch sends this queue at once
		return
	}
	q.timer = time.AfterFunc(time.Until(due), func() { // sends nothing if it fires late: dispatch looks at the time
		b.mu.Lock()
		defer b.mu.Unlock()
		b.dispatch()
	})
}

// drop removes the rows of a request that still wait, and reports whether there were any. If whole is set, it does so only if all
// of them wait.
func (b *batcher) drop(r *request, whole bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.share == nil || whole && r.taken > 0 {
		return false
	}
	b.stats.Dropped++
	b.leave(r, r.rows-r.taken)
	return true
}

// remove ends an empty queue. b.mu is held.
func (b *batcher) remove(q *queue) {
	if q.timer != nil {
		q.timer.Stop()
	}
	delete(b.queues, q.rules)
	b.rest()
}
