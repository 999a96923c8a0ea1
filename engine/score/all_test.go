package score_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/engine/solver"
)

// everyPosition finds the positions of unfinished games by playing every move, the slow and obvious way.
func everyPosition(b *game.Board) map[game.Position]bool {
	found := map[game.Position]bool{}
	var play func(p game.Position)
	play = func(p game.Position) {
		key, _ := b.Canonical(p)
		if b.Result(p) != game.Ongoing || found[key] {
			return
		}
		found[key] = true
		for a := range b.Actions() {
			if b.CanPlay(p, a) {
				play(b.Play(p, a))
			}
		}
	}
	play(game.Position{})
	return found
}

var smallBoards = []string{"3x3x3free", "3x3x3", "4x3x3", "3x4x4", "4x4x3", "4x4x4", "2x5x3", "1x1x1", "4x3x4"}

// All visits each position once, with the solver's scores of its moves, the most stones first.
func TestAll(t *testing.T) {
	for _, name := range smallBoards {
		b := game.MustBoard(gametest.Must(game.ParseRules(name))(t))
		want := everyPosition(b)
		solve := gametest.Must(solver.New(b, solver.Options{Threads: 1}))(t)
		found, stones := map[game.Position]bool{}, b.Cells()
		n, err := score.All(t.Context(), b, score.AllOptions{Most: 1 << 20}, func(part []score.Position) error {
			for i, p := range part {
				at := p.State.Position
				if found[at] || !want[at] || at.Plies() > stones || p.State.Mark != at.Mover() {
					t.Errorf("%s: %+v is there: %v, reachable: %v", name, at, found[at], want[at])
				}
				found[at], stones = true, at.Plies()
				if len(want) > 5000 && i%29 != 0 {
					continue // the solver is slower
				}
				if scores, _, err := solve.Scores(t.Context(), at); err != nil || !slices.Equal(scores, p.Scores) {
					t.Fatalf("%s: %+v has scores %v, want %v (%v)", name, at, p.Scores, scores, err)
				}
			}
			return nil
		})
		if err != nil || n != len(want) || len(found) != n {
			t.Errorf("%s: %d positions, %d visited, want %d, error %v", name, n, len(found), len(want), err)
		}
	}
}

func TestAllErrors(t *testing.T) {
	none := func([]score.Position) error { return nil }
	for _, name := range []string{"4x4x4", "7x6x4", "11x10x5", "6x6x4free"} {
		b := game.MustBoard(gametest.Must(game.ParseRules(name))(t))
		if _, err := score.All(t.Context(), b, score.AllOptions{Most: 1000}, none); !errors.Is(err, score.ErrTooMany) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := game.MustBoard(game.Rules{Rows: 4, Columns: 4, InARow: 4, Gravity: true})
	full := errors.New("disk full")
	if _, err := score.All(t.Context(), b, score.AllOptions{Most: 1 << 20}, func([]score.Position) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := score.All(ctx, b, score.AllOptions{Most: 1 << 20}, none); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	stop := func(done int) {
		if done == 10 {
			cancel()
		} else if done > 10+1<<12 {
			t.Fatal("the end of the context does not end Draw")
		}
	}
	if _, err := score.Draw(ctx, b, 1<<20, 1, stop); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Draw finds only unfinished positions, all of them if enough are requested, and each number of stones in proportion to the board's
// positions.
func TestDraw(t *testing.T) {
	for _, name := range smallBoards {
		b := game.MustBoard(gametest.Must(game.ParseRules(name))(t))
		want := everyPosition(b)
		if len(want) > 10000 {
			continue
		}
		drawn := gametest.Must(score.Draw(t.Context(), b, len(want), 1, nil))(t)
		found := map[game.Position]bool{}
		for _, p := range drawn {
			if found[p] = true; !want[p] {
				t.Errorf("%s: %+v cannot be reached", name, p)
			}
		}
		if len(drawn) != len(want) || len(found) != len(want) {
			t.Errorf("%s: %d positions are drawn, want %d", name, len(found), len(want))
		}
	}
	b := game.MustBoard(game.Rules{Rows: 4, Columns: 4, InARow: 4, Gravity: true})
	all := everyPosition(b)
	have, got := map[string]int{}, map[string]int{}
	class := func(p game.Position) string {
		return fmt.Sprintf("%d stones, symmetric %v", p.Plies(), b.Mirror(p) == p)
	}
	for p := range all {
		have[class(p)]++
	}
	const n = 2000
	a, again := gametest.Must(score.Draw(t.Context(), b, n, 3, nil))(t), gametest.Must(score.Draw(t.Context(), b, n, 3, nil))(t)
	if !slices.Equal(a, again) {
		t.Error("the same seed draws other positions")
	}
	for _, p := range a {
		got[class(p)]++
	}
	for name, k := range have {
		mean := float64(n) * float64(k) / float64(len(all))
		if off := math.Abs(float64(got[name]) - mean); off > 5*math.Sqrt(mean)+3 {
			t.Errorf("%s: %d of %d are drawn, want about %.1f", name, got[name], n, mean)
		}
	}
}
