package arena

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// The regression finds the highest point of a known strength, and nine of ten intervals have it.
func TestTuneFit(t *testing.T) {
	gametest.OneGoroutine(t)
	t.Parallel()
	tuning := Tuning{Constants: []Constant{{Name: "a", Low: 0.5, High: 8, Usual: 1, Log: true}, {Name: "b", Low: 0, High: 1, Usual: 0.2}}}
	best := []float64{0.4, -0.1}
	usual := tuning.usual()
	strength := func(at []float64) float64 {
		x, y := at[0]-best[0], at[1]-best[1]
		return -1.5*x*x - 1.2*y*y + 0.4*x*y
	}
	covered, far := [2]int{}, 0.
	const runs = 10
	for seed := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed, 7))
		var s sample
		for range 600 {
			at := uniform(r, 2)
			p, score := logistic(strength(at)-strength(usual)), 0.
			for range 2 {
				if r.Float64() < p {
					score++
				}
			}
			s.at, s.scores = append(s.at, at), append(s.scores, score)
		}
		found := s.fit(usual)
		if got := found.strength(usual); got != 0 {
			t.Fatalf("the usual constants have strength %v, want 0", got)
		}
		at := found.highest()
		far += strength(best) - strength(at)
		low, high := tuning.interval(r, s)
		for i, x := range tuning.values(best) {
			if low[i] <= x && x <= high[i] {
				covered[i]++
			}
		}
	}
	if far/runs*elo > 15 {
		t.Errorf("what is found is %.0f Elo below the best, on average", far/runs*elo)
	}
	if min(covered[0], covered[1]) < runs*3/4 {
		t.Errorf("of %d intervals %d and %d have the best constant", runs, covered[0], covered[1])
	}
}

// The gradient of the likelihood is zero at the fitted weights: a slow check of Newton's method.
func TestTuneNewton(t *testing.T) {
	t.Parallel()
	r := gametest.Rand(3)
	usual := []float64{0.1, -0.3}
	var s sample
	for range 50 {
		s.at, s.scores = append(s.at, uniform(r, 2)), append(s.scores, float64(r.IntN(5))/2)
	}
	q := s.fit(usual)
	likelihood := func(weights []float64) (sum float64) {
		f := quadratic{weights, usual}
		for i, at := range s.at {
			p := logistic(f.strength(at))
			sum += s.scores[i]*math.Log(p) + (2-s.scores[i])*math.Log(1-p)
		}
		for _, w := range weights {
			sum -= w * w / 8
		}
		return sum
	}
	for i := range q.weights {
		for _, d := range []float64{-0.01, 0.01} {
			other := slices.Clone(q.weights)
			if other[i] += d; likelihood(other) >= likelihood(q.weights) {
				t.Errorf("weight %d: the likelihood is greater at %v than at %v", i, other, q.weights)
			}
		}
	}
}

// Values are within their ranges, whole if they must be, and rounded to thousandths.
func TestTuneValues(t *testing.T) {
	tuning := Tuning{Constants: []Constant{{Name: "a", Low: 0.0004, High: 2, Usual: 1, Log: true}, {Name: "b", Low: 2.5, High: 9, Usual: 4, Whole: true}}}
	r := gametest.Rand(1)
	for i := range 200 {
		at := uniform(r, 2)
		if i < 2 {
			at = []float64{float64(2*i - 1), float64(2*i - 1)} // an end
		}
		v := tuning.values(at)
		if a := v[0]; a < 0.0004 || a > 2 || a != 0.0004 && math.Abs(a*1000-math.Round(a*1000)) > 1e-9 {
			t.Errorf("a is %v at %v", a, at)
		}
		if b := v[1]; b < 2.5 || b > 9 || b != math.Trunc(b) && b != 2.5 {
			t.Errorf("b is %v at %v", b, at)
		}
	}
}

// erring plays at random as often as its constants are away from the best, and else the best move.
type erring struct {
	agent.Agent
	random agent.Agent
	often  float64
	r      *rand.Rand
}

func (e erring) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	if e.r.Float64() < e.often {
		return e.random.Move(ctx, b, p)
	}
	return e.Agent.Move(ctx, b, p)
}

// Tuning finds by games the constants with which a player errs least, the match shows that it is better, and the same seed finds the
// same.
func TestTune(t *testing.T) {
	if gametest.Race {
		t.Skip("20 s under the race detector, and TestMatch plays games in the same goroutines")
	}
	t.Parallel()
	tuning := Tuning{
		Board: gametest.Must(new(game.Boards).Parse("5x4x4"))(t), Games: 300, Seed: 5, Concurrency: 2,
		Constants: []Constant{{Name: "x", Low: 0.25, High: 4, Usual: 0.5, Log: true}},
		New: func(values []float64) Player {
			return Player{Name: fmt.Sprint("x=", values[0]), New: func(seed uint64) (agent.Agent, error) {
				random := gametest.Must(agent.New(agent.Spec{Name: "random", Search: ask.Search{Seed: seed}}, agent.Shared{}))(t)
				best := gametest.Must(agent.New(agent.Spec{Name: "solver", Search: ask.Search{Seed: seed}, Random: true}, agent.Shared{}))(t)
				return erring{best, random, min(1, math.Abs(math.Log(values[0]/2))), gametest.Rand(seed)}, nil
			}}
		},
	}
	var games []int
	best := gametest.Must(tuning.Run(t.Context(), func(n int, _ []float64) { games = append(games, n) }))(t)
	t.Logf("%+v", best)
	if v := best.Values[0]; v < 1.3 || v > 3 || best.Low[0] > v || best.High[0] < v {
		t.Errorf("best %v (%v to %v), want about 2", v, best.Low[0], best.High[0])
	}
	if best.Games+best.Match.Games != 300 || games[len(games)-1] != 300 || !slices.IsSorted(games) {
		t.Errorf("%d games look and %d measure, want 300 in all; progress %v", best.Games, best.Match.Games, games)
	}
	if s := best.Match.Standings[0]; s.Player != fmt.Sprint("x=", best.Values[0]) || s.Elo < 50 {
		t.Errorf("the match has %+v", s)
	}
	again := gametest.Must(tuning.Run(t.Context(), nil))(t)
	if !slices.Equal(again.Values, best.Values) || !slices.Equal(again.High, best.High) {
		t.Errorf("the same seed finds %+v", again)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tuning.Run(ctx, nil); err == nil {
		t.Error("no error after the context ended")
	}
	tuning.Games = 10
	if _, err := tuning.Run(t.Context(), nil); err == nil {
		t.Error("10 games are tuned with")
	}
}
