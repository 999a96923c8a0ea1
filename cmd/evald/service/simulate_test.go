package service

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// This file simulates the whole service but for its ports: Serve, infer and all of admission, with models that come and go. It runs the
// real code in a bubble of synctest, whose clock stands still while a goroutine works. Durations are whole milliseconds, so that much
// happens at the same time. Decisions come from the seed. What the runtime decides is the order of goroutines at one time, so a
// replay may differ from the run that failed; the batcher's simulation (package queue) has no such gap.

// TestSimulateService: whatever clients, models and the end of the server do, the promises of the service hold.
func TestSimulateService(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // goroutines mostly run in the same order then
	gametest.Simulate(t, 150, gametest.Simulation{Clients: 6, Requests: 8, Faults: true}, func(s *gametest.Simulation) (err error) {
		synctest.Test(t, func(t *testing.T) {
			w := &service{Simulation: s, start: time.Now(), owners: map[game.Position]*call{}}
			err = w.run()
		})
		return err
	})
}

// service is one simulation. mu guards what follows it.
type service struct {
	*gametest.Simulation
	server *Server
	config Config
	start  time.Time
	loads  draw

	mu          sync.Mutex
	generations []*generation
	owners      map[game.Position]*call // of rows, by the call whose they are
	draining    bool
	broken      error
}

// generation is a model's backend, with knowledge of its life. Its answers are its number and the position.
type generation struct {
	of      *service
	name    string
	number  int
	working int
	closed  bool
}

// call is one request of a client.
type call struct {
	name    string
	model   string
	ctx     context.Context
	gone    time.Time // when its client left; zero if it has not
	until   time.Time // its deadline
	failed  bool      // a batch with one of its rows has failed
	oldest  int       // the generation that served when it came
	request *request
	draw    draw
	first   int // of its positions in the pool
}

var (
	pool     = sync.OnceValue(positionsOnce)
	searched = game.MustBoard(game.Rules{Rows: 5, Columns: 5, InARow: 4, Gravity: true})
	errFault = errors.New("the backend failed")
)

// positionsOnce are different positions.
func positionsOnce() (all []game.Position) {
	seen := map[game.Position]bool{}
	for _, p := range gametest.Open(gametest.Rand(7), connect4, 20_000) {
		if !seen[p] && !seen[connect4.Mirror(p)] { // the cache takes mirror images for the same
			seen[p] = true
			all = append(all, p)
		}
	}
	return all
}

// draw is one goroutine's source of numbers. Each has its own, so that their order at one time changes little.
type draw struct{ *rand.Rand }

func (w *service) draw(of uint64) draw { return draw{rand.New(rand.NewPCG(w.Seed, of))} }

// n is a number from 0 to most.
func (d draw) n(most int) int { return d.IntN(most + 1) }

func (d draw) chance(n int) bool { return d.IntN(n) == 0 }

func (d draw) pick(of ...int) int { return of[d.IntN(len(of))] }

// pause lets up to that many milliseconds pass.
func (d draw) pause(most int) { time.Sleep(time.Duration(d.n(most)) * time.Millisecond) }

func (w *service) tracef(format string, args ...any) {
	if w.Traced() {
		w.Tracef("%6v  %s", time.Since(w.start), fmt.Sprintf(format, args...))
	}
}

func (w *service) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == nil {
		w.broken = fmt.Errorf("at %v: %s", time.Since(w.start), fmt.Sprintf(format, args...))
	}
}

// Attributes implements eval.Backend.
func (*generation) Attributes() eval.Attributes { return eval.Attributes{Rows: 8, Invariant: true} }

// Compute implements eval.Backend. No row may be of a call that has gone.
func (g *generation) Compute(ctx context.Context, b *eval.Batch) error {
	w := g.of
	d := w.draw(b.Pos[0].Hash())
	w.mu.Lock()
	now, calls := time.Now(), map[*call]int{}
	for _, p := range b.Pos {
		if c := w.owners[p]; c != nil && b.Board.Rules() == connect4.Rules() { // not a leaf of a search
			calls[c]++
		}
	}
	g.working++
	closed := g.closed
	var gone []string
	for c := range calls {
		if !c.gone.IsZero() && c.gone.Before(now) || c.until.Before(now) {
			gone = append(gone, c.name)
		}
	}
	w.mu.Unlock()
	if gone != nil {
		w.fail("rows of %v are computed after it has ended", gone)
	}
	if closed {
		w.fail("%v is asked after it was closed", g)
	}
	if len(b.Pos) > w.server.config.Settings.MaxRows {
		w.fail("a batch has %d rows", len(b.Pos))
	}
	w.tracef("%v begins a batch of %d rows of %v", g, len(b.Pos), names(calls))
	took, fault := d.n(10), 0
	if w.Faults {
		fault = d.pick(0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4)
	}
	if fault == 1 {
		took = 100
	}
	select {
	case <-time.After(time.Duration(took) * time.Millisecond):
	case <-ctx.Done():
	}
	for i, p := range b.Pos {
		copy(b.WDLRow(i), []float32{float32(g.number), 0, fingerprint(b.Board, p)})
		clear(b.PolicyRow(i))
		b.Source[i] = eval.CPU
	}
	w.mu.Lock()
	g.working--
	if fault > 1 {
		for c := range calls {
			c.failed = true
		}
	}
	w.mu.Unlock()
	w.tracef("%v ends it, fault %d", g, fault)
	switch fault {
	case 2:
		return errFault
	case 3:
		panic(errFault)
	case 4:
		b.WDL[0] = float32(math.NaN())
	}
	return ctx.Err()
}

func (g *generation) String() string { return fmt.Sprintf("generation %d, %s,", g.number, g.name) }

// fingerprint is the same for mirror images, because a cache asks for one of the two.
func fingerprint(b *game.Board, p game.Position) float32 {
	return float32(max(p.Hash(), b.Mirror(p).Hash()) >> 44)
}

func (g *generation) Close() error {
	w := g.of
	w.mu.Lock()
	twice, working := g.closed, g.working
	g.closed = true
	w.mu.Unlock()
	w.tracef("%v is closed", g)
	if twice || working > 0 {
		w.fail("%v is closed: again %v, while %d batches are under way", g, twice, working)
	}
	return nil
}

func (w *service) load(m Model) (Loaded, error) {
	if len(w.generations) > 0 {
		w.loads.pause(5)
	}
	if w.Faults && len(w.generations) > 0 && w.loads.chance(4) {
		return Loaded{}, errFault
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	g := &generation{of: w, name: m.Name, number: len(w.generations) + 1}
	w.generations = append(w.generations, g)
	return Loaded{Backend: g, Close: g.Close, Version: fmt.Sprint(g.number), Platform: NetworkPlatform, InFlight: 1 + w.loads.n(1)}, nil
}

// run is one simulation.
func (w *service) run() error {
	d := w.draw(2)
	w.loads = w.draw(3)
	c := testConfig(nil)
	c.Load, c.Repository, c.Available = w.load, true, func() []string { return []string{"stub", "other"} }
	c.Settings.MaxRows, c.Settings.MaxDelay = d.pick(1, 4, 16), time.Duration(d.n(3))*time.Millisecond
	c.Settings.MaxQueued, c.Settings.Cache = d.pick(8, 32, 1000), d.pick(0, 0, 200)
	c.Settings.MaxWait = [3]time.Duration{0, 0, time.Duration(d.pick(0, 20)) * time.Millisecond}
	c.Limits.Requests, c.Limits.Body = d.pick(2, 6, 100), 1<<16
	c.Limits.Memory = int64(d.pick(1<<20, 4<<20, 64<<20))
	c.Limits.Timeout = time.Duration(d.pick(20, 200)) * time.Millisecond
	c.DrainDelay = time.Duration(d.n(10)) * time.Millisecond
	server, err := New(c)
	if err != nil {
		return err
	}
	w.server, w.config = server, c
	server.reading.n = d.pick(1, 2, 4)
	w.tracef("%+v, requests %d, memory %d, timeout %v, %d slots", c.Settings, c.Limits.Requests, c.Limits.Memory, c.Limits.Timeout, server.reading.n)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, Listeners{}) }()
	synctest.Wait()

	var clients sync.WaitGroup
	for i := range 1 + d.n(w.Clients-1) {
		w.client(i, &clients)
	}
	reloading, reloads := make(chan struct{}), d.n(6)
	go func() {
		defer close(reloading)
		for range reloads {
			w.loads.pause(20)
			w.reload()
		}
	}()
	if d.chance(2) {
		d.pause(60)
	} else {
		clients.Wait()
	}
	w.mu.Lock()
	w.draining = true
	w.mu.Unlock()
	w.tracef("the server is told to end")
	stop()
	err = <-served
	w.tracef("the server has ended: %v", err)
	if err != nil {
		w.fail("the server ended: %v", err)
	}
	clients.Wait()
	<-reloading
	synctest.Wait()
	w.checkEnd()
	return w.broken
}

// reload changes what is served.
func (w *service) reload() {
	var err error
	what := w.loads.n(4)
	switch what {
	case 0, 1:
		err = w.server.load("stub")
	case 2:
		err = w.server.load("other")
	case 3:
		err = w.server.unload("other")
	case 4:
		w.server.Reload()
	}
	w.tracef("%s: %v", []string{"stub is loaded", "stub is loaded", "other is loaded", "other is unloaded", "all are reloaded"}[what], err)
}

// client starts a client, which sends its requests one after the other or several at a time.
func (w *service) client(i int, clients *sync.WaitGroup) {
	d := w.draw(uint64(100 + i))
	from := fmt.Sprintf("10.0.0.%d", 1+d.n(3))
	conn := connectionFrom(from, w.server.memory)
	kind, requests := d.n(3), 1+d.n(w.Requests-1)
	atOnce := []int{4, 1, 2, 1}[kind]
	ctx, cancel := context.WithCancel(context.Background())
	if kind == 2 && w.Faults && d.chance(2) { // a stream that ends with all that is on it
		time.AfterFunc(time.Duration(5+d.n(40))*time.Millisecond, cancel)
	}
	var all sync.WaitGroup
	for k := range atOnce {
		all.Add(1)
		clients.Go(func() {
			defer all.Done()
			d := w.draw(uint64(1000 + 10*i + k))
			for n := range requests {
				d.pause([]int{3, 20, 5, 20}[kind])
				c := &call{name: fmt.Sprintf("call %d.%d.%d", i, k, n), draw: d, first: 500*(4*i+k) + 61*n, request: &request{conn: conn, group: inferenceCalls, protocol: "gRPC", began: time.Now()}}
				w.ask(ctx, c, kind)
			}
		})
	}
	clients.Go(func() { all.Wait(); cancel() })
}

// ask is a call of gRPC, from its headers to its answer.
func (w *service) ask(ctx context.Context, c *call, kind int) {
	d := c.draw
	message := w.message(c, kind)
	c.ctx = ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { // at the latest when it has ended
		w.mu.Lock()
		defer w.mu.Unlock()
		c.gone = time.Now()
	})
	if w.Faults && d.chance(4) {
		time.AfterFunc(time.Duration(d.n(20))*time.Millisecond, cancel)
	}
	r, s := c.request, w.server
	r.slot.cancel = cancel
	w.tracef("%s asks %s for %d rows", c.name, c.model, message.Inputs[0].Shape[0])
	err := s.arrive(r, "")
	if err == nil {
		func() {
			defer r.end()
			if err = r.take(callCost); err != nil {
				return
			}
			if err = w.receive(ctx, c); err != nil {
				return
			}
			defer r.conn.begin()()
			w.mu.Lock()
			c.oldest = w.served(c.model)
			r.asked = time.Now()
			c.until = r.asked.Add(s.config.Limits.Timeout)
			w.mu.Unlock()
			if err = s.readMessage(r, message); err != nil {
				return
			}
			w.mu.Lock()
			if r.timeout > 0 {
				c.until = r.asked.Add(min(r.timeout, s.config.Limits.Timeout))
			}
			w.mu.Unlock()
			if err = s.infer(ctx, r); err == nil {
				w.checkAnswer(c)
				d.pause(1) // the answer is being sent
				r.answer.release()
			}
		}()
	}
	w.tracef("%s ends: %v", c.name, err)
	w.checkError(ctx, c, err)
	w.checkLimits()
}

// receive reads a message: it has a slot while its bytes come, and they may come slowly.
func (w *service) receive(ctx context.Context, c *call) error {
	d := c.draw
	s, r := w.server, c.request
	if err := s.reading.acquire(ctx, r); err != nil {
		return err
	}
	defer s.reading.release(r)
	most := 2
	if w.Faults && d.chance(10) {
		most = 3000
	}
	select {
	case <-time.After(time.Duration(d.n(most)) * time.Millisecond):
		return nil
	case <-ctx.Done():
		return r.notRead(status.FromContextError(ctx.Err()).Err())
	}
}

// message is what a client asks for: rows of positions that no other call has.
func (w *service) message(c *call, kind int) *kserve.ModelInferRequest {
	d := c.draw
	n := 1 + d.n([]int{1, 60, 8, 3}[kind])
	w.mu.Lock()
	all := pool()
	pos := make([]game.Position, n)
	for i := range pos {
		pos[i] = all[c.first+i]
		w.owners[pos[i]], w.owners[connect4.Mirror(pos[i])] = c, c
	}
	w.mu.Unlock()
	m := bitboardRequest(connect4, pos...)
	m.ModelName = "stub"
	switch {
	case d.chance(4):
		m.ModelName = "other"
	case n < 3 && d.chance(8): // on a board of its own, so that its leaves are no rows of others
		m = bitboardRequest(searched, make([]game.Position, n)...)
		m.ModelName = searchModel
		setParameter(m, "visits", 8)
	}
	if c.model = m.ModelName; c.model != searchModel {
		setParameter(m, "raw", true)
	}
	setParameter(m, "priority", 1+d.n(2))
	if kind == 3 {
		setParameter(m, "timeout", 1000*(1+d.n(30)))
	}
	m.Outputs = []*kserve.ModelInferRequest_InferRequestedOutputTensor{{Name: wdlOutput}}
	return m
}

// served is the number of the generation that serves under a name, 0 if none does.
func (w *service) served(name string) int {
	m, err := w.server.models.find(name, "")
	if err != nil {
		return 0
	}
	return m.Backend.(*generation).number
}

// checkAnswer: each row has the answer to its own position, and all rows are of one generation, which served since the call came.
func (w *service) checkAnswer(c *call) {
	r := c.request
	if r.rows*12 != len(r.answer.outputs[0].raw) {
		w.fail("%s: %d rows, %d bytes", c.name, r.rows, len(r.answer.outputs[0].raw))
		return
	}
	var number int
	fmt.Sscan(r.answer.version, &number)
	if newest := w.served(c.model); number < c.oldest || newest > 0 && number > newest {
		w.fail("%s: is answered by generation %d, those from %d to %d served", c.name, number, c.oldest, newest)
	}
	if c.model == searchModel {
		return
	}
	all := pool()
	for i := range r.rows {
		raw := r.answer.outputs[0].raw[12*i:]
		var wdl [3]float32
		for k := range wdl {
			wdl[k] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*k:]))
		}

		if want := fingerprint(connect4, all[c.first+i]); int(wdl[0]) != number || wdl[2] != want {
			w.fail("%s: row %d has the answer %v, want %v of generation %d", c.name, i, wdl, want, number)
		}
	}
}

// checkError: a call fails for a reason that there was, and ends in time.
func (w *service) checkError(ctx context.Context, c *call, err error) {
	now, r := time.Now(), c.request
	if !r.asked.IsZero() && now.Sub(c.until) > time.Millisecond { // in which the answer is sent
		w.fail("%s: ends %v after its deadline", c.name, now.Sub(c.until))
	}
	w.mu.Lock()
	draining, failed, until := w.draining, c.failed, c.until
	w.mu.Unlock()
	good := true
	switch status.Code(err) {
	case codes.OK:
	case codes.ResourceExhausted:
	case codes.NotFound:
		good = c.model == "other"
	case codes.Unavailable:
		good = draining && errors.Is(err, errDraining)
	case codes.Canceled:
		good = ctx.Err() != nil
	case codes.DeadlineExceeded:
		good = !now.Before(until)
	case codes.Internal:
		good = failed || c.model == searchModel && w.Faults
	default:
		good = false
	}
	if !good {
		w.fail("%s ends without a reason: %v", c.name, err)
	}
	if r.bytes != 0 || r.place || r.under != nil || r.served != nil {
		w.fail("%s has not given back what it held: %+v", c.name, &r.hold)
	}
}

// checkLimits: no more is under way, held and waiting than may be.
func (w *service) checkLimits() {
	s := w.server
	s.mu.Lock()
	requests := s.requests
	s.mu.Unlock()
	s.reading.mu.Lock()
	held := len(s.reading.held)
	s.reading.mu.Unlock()
	if requests < 0 || requests > s.config.Limits.Requests || held > s.reading.n || s.memory.inUse() > s.memory.limit() {
		w.fail("%d requests are under way, %d of %d slots are held, %d of %d bytes", requests, held, s.reading.n, s.memory.inUse(), s.memory.limit())
	}
	for _, m := range s.models.list() {
		if q := m.batcher.Stats().Queued; q > m.MaxQueued+61 { // a request of any size is accepted if none waits
			w.fail("%d rows wait, of %d", q, m.MaxQueued)
		}
	}
}

// checkEnd: nothing is left of the server.
func (w *service) checkEnd() {
	s := w.server
	for _, g := range w.generations {
		if !g.closed || g.working > 0 {
			w.fail("at the end %v is closed: %v, %d batches are under way", g, g.closed, g.working)
		}
	}
	for _, m := range s.models.models {
		if n := m.stats.now().pending; n != 0 {
			w.fail("at the end %d requests of %s are pending", n, m.ref)
		}
		if q := m.batcher.Stats().Queued; q != 0 {
			w.fail("at the end %d rows wait for %s", q, m.ref)
		}
	}
	if s.requests != 0 || s.memory.inUse() != 0 || len(s.memory.by) != 0 || s.memory.limit() != w.config.Limits.Memory ||
		len(s.reading.held)+len(s.reading.waiting)+s.large.Taken() != 0 {
		w.fail("at the end %d requests, %d of %d bytes, %d and %d at slots, %d turns", s.requests, s.memory.inUse(), s.memory.limit(),
			len(s.reading.held), len(s.reading.waiting), s.large.Taken())
	}
	late := &request{conn: connectionFrom("10.0.0.9", s.memory), group: inferenceCalls, model: "stub"}
	if err := s.arrive(late, ""); !errors.Is(err, errDraining) {
		w.fail("after the end: %v", err)
	}
	if err := s.infer(context.Background(), late); !errors.Is(err, errDraining) {
		w.fail("after the end: %v", err)
	}
}

// names are those of calls, with their rows, for the trace.
func names(calls map[*call]int) (all []string) {
	for c, n := range calls {
		all = append(all, fmt.Sprintf("%s: %d", c.name, n))
	}
	slices.Sort(all)
	return all
}
