package mcts_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts"
)

// randomGame is a game of random moves from p: 1, 0 or -1 for the side to move.
func randomGame(r *rand.Rand, b *game.Board, p game.Position) float64 {
	switch b.Result(p) {
	case game.Loss:
		return -1
	case game.Draw:
		return 0
	}
	legal := b.Legal(p)
	return -randomGame(r, b, b.PlayCell(p, legal.Nth(r.IntN(legal.OnesCount()))))
}

// flat searches p with random games as evaluator.
func flat(t *testing.T, b *game.Board, p game.Position, visits, leaves int, seed uint64) found {
	t.Helper()
	c := mcts.DefaultConfig(mcts.Flat)
	c.Visits, c.MaxNodes, c.Seed = visits, 0, seed
	tr := tree(t, b, c, p)
	e := eval.New(heuristic.Rollout{Games: 1, Seed: seed}, eval.Options{})
	gametest.OK(t, mcts.Search(t.Context(), e, []*mcts.Tree{tr}, mcts.Limits{Visits: visits, Batch: 1, Leaves: leaves}))
	return find(tr)
}

// Flat Monte Carlo is random games after each move, equally many, of which the best mean is played. The means of both forms of n games have
// a standard deviation of at most 1/sqrt(n) each, so they differ by more than 5*sqrt(2/n) once in a million comparisons.
func TestFlat(t *testing.T) {
	const n = 2000
	bound := 5 * math.Sqrt(2./n)
	for _, rules := range []string{"3x3x3free", "7x6x4"} {
		b := gametest.Must(new(game.Boards).Parse(rules))(t)
		r := gametest.Rand(8)
		for _, p := range append(gametest.Open(r, b, 8), game.Position{}) {
			moves := b.Legal(p).OnesCount()
			got := flat(t, b, p, 1+n*moves, 1, 3)
			best, second := -1, math.Inf(-1)
			most := math.Inf(-1)
			for _, m := range got.Moves {
				want := 0.0
				for range n {
					want -= randomGame(r, b, b.Play(p, m.Action)) / n
				}
				if m.Visits != n || math.Abs(m.Q-want) > bound {
					t.Errorf("%s %s, move %d: the mean of %d visits is %.3f, want %d and %.3f", rules, b.Text(p), m.Action+1, m.Visits, m.Q, n, want)
				}
				if want > most {
					best, most, second = m.Action, want, most
				} else {
					second = max(second, want)
				}
			}
			if most-second > 2*bound && got.Best != best {
				t.Errorf("%s %s: plays %d, want %d", rules, b.Text(p), got.Best+1, best+1)
			}
		}
	}
}

// The root's moves have equal shares after any number of visits and with any number of leaves at once, also where some of them end the
// game. Equal seeds give equal trees, others do not.
func TestFlatShares(t *testing.T) {
	r := gametest.Rand(9)
	for _, rules := range []string{"3x3x3free", "5x4x4"} {
		b := gametest.Must(new(game.Boards).Parse(rules))(t)
		differ := 0
		for _, p := range gametest.Open(r, b, 40) {
			visits, leaves, seed := 2+r.IntN(200), 1+r.IntN(20), r.Uint64()
			got, moves := flat(t, b, p, visits, leaves, seed), b.Legal(p).OnesCount()
			for i, m := range got.Moves {
				want := (visits - 1) / moves
				if i < (visits-1)%moves {
					want++
				}
				if m.Visits != want {
					t.Errorf("%s %s: move %d of %d has %d of %d visits with %d leaves, want %d", rules, b.Text(p), i+1, moves, m.Visits, visits, leaves, want)
				}
			}
			if again := flat(t, b, p, visits, leaves, seed); !reflect.DeepEqual(got, again) {
				t.Errorf("%s %s: equal seeds differ (-first +again):\n%s", rules, b.Text(p), cmp.Diff(got, again))
			}
			if other := flat(t, b, p, visits, leaves, seed+1); !reflect.DeepEqual(got, other) {
				differ++
			}
		}
		if differ < 20 {
			t.Errorf("%s: another seed changes %d of 40 searches", rules, differ)
		}
	}
}
