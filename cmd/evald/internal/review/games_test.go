package review

import (
	"context"
	"fmt"
	"runtime"
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

// TestGames reviews games of all strengths within the time of the page, on two cores, and holds every mark against scores that
// are found position by position. EVALD_SOAK makes it 200 games, and prints the times.
func TestGames(t *testing.T) {
	if testing.Short() || gametest.Race {
		t.Skip("solves whole games")
	}
	games := 16
	if gametest.Soak() {
		games = 200
	}
	b := game.MustBoard(game.Connect4)
	var times []time.Duration
	marks, open := 0, 0
	for number := range uint64(games) {
		moves, names := played(t, b, number)
		began := time.Now()
		r := gametest.Must(New(b, Options{Book: solver.ShippedBook(b.Rules()), Threads: min(2, runtime.NumCPU())}))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		g := r.Game(ctx, moves)
		cancel()
		times = append(times, time.Since(began))
		bad := 0
		for i, m := range g.Marks {
			if m.Kind == NotProved || m.Kind == Kept || m.Kind == Worse || m.AtLeast {
				bad++
			}
			if g.Critical[i] == Unknown {
				open++
			}
		}
		if bad > 0 {
			open += bad
		}
		marks += len(moves)
		t.Logf("game %d, %s against %s, %d moves: %v, %d not proved", number, names[0], names[1], len(moves), times[number].Round(time.Millisecond), bad)
	}
	slices.Sort(times)
	at := func(share float64) time.Duration { return times[min(len(times)-1, int(share*float64(len(times))))].Round(time.Millisecond) }
	t.Log(fmt.Sprintf("%d games, %d moves: p50 %v, p95 %v, p99 %v, longest %v; %d of moves not wholly proved", games, marks, at(.5), at(.95), at(.99), times[len(times)-1], open))
}
