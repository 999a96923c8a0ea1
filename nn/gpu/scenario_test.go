//go:build gpu && cgo && linux && amd64

package gpu

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/evald/evald/engine/eval/evaltest"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/nn/net"
)

// events stores what an evaluator reports, and lets a test wait for it.
type events struct {
	mu   sync.Mutex
	cond sync.Cond
	said []string
}

func newEvents() *events {
	e := &events{}
	e.cond.L = &e.mu
	return e
}

func (e *events) say(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.said = append(e.said, text)
	e.cond.Broadcast()
}

// wait returns when an event with that text has been reported that many times.
func (e *events) wait(text string, times int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.times(text) < times {
		e.cond.Wait()
	}
}

func (e *events) times(text string) (n int) {
	for _, s := range e.said {
		if strings.Contains(s, text) {
			n++
		}
	}
	return n
}

// scenario is a service's life: it starts, answers batches by a fallback of the GPU and the reference, one of them on a board
// that needs a kernel of its own, and ends.
type scenario struct {
	network      *net.Network
	boards       [2]*game.Board
	batches      []part // the last is served after the faults
	pos          [2][]game.Position
	onGPU, onCPU [2]*eval.Batch // the answers
	on           []driver.Device
}

// part is a batch of a scenario: the positions from..to-1 on one of its boards.
type part struct{ board, from, to int }

var (
	fewRows  = []part{{0, 0, 9}, {0, 2, 4}, {1, 0, 2}, {0, 1, 6}, {0, 7, 9}}
	manyRows = []part{{0, 0, 70}, {0, 7, 12}, {1, 0, 5}, {0, 3, 20}, {0, 30, 37}}
)

// newScenario has a network with so large a head that large batches need another kernel, and no wide kernel has room.
func newScenario(t *testing.T, batches []part) *scenario {
	return scenarioOf(t, "1x4/1/8169", batches)
}

// scenarioOf has launches with and without copies, since those of some positions are called small.
func scenarioOf(t *testing.T, network string, batches []part) *scenario {
	setDirectBytes(t, 300) // 5 positions of the smaller board
	s := &scenario{
		batches: batches,
		network: scrambled(t, network, 1),
		boards:  [2]*game.Board{game.MustBoard(game.TicTacToe), game.MustBoard(large)},
		on:      devices(t, 1, geforce),
	}
	for i := range s.boards {
		n := 0
		for _, b := range batches {
			if b.board == i {
				n = max(n, b.to)
			}
		}
		s.pos[i] = gametest.Positions(gametest.Rand(4), s.boards[i], n, true)
		s.onCPU[i] = reference(t, s.network, s.boards[i], s.pos[i])
		e, _, err := newEvaluator(convolutions{s.network}, s.on, Options{}, quick)
		if err != nil {
			t.Fatal(err)
		}
		s.onGPU[i] = evaluate(t, e, s.boards[i], s.pos[i])
		closed(t, e)
	}
	return s
}

// large is a game of more cells than the kernels for small boards hold.
var large = game.Rules{Rows: 10, Columns: 10, InARow: 4, Gravity: true}

// outcome is the result of a run of the scenario.
type outcome struct {
	start, close error
	gpu, cpu     int // number of batches answered by each
	stats        DeviceStats
}

// run plays the scenario. fault injects the faults, which are removed before the last batch.
func (s *scenario) run(t *testing.T, what string, fault func()) (o outcome) {
	t.Helper()
	said := newEvents()
	fakeDriver.Reset()
	fault()
	e, _, err := newEvaluator(convolutions{s.network}, s.on, Options{Event: said.say}, quick)
	if o.start = err; err != nil {
		nothingLeft(t, what+": after it did not start")
		return o
	}
	f := evaltest.Raw(eval.Fallback{{Name: "gpu", Backend: e}, {Name: "cpu", Backend: net.NewBackend(s.network)}})
	serve := func(p part) {
		b := eval.NewBatch(s.boards[p.board], p.to-p.from)
		copy(b.Pos, s.pos[p.board][p.from:p.to])
		if err := f.Evaluate(t.Context(), b); err != nil {
			t.Errorf("%s: a batch is lost: %v", what, err)
			return
		}
		by := s.check(t, what, b, p.board, p.from, p.to)
		o.gpu, o.cpu = o.gpu+by, o.cpu+1-by
	}
	last := len(s.batches) - 1
	for _, p := range s.batches[:last] {
		serve(p)
	}
	fakeDriver.Reset()
	if o.stats = e.Stats()[0]; o.stats.Faults > 0 {
		said.wait("works again", int(o.stats.Faults))
		o.stats = e.Stats()[0]
	}
	before := o.gpu
	if serve(s.batches[last]); o.gpu != before+1 {
		t.Errorf("%s: after it the GPU does not answer", what)
	}
	if now := e.Stats()[0]; !now.Working || now.Faults != now.Rebuilt || int(now.Faults) != said.times("tried again") {
		t.Errorf("%s: %+v, said %q", what, now, said.said)
	}
	o.close = e.Close()
	nothingLeft(t, what+": after Close")
	return o
}

// check checks that all rows of a batch are the answers of one source. It returns 1 if the GPU answered.
func (s *scenario) check(t *testing.T, what string, b *eval.Batch, board, from, to int) int {
	t.Helper()
	gpu, cpu := s.onGPU[board].Slice(from, to), s.onCPU[board].Slice(from, to)
	switch {
	case sameRows(b, &gpu):
		return 1
	case sameRows(b, &cpu):
		return 0
	}
	t.Errorf("%s: a batch has rows of unexpected sources %v", what, slices.Compact(b.Source))
	return 0
}

// calls counts the driver's calls in a scenario without faults, before Close.
func (s *scenario) calls(t *testing.T) map[string]int {
	t.Helper()
	e := s.served(t)
	defer e.Close()
	return fakeDriver.Calls()
}

// served returns an evaluator that has done the whole scenario except Close.
func (s *scenario) served(t *testing.T) *Backend {
	t.Helper()
	fakeDriver.Reset()
	e, _, err := newEvaluator(convolutions{s.network}, s.on, Options{}, quick)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.batches[:len(s.batches)-1] {
		evaluate(t, e, s.boards[p.board], s.pos[p.board][p.from:p.to])
	}
	return e
}
