package agent_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// plays counts, by the number of the move, what an agent plays in a position with the seeds from 0 on.
func plays(t testing.TB, text string, b *game.Board, p game.Position, seeds int) map[int]int {
	t.Helper()
	counts := map[int]int{}
	for seed := range seeds {
		counts[move(t, make1(t, fmt.Sprintf("%s,seed=%d", text, seed)), b, p)]++
	}
	return counts
}

// near reports whether a count of n trials is what a probability gives, within four standard deviations.
func near(count, n int, probability float64) bool {
	mean := float64(n) * probability
	return math.Abs(float64(count)-mean) <= 4*math.Sqrt(mean*(1-probability))+1e-9
}

// What a human overlooks, and how often. Where it sees nothing and has no opinion, each move is played as often as any other.
func TestHumanMistakes(t *testing.T) {
	const seeds = 2000
	for _, c := range []struct {
		moves, keys string
		action      int
		probability float64 // that the action is played
	}{
		{"121212", "ahead=1", 0, 1}, // its own line
		{"121212", "ahead=0", 0, 1. / 7},
		{"121212", "ahead=1,threats=1,diagonals=1", 0, 1},
		{"12121", "ahead=2", 0, 1}, // a block
		{"12121", "ahead=1", 0, 1. / 7},
		{"12121", "ahead=2,diagonals=1", 0, 1},
		{"12121", "ahead=2,threats=1", 0, 1. / 7},
		{"12121", "ahead=2,threats=0.5", 0, 0.5 + 0.5/7},
		{"1223433447", "ahead=2", 3, 1}, // a diagonal line
		{"1223433447", "ahead=2,diagonals=1", 3, 1. / 7},
		{"1223433447", "ahead=2,diagonals=0.3", 3, 0.7 + 0.3/7},
		{"122343344", "ahead=2", 3, 1}, // its block
		{"122343344", "ahead=2,diagonals=1", 3, 1. / 7},
		{"122343344", "ahead=2,diagonals=0.5,threats=0.5", 3, 0.25 + 0.75/7},
		{"334", "ahead=4", 1, 0.5}, // both moves that keep the other side from a double attack
		{"334", "ahead=2", 1, 1. / 7},
	} {
		b := game.MustBoard(game.Connect4)
		p, _, err := b.ParseMoves(c.moves)
		gametest.OK(t, err)
		text := "human:model=uniform,temperature=1," + c.keys
		if got := plays(t, text, b, p, seeds)[c.action]; !near(got, seeds, c.probability) {
			t.Errorf("%s, %s: %d of %d moves are %d, want %.0f", c.moves, text, got, seeds, c.action, c.probability*seeds)
		}
	}
}

// A human draws by the model's policy to the power 1/temperature, and at 0 takes the likeliest move. An overlooked line does not
// show in the policy.
func TestHumanTemperature(t *testing.T) {
	const seeds = 4000
	b := game.MustBoard(game.Connect4)
	e := gametest.Must(stubModels("stub"))(t)
	for _, moves := range []string{"4", "12345", "12121", "121212"} {
		p, _, err := b.ParseMoves(moves)
		gametest.OK(t, err)
		batch := eval.NewBatch(b, 1)
		var mirrored bool
		batch.Pos[0], mirrored = b.Canonical(p)
		gametest.OK(t, e.Leaves(t.Context(), batch))
		weights := make([]float64, b.Actions())
		for a := range weights {
			from := a
			if mirrored {
				from = b.MirrorAction(a)
			}
			weights[a] = float64(batch.Policy[from])
		}
		if len(moves) > 5 || moves == "12121" { // column 1 completes a line, which this agent overlooks
			weights[0] = 1. / 7
		}
		if moves == "121212" { // as does column 2, for the other side
			weights[1] = 1. / 7
		}
		best := slices.Index(weights, slices.Max(weights))
		if got := plays(t, "human:model=stub", b, p, 10); got[best] != 10 {
			t.Errorf("%s, temperature 0: plays %v, want %d of %v", moves, got, best, weights)
		}
		for _, temperature := range []float64{0.5, 1, 3} {
			sum := 0.0
			for _, w := range weights {
				sum += math.Pow(w, 1/temperature)
			}
			got := plays(t, fmt.Sprintf("human:model=stub,temperature=%v", temperature), b, p, seeds)
			for a, w := range weights {
				if want := math.Pow(w, 1/temperature) / sum; !near(got[a], seeds, want) {
					t.Errorf("%s, temperature %v: move %d is played %d times of %d, want %.0f", moves, temperature, a, got[a], seeds, seeds*want)
				}
			}
		}
	}
}

// slowLook is what depth more stones decide for the side to move, the slow and obvious way.
func slowLook(b *game.Board, p game.Position, depth int) game.Result {
	if r := b.Result(p); r != game.Ongoing || depth == 0 {
		return r
	}
	best := game.Loss
	for a := range b.Actions() {
		if !b.CanPlay(p, a) {
			continue
		}
		switch r := slowLook(b, b.Play(p, a), depth-1); r {
		case game.Loss:
			return game.Win
		case game.Win:
		default:
			best = game.Ongoing
		}
	}
	return best
}

// A human plays moves that the slow way keeps, on all boards, and each of them sometimes.
func TestHumanSight(t *testing.T) {
	for _, b := range gametest.Boards() {
		ahead := 4
		if b.Actions() > 9 {
			ahead = 2
		}
		for _, p := range gametest.Open(gametest.Rand(17), b, 12) {
			want := map[int]bool{}
			for depth := 0; depth < ahead; depth++ {
				wins, open := map[int]bool{}, map[int]bool{}
				for a := range b.Actions() {
					if !b.CanPlay(p, a) || depth > 0 && !want[a] {
						continue
					}
					switch slowLook(b, b.Play(p, a), depth) {
					case game.Loss:
						wins[a] = true
					case game.Win:
					default:
						open[a] = true
					}
				}
				if len(wins) > 0 {
					want = wins
					break
				}
				if len(open) == 0 {
					break
				}
				want = open
			}
			got := plays(t, fmt.Sprintf("human:model=uniform,temperature=1,ahead=%d", ahead), b, p, 20*len(want))
			for a := range b.Actions() {
				if (got[a] > 0) != want[a] && (got[a] > 0 || len(want) < 5) {
					t.Errorf("%v %+v: move %d is played %d times, want any: %v", b.Rules(), p, a, got[a], want[a])
				}
			}
		}
	}
}

// On a large board a human stops looking after a number of positions, and what it then plays still follows from the seed.
func TestHumanBound(t *testing.T) {
	b := gametest.Must(new(game.Boards).Parse("8x8x5free"))(t)
	for _, p := range gametest.Open(gametest.Rand(2), b, 5) {
		if one, two := move(t, make1(t, "human:ahead=128"), b, p), move(t, make1(t, "human:ahead=128"), b, p); one != two {
			t.Errorf("%+v: plays %d, then %d", p, one, two)
		}
	}
}

// The same seed gives the same moves in any order; another seed gives others.
func TestHumanSeeded(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	positions := gametest.Open(gametest.Rand(8), b, 50)
	all := func(seed int, order func(func(int, game.Position))) []int {
		a, moves := make1(t, fmt.Sprintf("human:model=stub,ahead=2,threats=0.3,temperature=9,seed=%d", seed)), make([]int, len(positions))
		order(func(i int, p game.Position) { moves[i] = move(t, a, b, p) })
		return moves
	}
	forth := func(do func(int, game.Position)) {
		for i, p := range positions {
			do(i, p)
		}
	}
	back := func(do func(int, game.Position)) {
		for i, p := range slices.Backward(positions) {
			do(i, p)
		}
	}
	if one, two := all(1, forth), all(1, back); !slices.Equal(one, two) {
		t.Errorf("forth %v, back %v", one, two)
	}
	if one, two := all(1, forth), all(2, forth); slices.Equal(one, two) {
		t.Error("the seeds 1 and 2 play alike")
	}
}

// A human whose network fails says so.
func TestHumanFails(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	broken := agent.Shared{Models: func(string) (*eval.Evaluator, error) { return eval.New(brokenBackend{}, eval.Options{}), nil }}
	if _, err := newAgent(t, "human", broken).Move(t.Context(), b, game.Position{}); err == nil || err.Error() != "human: broken" {
		t.Errorf("error %v, want human: broken", err)
	}
}

type brokenBackend struct{}

func (brokenBackend) Attributes() eval.Attributes { return eval.Attributes{Rows: 1} }

func (brokenBackend) Compute(context.Context, *eval.Batch) error { return fmt.Errorf("broken") }
