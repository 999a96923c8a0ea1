package eval

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/evald/evald/engine/game"
)

// ErrClosed answers requests that come after Close.
var ErrClosed = errors.New("evaluate: batcher is closed")

// BatcherConfig says when a merged batch is sent.
type BatcherConfig struct {
	MaxRows  int           // rows of a full batch; larger requests travel alone. From 1.
	MaxDelay time.Duration // how long the oldest request waits for company while the evaluator is busy
	InFlight int           // batches under way at once, from 1
}

// Why a batch was sent.
type BatchReason uint8

// The reasons. Idle: nothing was under way, so there was nothing to wait for.
const (
	Full BatchReason = iota
	Delay
	Idle
	reasons
)

func (r BatchReason) String() string { return [...]string{"full", "delay", "idle"}[r] }

// BatcherStats count since the Batcher was made.
type BatcherStats struct {
	Batches [reasons]uint64 // merged batches sent, by reason
	Rows    uint64          // rows in them
	Dropped uint64          // requests whose context ended before their batch was formed
	Failed  uint64          // merged batches that ended in an error, which each of their requests got
}

// Batcher merges small concurrent requests into larger batches for the evaluator behind it. Requests of different
// rules never share a batch. A batch is formed in order of arrival and sent when it is full, when its oldest request
// has waited MaxDelay, or at once while nothing is under way; requests cancelled by then are left out.
type Batcher struct {
	next   Evaluator
	config BatcherConfig

	mu      sync.Mutex
	queues  map[game.Rules]*queue
	running int
	closed  bool
	idle    sync.Cond // running == 0 and nothing queued; for Close
	stats   BatcherStats

	merged sync.Pool // *Batch
}

// queue holds the requests of one game in order of arrival.
type queue struct {
	waiting []*request
	rows    int // of all waiting, those cancelled included
	timer   *time.Timer
	overdue bool // the oldest has waited MaxDelay
}

// request is one call of Evaluate. mu guards batch while the caller may take it back.
type request struct {
	mu        sync.Mutex
	batch     *Batch // nil once the caller is gone
	rows      int
	delivered bool
	done      chan error // receives once, unless the request was dropped
}

// NewBatcher wraps next. It panics on a config out of range, since that is never input.
func NewBatcher(next Evaluator, c BatcherConfig) *Batcher {
	if c.MaxRows < 1 || c.InFlight < 1 || c.MaxDelay < 0 {
		panic(fmt.Sprintf("eval: %+v is not a batcher's config", c))
	}
	b := &Batcher{next: next, config: c, queues: map[game.Rules]*queue{}}
	b.idle.L = &b.mu
	b.merged.New = func() any { return new(Batch) }
	return b
}

// Stats are the counts so far.
func (b *Batcher) Stats() BatcherStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}

// Close refuses new requests, waits for those accepted, and returns.
func (b *Batcher) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for b.running > 0 || len(b.queues) > 0 {
		b.idle.Wait()
	}
}

// Evaluate waits until the request's batch was answered, or ctx ends; then the batch is the caller's again at once.
func (b *Batcher) Evaluate(ctx context.Context, batch *Batch) error {
	if err := batch.Ready(ctx); err != nil {
		return err
	}
	if len(batch.Pos) == 0 {
		return nil
	}
	r := &request{batch: batch, rows: len(batch.Pos), done: make(chan error, 1)}
	if err := b.enqueue(r); err != nil {
		return err
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.delivered {
			return <-r.done
		}
		r.batch = nil
		return fmt.Errorf("evaluate: %w", ctx.Err())
	}
}

func (b *Batcher) enqueue(r *request) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	rules := r.batch.Board.Rules()
	q := b.queues[rules]
	if q == nil {
		q = &queue{}
		b.queues[rules] = q
	}
	q.waiting = append(q.waiting, r)
	q.rows += r.rows
	if len(q.waiting) == 1 {
		b.arm(rules, q)
	}
	b.dispatch()
	return nil
}

// arm starts the clock of the oldest request. b.mu is held.
func (b *Batcher) arm(rules game.Rules, q *queue) {
	q.overdue = b.config.MaxDelay == 0
	if q.overdue {
		return
	}
	q.timer = time.AfterFunc(b.config.MaxDelay, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.queues[rules] == q {
			q.overdue = true
			b.dispatch()
		}
	})
}

// dispatch sends what may be sent. b.mu is held.
func (b *Batcher) dispatch() {
	for b.running < b.config.InFlight {
		sent := false
		for rules, q := range b.queues {
			reason := Idle
			switch {
			case q.rows >= b.config.MaxRows:
				reason = Full
			case q.overdue:
				reason = Delay
			case b.running > 0:
				continue
			}
			b.send(rules, q, reason)
			sent = true
			break
		}
		if !sent {
			return
		}
	}
}

// send takes the oldest requests that fit a batch off the queue and starts it. b.mu is held.
func (b *Batcher) send(rules game.Rules, q *queue, reason BatchReason) {
	n, rows := 0, 0
	for n < len(q.waiting) && (n == 0 || rows+q.waiting[n].rows <= b.config.MaxRows) {
		rows += q.waiting[n].rows
		n++
	}
	requests := q.waiting[:n:n]
	if q.timer != nil {
		q.timer.Stop()
	}
	if n == len(q.waiting) {
		delete(b.queues, rules)
	} else {
		// A fresh queue, so that a timer that fired meanwhile does not find it.
		rest := &queue{waiting: q.waiting[n:], rows: q.rows - rows}
		b.queues[rules] = rest
		b.arm(rules, rest)
	}
	b.running++
	go b.run(requests, reason)
}

// run evaluates one merged batch and hands out its answers.
func (b *Batcher) run(requests []*request, reason BatchReason) {
	m := b.merged.Get().(*Batch)
	taken, dropped := gather(m, requests)
	var err error
	if len(taken) > 0 {
		// The requests' own contexts end on their own; one that ends must not take the others' answers along.
		err = b.next.Evaluate(context.Background(), m)
	}
	scatter(m, taken, err)
	n := len(m.Pos)
	b.merged.Put(m)

	b.mu.Lock()
	defer b.mu.Unlock()
	b.running--
	b.stats.Dropped += uint64(dropped)
	if len(taken) > 0 {
		b.stats.Batches[reason]++
		b.stats.Rows += uint64(n)
		if err != nil {
			b.stats.Failed++
		}
	}
	b.dispatch()
	if b.running == 0 && len(b.queues) == 0 {
		b.idle.Broadcast()
	}
}

// gather copies the positions of requests whose callers still wait into m.
func gather(m *Batch, requests []*request) (taken []*request, dropped int) {
	m.Pos = m.Pos[:0]
	var board *game.Board
	taken = requests[:0]
	for _, r := range requests {
		r.mu.Lock()
		if r.batch == nil {
			dropped++
		} else {
			board = r.batch.Board
			m.Pos = append(m.Pos, r.batch.Pos...)
			taken = append(taken, r)
		}
		r.mu.Unlock()
	}
	if board != nil {
		m.Reset(board, len(m.Pos))
	}
	return taken, dropped
}

// scatter hands the answers, or the error, to the callers that still wait.
func scatter(m *Batch, requests []*request, err error) {
	at := 0
	for _, r := range requests {
		from := m.Slice(at, at+r.rows)
		at += r.rows
		r.mu.Lock()
		if r.batch != nil {
			if err == nil {
				copy(r.batch.WDL, from.WDL)
				copy(r.batch.Policy, from.Policy)
				copy(r.batch.Source, from.Source)
			}
			r.delivered = true
			r.done <- err
		}
		r.mu.Unlock()
	}
}
