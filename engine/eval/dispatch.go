package eval

import (
	"cmp"
	"context"
	"math/bits"
	"runtime"
	"time"

	"github.com/evald/evald/engine/game"
)

// queue holds the requests of one game.
type queue struct {
	levels [priorities][]*request // by priority, High first, each in order of arrival
	rows   int
	timer  *time.Timer
	due    time.Time   // the latest time to send it
	why    BatchReason // of due: Delay or Deadline
}

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

// dispatch sends the batches that are due. b.mu is held.
func (b *batcher) dispatch() {
	for b.running < b.config.InFlight {
		rules, q, reason := b.pick(b.running == 0)
		if q == nil {
			return
		}
		b.running++
		if reason == Idle {
			go b.runIdle()
			continue
		}
		go b.run(b.take(rules, q), reason)
	}
}

// pick is the queue with the most urgent request, and why it is sent; nil if none is due. b.mu is held.
func (b *batcher) pick(idle bool) (rules game.Rules, best *queue, reason BatchReason) {
	now := time.Now()
	for r, q := range b.queues {
		why := q.why
		switch {
		case q.rows >= b.config.MaxRows:
			why = Full
		case !now.Before(q.due), b.closed:
		case idle:
			why = Idle
		default:
			continue
		}
		if best == nil || q.before(best) {
			rules, best, reason = r, q, why
		}
	}
	return rules, best, reason
}

// runIdle sends a batch that has nothing to wait for. It lets callers go first that are about to send a request: otherwise,
// on few cores, the first request would always travel alone.
func (b *batcher) runIdle() {
	runtime.Gosched()
	b.mu.Lock()
	var requests []*request
	rules, q, reason := b.pick(true)
	if q != nil { // else all were sent, or dropped
		requests = b.take(rules, q)
	}
	b.mu.Unlock()
	b.run(requests, reason)
}

// rest wakes Close if nothing is left. b.mu is held.
func (b *batcher) rest() {
	if b.running == 0 && len(b.queues) == 0 {
		b.idle.Broadcast()
	}
}

// first is the request to send first.
func (q *queue) first() *request {
	for _, level := range q.levels {
		if len(level) > 0 {
			return level[0]
		}
	}
	return nil
}

// before orders queues by priority, then age, of their first requests.
func (q *queue) before(other *queue) bool {
	a, b := q.first(), other.first()
	return cmp.Or(cmp.Compare(a.priority, b.priority), a.arrived.Compare(b.arrived)) < 0
}

// take removes the first requests that fit into a batch from the queue. b.mu is held.
func (b *batcher) take(rules game.Rules, q *queue) []*request {
	var requests []*request
	rows := 0
	for r := q.first(); r != nil && (len(requests) == 0 || rows+r.rows <= b.config.MaxRows); r = q.first() {
		q.levels[r.priority+1] = q.levels[r.priority+1][1:]
		b.queued(q, r, -r.rows)
		requests = append(requests, r)
		rows += r.rows
	}
	if q.rows == 0 {
		b.remove(rules, q)
		return requests
	}
	// A new queue, so that a timer of the old one that has fired already does nothing.
	if q.timer != nil {
		q.timer.Stop()
	}
	rest := &queue{levels: q.levels, rows: q.rows}
	b.queues[rules] = rest
	for _, level := range rest.levels {
		for _, r := range level {
			b.hurry(rules, rest, r)
		}
	}
	return requests
}

// run evaluates one merged batch and hands out its answers.
func (b *batcher) run(requests []*request, reason BatchReason) {
	m := b.merged.Get().(*Batch)
	start := time.Now()
	taken := gather(m, requests, start)
	var err error
	if len(taken) > 0 {
		// No request's context is used here: if it ended, the other requests would lose their answers.
		err = b.next.Compute(context.Background(), m)
	}
	took := time.Since(start)
	// Counted first, so that a caller with an answer finds its batch in the counts.
	b.count(Sent{len(m.Pos), len(taken), reason, took, err}, len(requests)-len(taken))
	scatter(m, taken, took, err)
	b.merged.Put(m)

	b.mu.Lock()
	defer b.mu.Unlock()
	b.running--
	b.dispatch()
	b.rest()
}

// count adds a batch, and the requests dropped before it was formed, to the counts.
func (b *batcher) count(s Sent, dropped int) {
	if s.Requests > 0 && b.config.OnBatch != nil {
		b.config.OnBatch(s)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stats.Dropped += uint64(dropped)
	if s.Requests == 0 {
		return
	}
	b.stats.Batches[s.Reason]++
	b.stats.Sizes[min(bits.Len(uint(s.Rows-1)), len(b.stats.Sizes)-1)]++
	b.stats.Rows += uint64(s.Rows)
	b.pace.add(s.Rows, b.running, s.Took)
	if s.Err != nil {
		b.stats.Failed++
	}
}

// gather copies the positions of requests whose callers still wait into m.
func gather(m *Batch, requests []*request, now time.Time) (taken []*request) {
	m.Pos = m.Pos[:0]
	var board *game.Board
	for _, r := range requests {
		r.mu.Lock()
		if r.batch != nil {
			board = r.batch.Board
			m.Pos = append(m.Pos, r.batch.Pos...)
			r.timing.Queued = now.Sub(r.arrived)
			taken = append(taken, r)
		}
		r.mu.Unlock()
	}
	if board != nil {
		m.Reset(board, len(m.Pos))
	}
	return taken
}

// scatter hands the answers, or the error, to the callers that still wait.
func scatter(m *Batch, requests []*request, took time.Duration, err error) {
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
			r.timing.Computed = took
			r.done <- err
		}
		r.mu.Unlock()
	}
}
