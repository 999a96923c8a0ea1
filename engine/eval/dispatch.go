package eval

import (
	"context"
	"math/bits"
	"runtime"
	"time"

	"github.com/evald/evald/engine/game"
)

// part is rows of a request that travel in one batch.
type part struct {
	*request
	from, to int
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
		q, reason := b.pick(b.running == 0)
		if q == nil {
			return
		}
		b.running++
		if reason == Idle {
			go b.runIdle(q)
			continue
		}
		go b.run(b.take(q), reason)
	}
}

// pick is the queue of the client whose turn it is, of those that are due, and why it is sent; nil if none is due. b.mu is held.
func (b *batcher) pick(idle bool) (best *queue, reason BatchReason) {
	now := time.Now()
	for _, q := range b.queues {
		why, due := b.due(q, now, idle)
		if due && (best == nil || q.shares[0].before(best.shares[0])) {
			best, reason = q, why
		}
	}
	return best, reason
}

// due reports whether a queue is to be sent, and why. b.mu is held.
func (b *batcher) due(q *queue, now time.Time, idle bool) (BatchReason, bool) {
	switch {
	case q.rows >= b.config.MaxRows:
		return Full, true
	case !now.Before(q.due), b.closed:
		return q.why, true
	}
	return Idle, idle
}

// runIdle sends a batch of a queue that has nothing to wait for. It lets callers go first that are about to send a request: otherwise,
// on few cores, the first request would always travel alone.
func (b *batcher) runIdle(q *queue) {
	runtime.Gosched()
	b.mu.Lock()
	var parts []part
	reason, _ := b.due(q, time.Now(), true)
	if q.rows == 0 { // its requests were sent, or dropped
		q, reason = b.pick(true)
	}
	if q != nil {
		parts = b.take(q)
	}
	b.mu.Unlock()
	b.run(parts, reason)
}

// rest wakes Close if nothing is left. b.mu is held.
func (b *batcher) rest() {
	if b.running == 0 && len(b.queues) == 0 {
		b.idle.Broadcast()
	}
}

// take removes the rows of the next batch from a queue: with each turn a client's even part of a batch, so that turns come often
// where there are many clients. b.mu is held.
func (b *batcher) take(q *queue) (parts []part) {
	for room := b.config.MaxRows; room > 0 && len(q.shares) > 0; {
		r := q.shares[0].first()
		n := min(r.rows-r.taken, room, max(1, b.config.MaxRows/len(q.shares)))
		if last := len(parts) - 1; last >= 0 && parts[last].request == r {
			parts[last].to += n
		} else {
			parts = append(parts, part{r, r.taken, r.taken + n})
		}
		b.serve(r, n)
		room -= n
	}
	q.due = time.Time{}
	for _, s := range q.shares {
		for _, level := range s.levels {
			for _, r := range level {
				b.hurry(q, r)
			}
		}
	}
	return parts
}

// run evaluates one merged batch and hands out its answers.
func (b *batcher) run(parts []part, reason BatchReason) {
	m := b.merged.Get().(*Batch)
	start := time.Now()
	taken := gather(m, parts, start)
	var err error
	ctx := context.Background() // and no request's: if it ended, the other requests would lose their answers
	if len(taken) > 0 {
		if b.config.MaxRows == 1 {
			ctx = taken[0].ctx // there are no others
		}
		err = b.next.Compute(ctx, m)
	}
	sent := Sent{Rows: len(m.Pos), Requests: len(taken), Reason: reason, Took: time.Since(start), Err: err}
	for _, p := range taken {
		if p.caller.Accepted {
			sent.Accepted += p.to - p.from
		}
	}
	// Counted first, so that a caller with an answer finds its batch in the counts.
	b.count(sent, len(parts)-len(taken))
	scatter(m, taken, err)
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
func gather(m *Batch, parts []part, now time.Time) (taken []part) {
	m.Pos = m.Pos[:0]
	var board *game.Board
	for _, p := range parts {
		p.mu.Lock()
		if late := !p.deadline.IsZero() && !now.Before(p.deadline); p.batch != nil && !late && p.ctx.Err() == nil {
			board = p.batch.Board
			m.Pos = append(m.Pos, p.batch.Pos[p.from:p.to]...)
			if p.from == 0 {
				p.timing.Queued = now.Sub(p.arrived)
			}
			taken = append(taken, p)
		}
		p.mu.Unlock()
	}
	if board != nil {
		m.Reset(board, len(m.Pos))
	}
	return taken
}

// scatter hands the answers, or the error, to the callers that still wait. A request ends with its last row, or an error.
func scatter(m *Batch, parts []part, err error) {
	at := 0
	now := time.Now()
	for _, p := range parts {
		n := p.to - p.from
		from := m.Slice(at, at+n)
		at += n
		p.mu.Lock()
		if p.batch != nil {
			if err == nil {
				to := p.batch.Slice(p.from, p.to)
				copy(to.WDL, from.WDL)
				copy(to.Policy, from.Policy)
				copy(to.Source, from.Source)
			}
			if p.answered += n; p.answered == p.rows || err != nil {
				p.timing.Computed = now.Sub(p.arrived) - p.timing.Queued
				p.batch = nil
				p.done <- err
			}
		}
		p.mu.Unlock()
	}
}
