package solver

import (
	"slices"
	"testing"

	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// A panic of any thread ends the search of all, and is repeated in the goroutine that asked.
func TestThreadsPanic(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	for broken := range 3 {
		s := gametest.Must(New(b, Options{Threads: 3}))(t)
		f := s.prover.(*fast)
		f.workers[broken].frames = nil
		err := func() (err error) {
			defer fault.Catch(&err)
			_, err = s.Solve(t.Context(), game.Position{}) // takes minutes unless the panic ends it
			return err
		}()
		if fault.In(err) == nil {
			t.Errorf("thread %d: %v, want a fault", broken, err)
		}
	}
}

// The memory of a probe that panicked is not used again, nor does it keep others from their probes.
func TestProbePanics(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	p := gametest.Must(NewProber(b, 1000))(t)
	ps := slices.DeleteFunc(gametest.Open(gametest.Rand(2), b, 100), func(pos game.Position) bool { return !p.Worth(pos) })
	whole := gametest.Must(NewProber(b, 1000))(t)
	for range 2 * cap(tables) {
		for name, call := range map[string]func(){
			"Probe": func() { p.Probe(ps[0]) }, "Moves": func() { p.Moves(ps[0], false) }, "Away": func() { p.Away(t.Context(), ps[0]) },
		} {
			w := p.newProbe()
			w.solver.prover = nil
			p.idle.New = func() any { return w }
			if err := func() (err error) { defer fault.Catch(&err); call(); return nil }(); fault.In(err) == nil {
				t.Errorf("%s: %v, want a fault", name, err)
			}
		}
	}
	p.idle.New = func() any { return p.newProbe() }
	for i, pos := range ps {
		r, moves := p.Moves(pos, false)
		if want, same := whole.Moves(pos, false); r != want || moves != same {
			t.Errorf("position %d: %v, %v after panics; want %v, %v", i, r, moves, want, same)
		}
		gr, gd, gl := p.Away(t.Context(), pos)
		if r, d, l := whole.Away(t.Context(), pos); r != gr || d != gd || l != gl {
			t.Errorf("position %d: away %v after panics, want %v", i, gr, r)
		}
	}
}
