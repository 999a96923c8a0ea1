package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// This file simulates the batcher: its scheduler and its requests, without goroutines, in virtual time. What the batcher does under one
// lock is one event here, and events of one time come in a random order. simulate_check_test.go says what must hold after each of them.

// TestSimulateBatcher: whatever happens, and in whatever order, the promises of the batcher hold.
func TestSimulateBatcher(t *testing.T) {
	gametest.Simulate(t, 600, gametest.Simulation{Clients: 8, Requests: 12, Faults: true}, simulate)
}

// tick is the unit of all durations, so that much happens at the same time.
const tick = time.Millisecond

// world is one simulation.
type world struct {
	*gametest.Simulation
	r      *rand.Rand
	start  time.Time
	now    time.Time
	agenda gametest.Agenda // events of one time come in a random order
	boards []*game.Board

	scheduler scheduler
	batches   int // under way
	clients   []*simClient
	requests  []*simRequest      // all of them, in the order in which they were accepted
	waiting   []*simRequest      // those of them whose rows wait
	want      Stats              // what the counts must be
	leads     map[[2]int]float64 // the least by which one client was ahead of another since that has had rows waiting
	broken    error
}

// simClient asks one thing after the other, several at once.
type simClient struct {
	Caller
	index    int
	low      bool // its priorities are any; otherwise Normal
	rows     int  // of a request, at most
	pause    int  // ticks between two requests, at most
	deadline int  // ticks that a request has, at most; 0: any time
	patience int  // ticks after which a request is cancelled, at most; 0: it never is
	left     int  // requests

	served float64 // cost of the rows that were sent, by its weight
	waits  int     // rows
}

// simRequest is a request with the simulation's record.
type simRequest struct {
	*request
	client  *simClient
	id      int
	own     *eval.Batch
	ctx     *simContext
	tooLong bool      // it has waited MaxWait
	leaving bool      // Submit is about to return its context's error
	waits   int       // rows
	due     time.Time // until when they wait for others
	formed  bool      // its first row is in a batch that has begun
	failed  bool      // one of these has failed
	ended   bool
}

func (r *simRequest) String() string { return fmt.Sprintf("request %d of %s", r.id, r.client.Client) }

// simContext ends when the simulation says so.
type simContext struct {
	context.Context
	deadline time.Time
	err      error
}

func (c *simContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }
func (c *simContext) Err() error                  { return c.err }

var (
	errBackend = errors.New("the backend failed")
	errHang    = errors.New("the backend hung until it was cancelled")
)

// after lets something happen after at most that many ticks.
func (w *world) after(most int, do func()) {
	w.at(w.now.Add(time.Duration(w.r.IntN(most+1))*tick), do)
}

func (w *world) at(t time.Time, do func()) { w.agenda.Add(t, w.r.Uint64(), do) }

func (w *world) tracef(format string, args ...any) {
	if w.Traced() {
		w.Tracef("%6v  %s", w.now.Sub(w.start), fmt.Sprintf(format, args...))
	}
}

// fail notes what is wrong, once.
func (w *world) fail(format string, args ...any) {
	if w.broken == nil {
		w.broken = fmt.Errorf("at %v: %s", w.now.Sub(w.start), fmt.Sprintf(format, args...))
	}
}

// chance is true once in n times.
func (w *world) chance(n int) bool { return w.r.IntN(n) == 0 }

// one is one of some values.
func one[T any](w *world, of ...T) T { return of[w.r.IntN(len(of))] }

func simulate(s *gametest.Simulation) error {
	start := time.Unix(0, 0)
	w := &world{Simulation: s, r: rand.New(rand.NewPCG(s.Seed, 1)), start: start, now: start, leads: map[[2]int]float64{}}
	c := Config{
		MaxRows: one(w, 1, 4, 16), MaxDelay: time.Duration(w.r.IntN(4)) * tick, InFlight: 1 + w.r.IntN(3), MaxQueued: one(w, 0, 16, 64, 1000),
	}
	for p := range c.MaxWait {
		c.MaxWait[p] = time.Duration(one(w, 0, 0, 5, 20)) * tick
	}
	w.boards = gametest.Boards()[:one(w, 1, 1, 3)]
	w.scheduler = newScheduler(c)
	w.scheduler.many = one(w, 2, manyClients)
	w.tracef("%+v, %d games", c, len(w.boards))
	for i := range 1 + w.r.IntN(s.Clients) {
		w.clients = append(w.clients, w.newClient(i))
	}
	if w.chance(3) {
		w.after(40, w.drain)
	}
	for w.agenda.Len() > 0 && w.broken == nil {
		var do func()
		w.now, do = w.agenda.Next()
		do()
		w.check()
	}
	if w.broken == nil {
		w.drain()
		w.checkEnd()
	}
	return w.broken
}

func (w *world) newClient(i int) *simClient {
	c := &simClient{index: i, left: 1 + w.r.IntN(w.Requests), Caller: Caller{
		Client: fmt.Sprint("client ", i), Weight: one(w, 0, 1, 2, 0.5, 0.1), Cost: one(w, 0, 0, 0.25, 3), Accepted: w.chance(8),
	}}
	c.low = w.chance(2)
	most, atOnce := w.scheduler.config.MaxRows, 1
	switch w.r.IntN(4) {
	case 0: // many small requests
		c.rows, atOnce = 2, 6
	case 1: // few huge ones
		c.rows, c.pause = 6*most, 10
	case 2: // a stream
		c.rows, atOnce = most, 2
	case 3: // now and then
		c.rows, c.pause = 3, 10
	}
	if w.chance(3) {
		c.deadline = 20
	}
	if w.Faults && w.chance(3) {
		c.patience = 10
	}
	w.tracef("%s: %+v", c.Client, *c)
	for range atOnce {
		w.after(5, func() { w.ask(c) })
	}
	return c
}

// ask is the beginning of Submit.
func (w *world) ask(c *simClient) {
	if c.left--; c.left < 0 {
		return
	}
	ctx := &simContext{Context: context.Background()}
	if c.deadline > 0 {
		ctx.deadline = w.now.Add(time.Duration(1+w.r.IntN(c.deadline)) * tick)
	}
	caller := c.Caller
	if c.low {
		caller.Priority = Priority(w.r.IntN(priorities) - 1)
	}
	own := eval.NewBatch(one(w, w.boards...), 1+w.r.IntN(c.rows))
	r := &simRequest{client: c, id: len(w.requests), own: own, ctx: ctx, request: newRequest(ctx, own, caller, w.now)}
	for i := range own.Pos {
		own.Pos[i] = game.Position{Own: game.Bits{Lo: uint64(r.id), Hi: uint64(i)}}
	}
	err := w.scheduler.submit(r.request, w.now)
	w.tracef("%v asks for %d rows on %v, priority %d, in %v: %v", r, r.rows, own.Board.Rules(), caller.Priority, max(0, ctx.deadline.Sub(w.now)), err)
	w.checkSubmit(r, err)
	if err != nil {
		w.after(1+c.pause, func() { w.ask(c) })
		return
	}
	r.waits, r.due = r.rows, w.due(r)
	w.requests, w.waiting = append(w.requests, r), append(w.waiting, r)
	w.dispatch()
	end := func(err error) {
		if ctx.err == nil && !r.ended {
			w.tracef("%v: its context ends: %v", r, err)
			ctx.err = err
			w.after(1, func() { w.awake(r) })
		}
	}
	if c.deadline > 0 {
		w.at(ctx.deadline, func() { end(context.DeadlineExceeded) })
	}
	if c.patience > 0 {
		w.after(c.patience, func() { end(context.Canceled) })
	}
	if most := w.scheduler.config.MaxWait[caller.Priority+1]; most > 0 && !caller.Accepted {
		w.at(w.now.Add(most), func() { r.tooLong = true; w.awake(r) })
	}
}

// awake is one turn of Submit's loop: of what has happened, any comes first.
func (w *world) awake(r *simRequest) {
	var ready []func()
	if len(r.done) > 0 {
		ready = append(ready, func() {
			err := <-r.done
			if err != nil {
				w.drop(r, false)
			}
			w.end(r, r.timing, err)
		})
	}
	if r.tooLong {
		ready = append(ready, func() {
			if r.tooLong = false; w.drop(r, true) {
				w.end(r, Timing{}, ErrLate)
			} else {
				w.awake(r)
			}
		})
	}
	if r.ctx.err != nil {
		ready = append(ready, func() {
			r.leaving = true
			w.drop(r, false)
			w.after(1, func() {
				timing, err := r.giveUp(w.now)
				w.end(r, timing, err)
			})
		})
	}
	if r.ended || r.leaving || len(ready) == 0 {
		return
	}
	one(w, ready...)()
}

func (w *world) drop(r *simRequest, whole bool) bool {
	dropped := w.scheduler.drop(r.request, whole)
	w.tracef("%v leaves the queue: %v", r, dropped)
	if dropped {
		r.waits = 0
	}
	return dropped
}

// dispatch is what the batcher does whenever something has happened.
func (w *world) dispatch() {
	for {
		x, ok := w.scheduler.next(w.now)
		if !ok {
			break
		}
		w.batches++
		w.took(x)
		if x.queue == nil {
			w.after(1, func() { w.begin(x) })
			continue
		}
		w.after(1, func() { // callers that are about to send a request go first
			x = w.scheduler.fill(x, w.now)
			w.took(x)
			w.after(1, func() { w.begin(x) })
		})
	}
	if at, ok := w.scheduler.wake(); ok {
		w.at(at, func() {
			if w.scheduler.alarm.Equal(at) { // otherwise it was reset
				w.scheduler.alarm = time.Time{}
				w.dispatch()
			}
		})
	}
}

// begin is when a batch is formed and given to the backend.
func (w *world) begin(x sending) {
	m := new(eval.Batch)
	taken, dropped := gather(m, x.parts, w.now)
	w.tracef("a batch begins (%v): %v", x.reason, w.words(taken))
	w.checkBatch(m, x, taken)
	began, err := w.now, error(nil)
	end := func() {
		took := w.now.Sub(began)
		w.answer(m, err)
		w.scheduler.count(Sent{Rows: len(m.Pos), Requests: len(taken), Reason: x.reason, Took: took, Err: err}, dropped)
		w.after(0, func() {
			scatter(m, taken, err, w.now)
			w.tracef("it ends: %v: %v", w.words(taken), err)
			for _, p := range taken {
				w.of(p).failed = w.of(p).failed || err != nil
				w.after(1, func() { w.awake(w.of(p)) })
			}
			w.after(0, func() {
				w.batches--
				w.scheduler.end()
				w.dispatch()
			})
		})
	}
	switch {
	case len(taken) == 0:
		w.after(0, end)
		return
	case w.Faults && w.chance(8):
		err = errBackend
	case w.Faults && w.chance(4) && w.scheduler.config.MaxRows == 1: // it has the request's context
		w.hang(w.of(taken[0]), func() { err = errHang; end() })
		return
	}
	w.after(10, end)
}

// hang lets a batch end when its request's context has; for want of that, after some time.
func (w *world) hang(r *simRequest, end func()) {
	began := w.now
	var look func()
	look = func() {
		if r.ctx.err != nil || w.now.Sub(began) > 50*tick {
			end()
			return
		}
		w.at(w.now.Add(tick), look)
	}
	look()
}

// drain is Close.
func (w *world) drain() {
	w.tracef("the batcher closes")
	w.scheduler.closed = true
	w.dispatch()
}

// end is the return of Submit.
func (w *world) end(r *simRequest, timing Timing, err error) {
	w.tracef("%v ends: %v", r, err)
	w.checkAnswer(r, timing, err)
	r.ended = true
	for i := range r.own.WDL { // the memory is its caller's again, who writes something else into it
		r.own.WDL[i] = -1
	}
	w.after(r.client.pause, func() { w.ask(r.client) })
}

// of is the simulation's side of a part.
func (w *world) of(p part) *simRequest { return w.requests[p.number] }

func (w *world) words(parts []part) (words []string) {
	for _, p := range parts {
		words = append(words, fmt.Sprintf("rows %d-%d of %v", p.from, p.to-1, w.of(p)))
	}
	return words
}
