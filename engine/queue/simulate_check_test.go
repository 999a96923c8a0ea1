package queue

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// This file is what the simulation checks. It keeps books of its own, in the plainest form.

// checkSubmit checks that a request is refused by the documented rule.
func (w *world) checkSubmit(r *simRequest, err error) {
	c, queued, own := w.scheduler.config, 0, 0
	for _, of := range w.waiting {
		queued += of.waits
		if of.client == r.client {
			own += of.waits
		}
	}
	if w.scheduler.closed {
		if !errors.Is(err, ErrClosed) {
			w.fail("%v came after Close: %v", r, err)
		}
		return
	}
	w.want.Checked++
	if err != nil {
		w.want.Refused++
	}
	share := [...]float64{1, 0.75, 0.5}[r.caller.Priority+1]
	left := math.Floor(share*float64(c.MaxQueued)) - float64(queued-own)
	full := c.MaxQueued > 0 && !r.caller.Accepted && queued > 0 && float64(own+r.rows) > left/2
	late := !r.deadline.IsZero() && !r.caller.Accepted && queued >= c.MaxRows
	switch {
	case full && !errors.Is(err, ErrFull):
		w.fail("%v is not refused: %v, while %d rows wait, %d of its client's", r, err, queued, own)
	case !full && err != nil && !(late && errors.Is(err, ErrLate)):
		w.fail("%v is refused: %v", r, err)
	}
}

// took checks the rows that were taken for a batch: whose turn it was, and which of its client's come first.
func (w *world) took(x sending) {
	c, total := w.scheduler.config, 0
	for _, p := range x.parts {
		r, n := w.of(p), p.to-p.from
		if p.from != r.rows-r.waits || n < 1 || n > r.waits {
			w.fail("%v: rows %d to %d are taken, %d of %d wait", r, p.from, p.to, r.waits, r.rows)
		}
		r.waits -= n
		total += n
		cost := float64(n) * costOf(r.caller.Cost)
		if r.caller.Priority == Low {
			cost *= 4
		}
		r.client.served += cost / r.caller.weight()
	}
	for _, left := range w.waiting {
		if left.waits == 0 || total == 0 || left.own.Board != w.of(x.parts[0]).own.Board {
			continue
		}
		left.due = w.due(left)
		if total < c.MaxRows {
			w.fail("%v waits while a batch is sent with %d rows", left, total)
		}
		for _, p := range x.parts {
			r := w.of(p)
			later := r.caller.Priority > left.caller.Priority || r.caller.Priority == left.caller.Priority && r.id > left.id
			if r.client == left.client && later {
				w.fail("%v is sent before %v", r, left)
			}
		}
	}
	if total > c.MaxRows || x.reason == Full && total > 0 && total < c.MaxRows {
		w.fail("%d rows are sent as %v", total, x.reason)
	}
}

// due is until when a request waits for others, if a batch can be sent.
func (w *world) due(r *simRequest) time.Time {
	due := r.arrived.Add(w.scheduler.config.MaxDelay)
	if last := r.deadline.Add(-2 * w.scheduler.pace.batch); !r.deadline.IsZero() && last.Before(due) {
		return last
	}
	return due
}

// checkBatch checks the rows of a batch that begins: none is of a request that has ended, and none is missing.
func (w *world) checkBatch(m *eval.Batch, x sending, taken []part) {
	var want []game.Position
	var stay []part
	for _, p := range x.parts {
		r := w.of(p)
		gone := r.ended || r.failed || r.ctx.err != nil || !r.deadline.IsZero() && !w.now.Before(r.deadline)
		if gone {
			continue
		}
		stay = append(stay, p)
		want = append(want, r.own.Pos[p.from:p.to]...)
		if m.Board != r.own.Board {
			w.fail("%v is in a batch of another game", r)
		}
		r.formed = r.formed || p.from == 0
	}
	if !slices.Equal(stay, taken) || !slices.Equal(m.Pos, want) {
		w.fail("a batch has %v, want %v", w.words(taken), w.words(stay))
	}
}

// answer writes what the backend says: each row's own position.
func (w *world) answer(m *eval.Batch, err error) {
	for i, p := range m.Pos {
		copy(m.WDLRow(i), []float32{float32(p.Own.Lo), float32(p.Own.Hi), 1})
		m.Source[i] = eval.CPU
		if err != nil {
			m.WDLRow(i)[2] = 0
		}
	}
}

// checkAnswer checks what Submit returns.
func (w *world) checkAnswer(r *simRequest, timing Timing, err error) {
	const late = 3 * tick // each step may take a tick
	most := w.scheduler.config.MaxWait[r.caller.Priority+1]
	switch {
	case r.ended:
		w.fail("%v ends twice", r)
	case r.waits != 0:
		w.fail("%v ends while %d of its rows wait", r, r.waits)
	case !r.deadline.IsZero() && w.now.Sub(r.deadline) > late:
		w.fail("%v ends %v after its deadline", r, w.now.Sub(r.deadline))
	case errors.Is(err, ErrLate):
		if r.formed || most == 0 || w.now.Sub(r.arrived) < most || r.caller.Accepted {
			w.fail("%v has not waited too long: %v", r, err)
		}
	case errors.Is(err, errBackend), errors.Is(err, errHang):
		if !r.failed {
			w.fail("%v: no batch with its rows has failed: %v", r, err)
		}
	case err != nil:
		if r.ctx.err == nil || !errors.Is(err, r.ctx.err) {
			w.fail("%v: its context has not ended: %v", r, err)
		}
	default:
		for i := range r.rows {
			if got := r.own.WDLRow(i); !slices.Equal(got, []float32{float32(r.id), float32(i), 1}) || r.own.Source[i] != eval.CPU {
				w.fail("%v: row %d has the answer %v", r, i, got)
			}
		}
	}
	if timing.Queued < 0 || timing.Computed < 0 || timing.Queued+timing.Computed > w.now.Sub(r.arrived) {
		w.fail("%v: timing %+v", r, timing)
	}
	if err != nil && !r.formed {
		w.want.Dropped++
	}
}

// check compares the scheduler's books with those of the simulation, and looks for rows that should have been sent.
func (w *world) check() {
	s, c := &w.scheduler, w.scheduler.config
	w.waiting = slices.DeleteFunc(w.waiting, func(r *simRequest) bool { return r.waits == 0 })
	for _, c := range w.clients {
		c.waits = 0
	}
	total, weights, first := 0, 0.0, w.now.Add(time.Hour)
	games := map[game.Rules]int{}
	for _, r := range w.waiting {
		total += r.waits
		r.client.waits += r.waits
		games[r.own.Board.Rules()] += r.waits
		if r.due.Before(first) {
			first = r.due
		}
		if most := c.MaxWait[r.caller.Priority+1]; most > 0 && !r.caller.Accepted && r.waits == r.rows && w.now.Sub(r.arrived) > most {
			w.fail("%v has waited for %v", r, w.now.Sub(r.arrived))
		}
	}
	for _, c := range w.clients {
		if c.waits > 0 {
			weights += c.weight()
		}
	}
	if s.stats.Queued != total || math.Abs(s.weights-weights) > 1e-9 || len(s.queues) != len(games) {
		w.fail("%d rows of weight %v in %d queues, want %d of %v in %d", s.stats.Queued, s.weights, len(s.queues), total, weights, len(games))
	}
	if s.running != w.batches || s.running > c.InFlight {
		w.fail("%d batches are under way, %d are counted", w.batches, s.running)
	}
	free := s.running < c.InFlight
	for rules, rows := range games {
		if q := s.queues[rules]; q == nil || q.rows != rows {
			w.fail("the queue of %v has not %d rows", rules, rows)
		}
		if free && rows >= c.MaxRows {
			w.fail("%d rows of %v wait, which is a full batch", rows, rules)
		}
	}
	if free && ((s.running == 0 || s.closed) && total > 0 || w.now.After(first)) {
		w.fail("%d rows wait, until %v, and %d batches are under way", total, first.Sub(w.start), s.running)
	}
	w.checkHeaps()
	if len(w.boards) == 1 {
		w.checkShares()
	}
}

// checkShares checks the promise of fair queueing for one game. While a client has rows waiting, what another is sent, divided by its
// weight, grows by what the first is sent, a full batch of each, and two rows more at most, also if the other comes and goes.
func (w *world) checkShares() {
	most := func(c *simClient) float64 {
		cost := costOf(c.Cost)
		if c.low {
			cost *= 4
		}
		return 1 + float64(w.scheduler.config.MaxRows)*cost/c.weight()
	}
	for _, b := range w.clients {
		for _, a := range w.clients {
			key, lead := [2]int{a.index, b.index}, a.served-b.served
			least, known := w.leads[key]
			if b.waits == 0 {
				delete(w.leads, key)
				continue
			}
			if !known || lead < least {
				w.leads[key], least = lead, lead
			}
			if a != b && lead-least > most(a)+most(b)+1e-6 {
				w.fail("%s was sent %v more than %s, which had rows waiting", a.Client, lead-least, b.Client)
			}
		}
	}
}

// checkHeaps checks that each queue's first client is the one whose turn it is.
func (w *world) checkHeaps() {
	for _, q := range w.scheduler.queues {
		for _, of := range q.shares {
			if of.before(q.shares[0]) {
				w.fail("on %v it is the turn of %s, not of %s", q.rules, of.name, q.shares[0].name)
			}
		}
	}
}

// checkEnd checks that nothing is left.
func (w *world) checkEnd() {
	s := &w.scheduler
	for _, r := range w.requests {
		if !r.ended {
			w.fail("%v has no answer", r)
		}
		if slices.ContainsFunc(r.own.WDL, func(x float32) bool { return x != -1 }) {
			w.fail("%v: its memory was written after it had ended", r)
		}
	}
	if !s.idle() || len(s.clients) > manyClients || s.weights != 0 {
		w.fail("at the end %d batches are under way, and there are %d queues, %d clients of weight %v", s.running, len(s.queues), len(s.clients), s.weights)
	}
	if s.stats != w.want {
		w.fail("the counts are %+v, want %+v", s.stats, w.want)
	}
	if at, ok := s.wake(); ok {
		w.fail("the batcher would wake at %v", at.Sub(w.start))
	}
	late := newRequest(&simContext{}, eval.NewBatch(w.boards[0], 1), Caller{}, w.now)
	if err := s.submit(late, w.now.Add(time.Hour)); !errors.Is(err, ErrClosed) {
		w.fail("after Close: %v", err)
	}
}

// costOf is the cost of a row: 0 stands for 1.
func costOf(cost float64) float64 {
	if cost == 0 {
		return 1
	}
	return cost
}
