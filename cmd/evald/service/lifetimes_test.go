package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// mortal is an evaluator that knows when it is asked, and whether it is closed.
type mortal struct {
	evaltest.Stub
	asked, closed, misused atomic.Int32 // batches under way; calls of Close; batches and calls of Close after the first
}

// newMortal is a mortal whose values are all its number.
func newMortal(during func(), number int) *mortal {
	m := &mortal{}
	use := func() {
		if m.closed.Load() != 0 {
			m.misused.Add(1)
		}
	}
	m.Stub = evaltest.Stub{
		Source: eval.CPU,
		Before: func(context.Context, *eval.Batch) error {
			m.asked.Add(1)
			use()
			during()
			return nil
		},
		After: func(b *eval.Batch) {
			for i := range b.WDL {
				b.WDL[i] = float32(number)
			}
			use()
			m.asked.Add(-1)
		},
	}
	return m
}

func (m *mortal) Close() error {
	if m.closed.Add(1) > 1 || m.asked.Load() != 0 {
		m.misused.Add(1)
	}
	return nil
}

// mortals makes evaluators, and remembers all of them.
type mortals struct {
	mu     sync.Mutex
	all    []*mortal
	during func()
}

// mortalConfig serves mortals that call during in each batch.
func mortalConfig(during func()) (*mortals, Config) {
	m, c := &mortals{during: during}, testConfig(nil)
	c.Load = m.load
	return m, c
}

func (m *mortals) load(model Model) (Loaded, error) {
	if model.Name == "missing" {
		return Loaded{}, errors.New("there is no such file")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := newMortal(m.during, len(m.all)+1)
	m.all = append(m.all, e)
	return Loaded{Backend: e, Close: e.Close, Version: fmt.Sprint(len(m.all)), Platform: NetworkPlatform}, nil
}

// check wants each evaluator closed as often as told, and none used in a way that it must not be.
func (m *mortals) check(t *testing.T, when string, closed ...int32) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.all) != len(closed) {
		t.Fatalf("%s: %d evaluators were made, want %d", when, len(m.all), len(closed))
	}
	for i, e := range m.all {
		if n := e.closed.Load(); n != closed[i] || e.misused.Load() != 0 {
			t.Errorf("%s: evaluator %d of %d: closed %d times, want %d; misused %d times", when, i+1, len(closed), n, closed[i], e.misused.Load())
		}
	}
}

func (m *mortals) closed(i int) func() bool {
	return func() bool { return m.all[i].closed.Load() > 0 }
}

// A request holds the generation that it began with, also where its caller does not wait for the batch: the old one is closed
// after the batch, and not before, and all are closed when the server has ended.
func TestGenerationIsHeld(t *testing.T) {
	for name, cancelled := range map[string]bool{"answered": false, "cancelled": true} {
		t.Run(name, func(t *testing.T) {
			gate, begun := make(chan struct{}), make(chan struct{}, 10)
			made, c := mortalConfig(func() { begun <- struct{}{}; <-gate })
			s := serve(t, c)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			replied := make(chan error)
			go func() {
				_, err := s.api.ModelInfer(ctx, bitboardRequest(connect4, game.Position{}))
				replied <- err
			}()
			<-begun
			s.Reload()
			made.check(t, "while a request is under way", 0, 0)
			if cancelled {
				cancel()
				if err := <-replied; err == nil {
					t.Error("a cancelled request was answered")
				}
				s.underWay(t, 0)
				for range 20 { // time for a Close that must not be
					if _, err := s.api.ServerLive(t.Context(), &kserve.ServerLiveRequest{}); err != nil {
						t.Error(err)
					}
				}
				made.check(t, "while a batch without a caller is under way", 0, 0)
			}
			close(gate)
			if !cancelled {
				if err := <-replied; err != nil {
					t.Error(err)
				}
			}
			waitFor(t, "the first generation's end", made.closed(0))
			made.check(t, "after the request", 1, 0)
			s.end(t)
			made.check(t, "after the server", 1, 1)
			if err := s.load("stub"); !errors.Is(err, errDraining) {
				t.Errorf("a load after the end: %v", err)
			}
			made.check(t, "after a load that came too late", 1, 1, 1)
		})
	}
}

// An unloaded model is closed. Callers in this program then get an error, until the model is loaded again.
func TestUnloadedIsClosed(t *testing.T) {
	made, c := mortalConfig(func() {})
	meanwhile := func() {}
	c.Models = []Model{{Name: "stub"}, {Name: "other"}}
	c.Load = func(m Model) (Loaded, error) {
		meanwhile()
		return made.load(m)
	}
	s := gametest.Must(New(c))(t)
	e, err := s.Evaluator("other")
	gametest.OK(t, err)
	b := eval.NewBatch(connect4, 1)
	if err := e.Evaluate(t.Context(), b); err != nil {
		t.Error(err)
	}
	gametest.OK(t, s.unload("other"))
	waitFor(t, "the end of what was unloaded", made.closed(1))
	if err := e.Evaluate(t.Context(), b); err == nil || err.Error() != `model "other" is not served; there are [search stub]` {
		t.Errorf("an evaluator of a model that was unloaded: %v", err)
	}
	made.check(t, "after unload", 0, 1)
	gametest.OK(t, s.load("other"))
	if err := e.Evaluate(t.Context(), b); err != nil {
		t.Error(err)
	}
	// While it is loaded anew it is unloaded: the old one ends, and the new one serves.
	meanwhile = func() {
		if err := s.unload("other"); err != nil {
			t.Error(err)
		}
	}
	gametest.OK(t, s.load("other"))
	waitFor(t, "the end of what was unloaded", made.closed(2))
	made.check(t, "after unload within a load", 0, 1, 1, 0)
	if err := e.Evaluate(t.Context(), b); err != nil {
		t.Error(err)
	}
	for range 2 {
		s.Close()
		made.check(t, "after Close", 1, 1, 1, 1)
	}
	if err := e.Evaluate(t.Context(), b); err == nil {
		t.Error("a server that is closed answers")
	}
}

// Close ends all that the end of Serve ends: it takes no more requests, and the page, streams and models end, once.
func TestCloseEndsAll(t *testing.T) {
	made, c := mortalConfig(func() {})
	s, err := New(c)
	gametest.OK(t, err)
	pages := 0
	s.SetPage(http.NotFoundHandler(), func() { pages++ })
	for range 2 {
		s.Close()
	}
	made.check(t, "after Close", 1)
	if pages != 1 || s.taking.Err() == nil || s.over.Err() == nil {
		t.Errorf("the page was ended %d times, want once; streams of requests: %v, others: %v, want both ended", pages, s.taking.Err(), s.over.Err())
	}
	r := &request{conn: connectionFrom("10.0.0.1", s.memory)}
	if _, err := (grpcService{Server: s}).ModelInfer(r.context(t.Context()), bitboardRequest(connect4, game.Position{})); status.Code(err) != codes.Unavailable {
		t.Errorf("a request after Close: %v, want Unavailable", err)
	}
}

// A server that cannot be made closes the models that it has loaded.
func TestNewClosesWhatItLoaded(t *testing.T) {
	made, c := mortalConfig(func() {})
	c.Models = []Model{{Name: "stub"}, {Name: "missing"}}
	if _, err := New(c); err == nil {
		t.Fatal("a model that is not there is served")
	}
	made.check(t, "after New failed", 1)
}

// Reloads, loads and unloads during traffic of all kinds: none of the requests to a model that stays is lost, each reply is
// wholly of one generation and of none before an earlier reply's, each generation is closed once, none is used after it, and
// none is left when the server has ended.
func TestLifetimesUnderLoad(t *testing.T) {
	rounds := 60
	if gametest.Soak() {
		rounds = 1000
	}
	made, c := mortalConfig(func() {})
	c.Models, c.Settings.Cache = []Model{{Name: "stub"}, {Name: "other"}}, 1<<10
	c.Settings.Visits = 8
	s := serve(t, c)
	inProgram, err := s.Evaluator("other")
	gametest.OK(t, err)
	pos := gametest.Open(gametest.Rand(3), connect4, 4)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var done atomic.Int64
	var ending atomic.Bool // from when on requests are refused
	traffic := func(ask func(n uint64) error) {
		wg.Go(func() {
			for n := uint64(0); ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := ask(n); err != nil {
					t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	for _, model := range []string{"stub", "stub", "search", "other"} {
		last := float32(0)
		traffic(func(n uint64) error {
			r := bitboardRequest(connect4, pos...)
			r.ModelName = model
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if n%3 == 0 { // somewhere on its way
				go cancel()
			}
			got, err := s.api.ModelInfer(ctx, r)
			if err != nil {
				if ctx.Err() == nil && model != "other" && !ending.Load() {
					return fmt.Errorf("%s: %w", model, err)
				}
				return nil
			}
			wdl := raws(got)[wdlOutput]
			number := floatAt(wdl)
			if model == "stub" && (!bytes.Equal(wdl, bytes.Repeat(wdl[:4], len(wdl)/4)) || number < last) {
				return fmt.Errorf("a reply of generations %x after one of %v", wdl, last)
			}
			last = number
			return nil
		})
	}
	traffic(func(uint64) error {
		b := eval.NewBatch(connect4, len(pos))
		copy(b.Pos, pos)
		_ = inProgram.Evaluate(t.Context(), b) // an error while it is unloaded
		return nil
	})
	for i := range rounds {
		before := done.Load()
		switch i % 4 {
		case 0:
			if err := s.unload("other"); err != nil {
				t.Error(err)
			}
		case 1:
			if err := s.load("other"); err != nil {
				t.Error(err)
			}
		default:
			s.Reload()
		}
		waitFor(t, "requests", func() bool { return done.Load() > before+4 || t.Failed() })
	}
	s.Reload() // of "other", and then of "stub"
	if got := s.answer(t, bitboardRequest(connect4, pos...)); floatAt(got[wdlOutput]) != float32(len(made.all)) {
		t.Errorf("after the last load: %v; want answers of generation %d", got, len(made.all))
	}
	ending.Store(true)
	s.end(t) // with requests on their way, of which the last are refused
	want := slices.Repeat([]int32{1}, len(made.all))
	made.check(t, "after the server", want...)
	close(stop)
	wg.Wait()
	made.check(t, "after all clients", want...)
}

// A server that is ended before it has begun to listen ends without an error.
func TestEndsAtOnce(t *testing.T) {
	for range 20 {
		serve(t, testConfig(&evaltest.Stub{Source: eval.CPU})).end(t)
	}
}
