package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	MaxRows   int           // rows of a full batch; larger requests travel alone. From 1.
	MaxDelay  time.Duration // how long the oldest request waits for others while the backend is busy
	InFlight  int           // batches under way at once, from 1
	MaxQueued int           // rows that may wait; a request that would make them more is refused. 0 is no bound.
	OnBatch   func(Sent)    // unless nil, is called with each merged batch before its callers have their answers; concurrently
}

// Priority of a request. Those of a higher one are sent first, whatever their age.
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

// batcher merges small concurrent requests into larger batches for the backend behind it. Requests of different rules
// never share a batch. A batch is formed by priority, then in order of arrival. It is sent when it is full, when a request
// has waited MaxDelay or is near its deadline, or at once if nothing is under way. Requests cancelled by then are left out.
type batcher struct {
	next   Backend
	config BatcherConfig

	mu      sync.Mutex
	queues  map[game.Rules]*queue
	running int
	closed  bool
	idle    sync.Cond // running == 0 and nothing queued; for Close
	stats   BatcherStats
	waiting [priorities]int // rows, by priority, High first
	pace    pace

	merged sync.Pool // *Batch
}

// request is one call of Submit. mu guards batch while the caller may take it back.
type request struct {
	rows     int
	priority Priority
	arrived  time.Time
	deadline time.Time // zero if there is none
	waiting  bool      // in a queue; guarded by the batcher's mu

	mu     sync.Mutex
	batch  *Batch // nil once the caller is gone
	timing Timing
	done   chan error // receives once, unless the request was dropped
}

// newBatcher batches requests for next. It panics if c is out of range, since no input reaches it.
func newBatcher(next Backend, c BatcherConfig) *batcher {
	if c.MaxRows < 1 || c.InFlight < 1 || c.MaxDelay < 0 || c.MaxQueued < 0 {
		panic(fmt.Sprintf("eval: %+v is not a batcher's config", c))
	}
	b := &batcher{next: next, config: c, queues: map[game.Rules]*queue{}}
	b.idle.L = &b.mu
	b.merged.New = func() any { return new(Batch) }
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
// its deadline. The other half is kept for what cannot be foreseen.
func (b *batcher) Submit(ctx context.Context, batch *Batch, p Priority) (Timing, error) {
	r := &request{batch: batch, rows: len(batch.Pos), priority: p, arrived: time.Now(), done: make(chan error, 1)}
	r.deadline, _ = ctx.Deadline()
	if err := b.enqueue(r); err != nil {
		return Timing{}, err
	}
	select {
	case err := <-r.done:
		return r.timing, err
	case <-ctx.Done():
	}
	b.drop(r, batch.Board.Rules())
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
	if err := b.refuse(r); err != nil {
		b.stats.Refused++
		return err
	}
	rules := r.batch.Board.Rules()
	q := b.queues[rules]
	if q == nil {
		q = &queue{}
		b.queues[rules] = q
	}
	q.levels[r.priority+1] = append(q.levels[r.priority+1], r)
	b.queued(q, r, r.rows)
	b.hurry(rules, q, r)
	b.dispatch()
	return nil
}

// refuse is nil if a request is accepted, or says why not. If no rows wait, a request of any size is accepted. The pace
// counts only if batches are full, since small ones say little about it. b.mu is held.
func (b *batcher) refuse(r *request) error {
	queued := b.stats.Queued
	if b.config.MaxQueued > 0 && queued > 0 && queued+r.rows > b.config.MaxQueued {
		return fmt.Errorf("%w: %d of at most %d", ErrFull, queued, b.config.MaxQueued)
	}
	if r.deadline.IsZero() || queued < b.config.MaxRows {
		return nil
	}
	ahead := r.rows
	for _, rows := range b.waiting[:r.priority+2] {
		ahead += rows
	}
	if wait, left := b.pace.left(ahead), time.Until(r.deadline); wait > left/2 {
		return fmt.Errorf("%w: about %v, of which there are %v", ErrLate, wait.Round(time.Millisecond), left.Round(time.Millisecond))
	}
	return nil
}

// hurry sets the queue's timer so that a request is sent in time. b.mu is held.
func (b *batcher) hurry(rules game.Rules, q *queue, r *request) {
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
	if b.config.MaxDelay == 0 {
		return
	}
	q.timer = time.AfterFunc(time.Until(due), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.queues[rules] == q {
			b.dispatch()
		}
	})
}

// drop removes a request whose caller is gone from its queue, if it is still there.
func (b *batcher) drop(r *request, rules game.Rules) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !r.waiting {
		return
	}
	q := b.queues[rules]
	level := &q.levels[r.priority+1]
	at := slices.Index(*level, r)
	*level = slices.Delete(*level, at, at+1)
	b.queued(q, r, -r.rows)
	b.stats.Dropped++
	if q.rows == 0 {
		b.remove(rules, q)
	}
}

// queued counts the rows of a request that is in its queue now, or is so no longer: then rows is negative. b.mu is held.
func (b *batcher) queued(q *queue, r *request, rows int) {
	r.waiting = rows > 0
	q.rows += rows
	b.stats.Queued += rows
	b.waiting[r.priority+1] += rows
}

// remove ends an empty queue. b.mu is held.
func (b *batcher) remove(rules game.Rules, q *queue) {
	if q.timer != nil {
		q.timer.Stop()
	}
	delete(b.queues, rules)
	b.rest()
}
