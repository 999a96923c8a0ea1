package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// request is one call of Submit. The scheduler owns taken, number and share; the fields below mu are guarded by it.
type request struct {
	ctx      context.Context
	caller   Caller
	rows     int
	arrived  time.Time
	deadline time.Time // zero if there is none
	number   uint64    // sequence number in the order of submit
	taken    int       // rows that are already in a batch
	share    *share    // holds the other rows, which wait; nil if none do

	mu       sync.Mutex
	batch    *eval.Batch // nil after the caller has left
	answered int         // rows with answers
	timing   Timing
	done     chan error // receives once, unless the request was dropped
}

func newRequest(ctx context.Context, b *eval.Batch, c Caller, now time.Time) *request {
	r := &request{ctx: ctx, batch: b, rows: len(b.Pos), caller: c, arrived: now, done: make(chan error, 1)}
	r.deadline, _ = ctx.Deadline()
	return r
}

// giveUp ends a request whose context has ended by now. If the request was answered at the same moment, giveUp returns the answer.
func (r *request) giveUp(now time.Time) (Timing, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.done) > 0 {
		return r.timing, <-r.done
	}
	r.batch = nil
	if r.timing.Queued == 0 { // no batch has its rows
		r.timing.Queued = now.Sub(r.arrived)
	}
	r.timing.Computed = now.Sub(r.arrived) - r.timing.Queued
	return r.timing, fmt.Errorf("evaluate: %w", r.ctx.Err())
}

// gather copies into m the positions of requests whose callers still wait. Of the other requests, it counts those without rows in an
// earlier batch.
func gather(m *eval.Batch, parts []part, now time.Time) (taken []part, dropped int) {
	m.Pos = m.Pos[:0]
	var board *game.Board
	for _, p := range parts {
		if b := p.gather(m, now); b != nil {
			board = b
			taken = append(taken, p)
		} else if p.from == 0 {
			dropped++
		}
	}
	if board != nil {
		m.Reset(board, len(m.Pos))
	}
	return taken, dropped
}

// gather appends the part's positions to those of m and returns their board, or nil if the caller
// does not wait any more.
func (p part) gather(m *eval.Batch, now time.Time) *game.Board {
	p.mu.Lock()
	defer p.mu.Unlock()
	if late := !p.deadline.IsZero() && !now.Before(p.deadline); p.batch == nil || late || p.ctx.Err() != nil {
		return nil
	}
	m.Pos = append(m.Pos, p.batch.Pos[p.from:p.to]...)
	if p.from == 0 {
		p.timing.Queued = now.Sub(p.arrived)
	}
	return p.batch.Board
}

// scatter copies the answers to the callers that still wait, or returns the error to them. A request ends with its last row or with an
// error.
func scatter(m *eval.Batch, parts []part, err error, now time.Time) {
	at := 0
	for _, p := range parts {
		n := p.to - p.from
		p.scatter(m.Slice(at, at+n), err, now)
		at += n
	}
}

// scatter gives the part its answers, or the error.
func (p part) scatter(from eval.Batch, err error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.batch == nil {
		return
	}
	if err == nil {
		to := p.batch.Slice(p.from, p.to)
		copy(to.WDL, from.WDL)
		copy(to.Policy, from.Policy)
		copy(to.Source, from.Source)
	}
	if p.answered += p.to - p.from; p.answered == p.rows || err != nil {
		p.timing.Computed = now.Sub(p.arrived) - p.timing.Queued
		p.batch = nil
		p.done <- err
	}
}

// fail returns an error to the callers that still wait.
func fail(parts []part, err error) {
	for _, p := range parts {
		p.scatter(eval.Batch{}, err, time.Now())
	}
}
