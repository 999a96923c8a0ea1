// Package queue merges the batches of concurrent callers into larger ones for a backend. Its Batcher
// is a backend itself. While rows wait, the callers' clients take turns by their weights.
//
// Read batcher.go, scheduler.go (the decisions), shares.go (turns) and request.go (the callers' memory).
//
// # Decisions
//
// An idle batcher lets callers run first: if no batch is in progress, it yields to Go's scheduler before it forms one. Otherwise, on few
// cores, the first of many small requests would always be sent alone.
//
// The batcher's decisions are a state machine without goroutines or clock (scheduler.go). So simulations can replay it from a seed, with
// events in any order.
package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/fault"
)

// Reasons why a Batcher rejects a request at once.
var (
	ErrClosed = errors.New("evaluate: batcher is closed")
	ErrFull   = errors.New("evaluate: too many rows wait already")
	ErrLate   = errors.New("evaluate: the rows that wait would take more than half of the time to the deadline")
)

// Config configures when merged batches are sent, and how many rows may wait.
type Config struct {
	MaxRows   int           // rows of a full batch, from 1; larger requests are split; with 1 the backend gets the request's context
	MaxDelay  time.Duration // maximum time that the oldest request waits for others to fill its batch, while the backend is busy
	InFlight  int           // concurrent batches, from 1
	MaxQueued int           // maximum number of waiting rows, see refuse; 0 is no maximum
	OnBatch   func(Sent)    // if not nil, is called for each merged batch before its callers get their answers; concurrently

	// MaxWait is the maximum time that a request waits for its first batch, by priority, High first. 0 means until its deadline.
	MaxWait [priorities]time.Duration
}

// Room is the number of rows that may wait when a request of that priority arrives.
func (c Config) Room(p Priority) int { return c.MaxQueued * (3 - int(p)) / 4 }

// Caller describes the client of a request and how the request is served.
type Caller struct {
	Client   string   // while rows wait, each client gets a share of the batches by its weight; all callers without a name are one client
	Weight   float64  // of the client's share; 0 means 1
	Cost     float64  // of each row, charged to the client's share; 0 means 1
	Priority Priority // relative to the client's other requests
	Accepted bool     // the request is part of a search that was accepted as a whole, so it is never refused
}

// Priority is the priority of a request among the requests of its client: those of a higher priority are sent first, whatever their age. It
// does not affect other clients, with one exception: a Low row costs as much of its client's share as four others.
type Priority int8

// The priorities, the highest first. The zero value is Normal.
const (
	High Priority = iota - 1
	Normal
	Low
	priorities = 3
)

// Reason is the reason why a batch was sent.
type Reason uint8

// The reasons. Idle: no batch was in progress. Deadline: a request could not wait any longer.
const (
	Full Reason = iota
	Delay
	Deadline
	Idle
	Reasons // number of reasons
)

func (r Reason) String() string { return [...]string{"full", "delay", "deadline", "idle"}[r] }

// Sent describes a merged batch that was answered.
type Sent struct {
	Rows, Requests int
	Accepted       int // rows of requests with Caller.Accepted
	Reason         Reason
	Took           time.Duration // time of the backend's call
	Err            error         // error of the backend's call, returned to each request
}

// Stats are counts of requests since the Batcher was created. Config.OnBatch reports batches.
type Stats struct {
	Dropped uint64 // that ended before their first batch was formed
	Refused uint64 // that were rejected at once: ErrFull and ErrLate
	Checked uint64 // how often room was checked: by Room, and by Submit
	Queued  int    // rows that wait now
}

// Timing is the time that a request waited for its first batch, and the time of its evaluation.
type Timing struct{ Queued, Computed time.Duration }

// Batcher merges concurrent requests into batches for a backend. Requests with different rules never share a batch. Clients with waiting
// rows take turns (see shares.go); each client's requests are sent by priority, then in order of arrival. A batch is sent when it is full,
// when a request has waited MaxDelay or is near its deadline, or at once if no batch is in progress. Rows of requests that were cancelled
// or have expired are omitted.
//
// The scheduler makes these decisions. The batcher adds the lock, the clock, and a goroutine for each batch.
type Batcher struct {
	next   eval.Backend
	mu     sync.Mutex
	decide scheduler
	idle   sync.Cond   // signals decide.idle to Close
	timer  *time.Timer // of decide.wake

	merged *sync.Pool // *eval.Batch; a pointer for the same reason as work of eval.Cache
}

// New returns a Batcher for next. It panics if c is out of range: c never comes from a user's input.
func New(next eval.Backend, c Config) *Batcher {
	if c.MaxRows < 1 || c.InFlight < 1 || c.MaxDelay < 0 || c.MaxQueued < 0 {
		panic(fmt.Sprintf("queue: %+v is not a batcher's config", c))
	}
	b := &Batcher{next: next, decide: newScheduler(c)}
	b.idle.L = &b.mu
	b.merged = &sync.Pool{New: func() any { return new(eval.Batch) }}
	return b
}

// Attributes implements eval.Backend; they are those of the wrapped backend.
func (b *Batcher) Attributes() eval.Attributes { return b.next.Attributes() }

// Compute implements eval.Backend. The batch is a request of the client without a name.
func (b *Batcher) Compute(ctx context.Context, batch *eval.Batch) error {
	_, err := b.Submit(ctx, batch, Caller{})
	return err
}

// Client is a Batcher as a backend whose batches are requests of Caller. If Timing is not nil, each
// batch sets it, and there may be only one batch at a time.
type Client struct {
	*Batcher
	Caller Caller
	Timing *Timing
}

// Compute implements eval.Backend.
func (c *Client) Compute(ctx context.Context, batch *eval.Batch) error {
	t, err := c.Submit(ctx, batch, c.Caller)
	if c.Timing != nil {
		*c.Timing = t
	}
	return err
}

// Stats returns the counts so far.
func (b *Batcher) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.decide.stats
}

// Room returns nil if Submit would accept rows of a caller now, and otherwise the error that Submit
// would return at once; deadline is that of their answers, zero if there is none. Submit decides
// again, because other rows may wait by then.
func (b *Batcher) Room(c Caller, rows int, deadline time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.decide.refuse(c, rows, deadline, time.Now())
}

// Close rejects new requests, sends accepted ones without delay, and returns when they are answered. It does not close the backend.
func (b *Batcher) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.decide.closed = true
	b.dispatch()
	for !b.decide.idle() {
		b.idle.Wait()
	}
	if b.timer != nil {
		b.timer.Stop()
	}
}

// Submit is Compute for a caller, and also returns how long the rows waited, with an error until
// then. It returns when the batch is answered or ctx ends; the batch then belongs to the caller
// again. If too many rows wait, it rejects the request at once: with ErrFull, or with ErrLate if the
// predicted wait exceeds half of the time to the deadline. The other half is a reserve. It also
// returns ErrLate for a request that has waited MaxWait.
func (b *Batcher) Submit(ctx context.Context, batch *eval.Batch, c Caller) (Timing, error) {
	r := newRequest(ctx, batch, c, time.Now())
	if err := b.enqueue(r); err != nil {
		return Timing{}, err
	}
	var tooLong <-chan time.Time
	most := b.decide.config.MaxWait[c.Priority+1]
	if most > 0 && !c.Accepted {
		timer := time.NewTimer(most)
		defer timer.Stop()
		tooLong = timer.C
	}
	for {
		select {
		case err := <-r.done:
			if err != nil {
				b.drop(r, false) // the rows that still wait
			}
			return r.timing, err
		case <-tooLong:
			if b.drop(r, true) {
				return Timing{Queued: most}, fmt.Errorf("%w: %v is the most that requests of this priority wait", ErrLate, most)
			}
			tooLong = nil
		case <-ctx.Done():
			b.drop(r, false)
			return r.giveUp(time.Now())
		}
	}
}

func (b *Batcher) enqueue(r *request) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.decide.submit(r, r.arrived); err != nil {
		return err
	}
	b.dispatch()
	return nil
}

func (b *Batcher) drop(r *request, whole bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	dropped := b.decide.drop(r, whole)
	b.rest()
	return dropped
}

// rest wakes Close if no work is left. b.mu is held.
func (b *Batcher) rest() {
	if b.decide.idle() {
		b.idle.Broadcast()
	}
}

// dispatch sends the due batches, and sets the timer for the next one. b.mu is held.
func (b *Batcher) dispatch() {
	for now := time.Now(); ; {
		x, ok := b.decide.next(now)
		if !ok {
			break
		}
		go b.run(x)
	}
	at, ok := b.decide.wake()
	switch {
	case !ok:
	case b.timer == nil:
		b.timer = time.AfterFunc(time.Until(at), b.ring)
	default:
		b.timer.Reset(time.Until(at))
	}
}

// ring handles the timer: it runs at the time that wake returned, or later.
func (b *Batcher) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.decide.alarm = time.Time{}
	b.dispatch()
}

// run evaluates one merged batch and distributes its answers. A panic becomes the error of its
// requests.
func (b *Batcher) run(x sending) {
	defer func() {
		if value := recover(); value != nil {
			fail(x.parts, fault.New(value))
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.decide.end()
		b.dispatch()
		b.rest()
	}()
	if x.queue != nil {
		runtime.Gosched() // callers that are about to send a request run first; otherwise, on few cores, the first request would always be sent alone
		x = b.fill(x)
	}
	m := b.merged.Get().(*eval.Batch)
	start := time.Now()
	taken, dropped := gather(m, x.parts, start)
	var err error
	ctx := context.Background() // not a request's context: if it ended, the other requests would get no answers
	if len(taken) > 0 {
		if b.decide.config.MaxRows == 1 {
			ctx = taken[0].ctx // the only request
		}
		err = b.compute(ctx, m)
	}
	sent := Sent{Rows: len(m.Pos), Requests: len(taken), Reason: x.reason, Took: time.Since(start), Err: err}
	for _, p := range taken {
		if p.caller.Accepted {
			sent.Accepted += p.to - p.from
		}
	}
	// The batch is counted first, so that a caller that has its answer also finds its batch in the counts.
	if onBatch := b.decide.config.OnBatch; onBatch != nil && len(taken) > 0 {
		onBatch(sent)
	}
	b.count(sent, dropped)
	scatter(m, taken, err, time.Now())
	b.merged.Put(m)
}

// compute calls the backend. A panic becomes its error.
func (b *Batcher) compute(ctx context.Context, m *eval.Batch) (err error) {
	defer fault.Catch(&err)
	return b.next.Compute(ctx, m)
}

func (b *Batcher) fill(x sending) sending {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.decide.fill(x, time.Now())
}

func (b *Batcher) count(sent Sent, dropped int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.decide.count(sent, dropped)
}
