package sample_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/sample"
)

func draw(t *testing.T, b *game.Board, k sample.Kind, n int, seed uint64) [][]int {
	t.Helper()
	return gametest.Must(sample.Draw(t.Context(), b, k, n, seed, nil))(t)
}

// On boards of all sorts, positions are reached by legal moves, are not over, have a number of plies of their kind, each
// about equally often, and are distinct, also up to mirror images.
func TestDraw(t *testing.T) {
	for _, rules := range []game.Rules{game.Connect4, {Rows: 4, Columns: 5, InARow: 4, Gravity: true}, {Rows: 9, Columns: 12, InARow: 5, Gravity: true}, {Rows: 4, Columns: 4, InARow: 4}} {
		b := game.MustBoard(rules)
		for _, k := range sample.Kinds() {
			n := 180
			if b.Wide() {
				n = 20 // long searches
			}
			from, to := k.Plies(b)
			games := draw(t, b, k, n, 1)
			seen, plies := map[game.Position]bool{}, map[int]int{}
			for _, moves := range games {
				p, _, err := b.ParseMoves(game.FormatMoves(rules, moves))
				if err != nil {
					t.Fatalf("%v, %s: %v", rules, k, err)
				}
				key, _ := b.Canonical(p)
				if seen[key] || seen[b.Mirror(key)] || b.Result(p) != game.Ongoing || len(moves) < from || len(moves) > to {
					t.Errorf("%v, %s: %v: seen before %v, %v, %d plies of %d to %d", rules, k, moves, seen[key], b.Result(p), len(moves), from, to)
				}
				seen[key] = true
				plies[len(moves)]++
			}
			if rules != game.Connect4 {
				continue
			}
			if len(games) != n {
				t.Errorf("%s: %d positions, want %d", k, len(games), n)
			}
			mean := float64(n) / float64(to-from+1)
			for at := from; at <= to; at++ {
				// Six standard deviations of a random count with that mean.
				if d := float64(plies[at]) - mean; d*d > 36*mean {
					t.Errorf("%s: %d positions of %d plies, want about %.1f", k, plies[at], at, mean)
				}
			}
		}
	}
}

// Positions are determined by the seed, and a shorter list is the start of a longer one.
func TestSeed(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	for _, k := range sample.Kinds() {
		one, other := draw(t, b, k, 40, 3), draw(t, b, k, 40, 4)
		if diff := cmp.Diff(one[:25], draw(t, b, k, 25, 3)); diff != "" {
			t.Errorf("%s: the same seed (-want +got):\n%s", k, diff)
		}
		if cmp.Equal(one, other) {
			t.Errorf("%s: another seed gives the same positions", k)
		}
	}
}

// The kinds differ as their names say: random play leaves more wins on the board.
func TestKindsDiffer(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	const n = 400
	wins := map[sample.Kind]int{}
	for _, k := range []sample.Kind{sample.Random, sample.Plausible} {
		for _, moves := range draw(t, b, k, n, 1) {
			if !b.Wins(b.PlayMoves(moves)).IsZero() {
				wins[k]++
			}
		}
	}
	// Five standard deviations of the difference of two such counts are less than 5*sqrt(2*n/4) = 71.
	if wins[sample.Random] < wins[sample.Plausible]+71 {
		t.Errorf("won with the next stone, of %d each: %v", n, wins)
	}
}

// All positions of a small board are found, except some that occur once in thousands of games; then Draw ends.
func TestSmallBoard(t *testing.T) {
	b := game.MustBoard(game.Rules{Rows: 3, Columns: 3, InARow: 3, Gravity: true})
	for _, k := range sample.Kinds() {
		from, to := k.Plies(b)
		all := map[game.Position]bool{}
		var walk func(p game.Position, plies int)
		walk = func(p game.Position, plies int) {
			if b.Result(p) != game.Ongoing {
				return
			}
			if key, _ := b.Canonical(p); plies >= from {
				all[key] = true
			}
			for a := range b.Actions() {
				if plies < to && b.CanPlay(p, a) {
					walk(b.Play(p, a), plies+1)
				}
			}
		}
		walk(game.Position{}, 0)
		games := draw(t, b, k, 10_000, 1)
		if len(games) > len(all) || k != sample.Plausible && len(games) < len(all)*95/100 {
			t.Errorf("%s: %d positions of %d", k, len(games), len(all))
		}
		for _, moves := range games {
			if key, _ := b.Canonical(b.PlayMoves(moves)); !all[key] {
				t.Errorf("%s: %v is none of them", k, moves)
			}
		}
	}
	// The first stone wins, so no game reaches the least number of plies.
	if games := draw(t, game.MustBoard(game.Rules{Rows: 3, Columns: 3, InARow: 1, Gravity: true}), sample.Random, 5, 1); len(games) != 0 {
		t.Errorf("%v", games)
	}
}

// Draw ends when ctx does, and reports its progress until then.
func TestCancelled(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	for _, k := range sample.Kinds() {
		ctx, cancel := context.WithCancel(t.Context())
		var heard []int
		_, err := sample.Draw(ctx, b, k, 1000, 1, func(done int) {
			if heard = append(heard, done); done == 5 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) || !slices.Equal(heard, []int{1, 2, 3, 4, 5}) || !strings.Contains(fmt.Sprint(err), string(k)+" play") {
			t.Errorf("%s: heard %v, error %v", k, heard, err)
		}
	}
}

// No position of plausible play is in the test sets on which results are published.
func TestNotPublished(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	known := map[game.Position]string{}
	for _, name := range []string{"Test_L3_R1", "Test_L2_R1", "Test_L1_R1", "Test_L2_R2_first500", "Test_L1_R2_first500", "Test_L1_R3_first500"} {
		for _, line := range gametest.DataLines(t, "pons/"+name) {
			moves, _, _ := strings.Cut(line, " ")
			p, _, err := b.ParseMoves(moves)
			gametest.OK(t, err)
			key, _ := b.Canonical(p)
			known[key] = moves
		}
	}
	for _, moves := range draw(t, b, sample.Plausible, 500, 0) {
		if key, _ := b.Canonical(b.PlayMoves(moves)); known[key] != "" {
			t.Errorf("%v is %s of the published sets", moves, known[key])
		}
	}
}
