package review

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
)

// players are agents of different strengths, the last of which never errs.
var players = []string{
	"random", "negamax", "flat:sims=30", "uct:sims=100", "uct:sims=1000", "uct-bitsquares:sims=300", "mcts:model=bitsquares,visits=200",
	"mcts:model=bitsquares,visits=2000", "solver:random=true",
}

var solved agent.Solved

// played returns the moves of a game between two of the players, whom the number chooses.
func played(t testing.TB, b *game.Board, number uint64) (moves []int, names [2]string) {
	t.Helper()
	shared := agent.Shared{Ships: solver.ShippedBook, Solved: &solved}
	random := gametest.Rand(number)
	var agents [2]agent.Agent
	for side := range agents {
		names[side] = players[random.IntN(len(players))]
		spec := gametest.Must(agent.Parse(names[side]))(t)
		spec.Seed = 1 + random.Uint64()>>1
		agents[side] = gametest.Must(agent.New(spec, shared))(t)
	}
	var p game.Position
	for b.Result(p) == game.Ongoing {
		a := gametest.Must(agents[len(moves)%2].Move(t.Context(), b, p))(t)
		if len(moves) < 2 {
			a = b.Action(b.Legal(p).Nth(random.IntN(b.Legal(p).OnesCount())).First()) // no two games are alike
		}
		moves, p = append(moves, a), b.Play(p, a)
	}
	return moves, names
}

// pageTime is the time that the page gives the solver for a game.
const pageTime = 1200 * time.Millisecond

// TestGames reviews games of all strengths within the time of the page, on two cores, and compares every mark with scores that
// are found position by position. EVALD_SOAK makes it 200 games; -v prints the times.
func TestGames(t *testing.T) {
	if testing.Short() || gametest.Race {
		t.Skip("solves whole games")
	}
	games := 5
	if gametest.Soak() {
		games = 200
	}
	b := game.MustBoard(game.Connect4)
	truth := gametest.Must(solver.New(b, solver.Options{Book: solver.ShippedBook(b.Rules()), TableMiB: 64, Threads: 2}))(t)
	var times []time.Duration
	marks, open := 0, 0
	for number := range uint64(games) {
		moves, names := played(t, b, number)
		began := time.Now()
		r := gametest.Must(New(b, Options{Book: solver.ShippedBook(b.Rules()), Threads: 2}))(t)
		ctx, cancel := context.WithTimeout(t.Context(), pageTime)
		g := r.Game(ctx, moves)
		cancel()
		times = append(times, time.Since(began))
		marks += len(moves)
		for i, m := range g.Marks {
			if m.Kind == NotProved || m.Kind == Kept || m.Kind == Worse || m.AtLeast || g.Critical[i] == Unknown {
				open++
			}
		}
		compare(t, truth, moves, g)
		t.Logf("game %d, %s against %s, %d moves: %v", number, names[0], names[1], len(moves), times[number].Round(time.Millisecond))
	}
	slices.Sort(times)
	at := func(share float64) time.Duration {
		return times[min(len(times)-1, int(share*float64(len(times))))].Round(time.Millisecond)
	}
	t.Logf("%d games, %d moves: p50 %v, p95 %v, p99 %v, longest %v; %d moves not wholly proved", games, marks, at(.5), at(.95), at(.99), at(1), open)
}

// compare holds a review against the scores of its positions, and in the later ones of all their moves, that a solver finds
// which knows nothing of the game.
func compare(t *testing.T, truth *solver.Solver, moves []int, g *Review) {
	t.Helper()
	b := truth.Board()
	scores := make([]int, len(g.Positions))
	for i, p := range g.Positions {
		truth.Reset()
		scores[i] = gametest.Must(truth.Score(t.Context(), p))(t).Score
		if s := g.Scores[i]; s.Low > scores[i] || s.High < scores[i] {
			t.Errorf("%v: after %d moves %v, is %d", moves, i, s, scores[i])
		}
	}
	for i, m := range g.Marks {
		agrees(t, moves, i, m, markOf(Bounds{scores[i], scores[i]}, Bounds{-scores[i+1], -scores[i+1]}))
		if i < b.Cells()/3 || g.Critical[i] == Unknown {
			continue
		}
		all, _, err := truth.Scores(t.Context(), g.Positions[i])
		gametest.OK(t, err)
		want := No
		for _, score := range all {
			if score != solver.NoMove && scores[i] >= 0 && game.ResultOf(score) != game.ResultOf(scores[i]) {
				want = Yes
			}
		}
		if g.Critical[i] != want {
			t.Errorf("%v: move %d is critical %v, want %v", moves, i, g.Critical[i], want)
		}
	}
}
