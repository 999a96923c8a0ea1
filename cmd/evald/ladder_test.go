//go:build !windows

package main

import (
	"io"
	"math"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/arena"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
)

// With EVALD_SOAK: each level is 80 Elo or more ahead of the one before it in 200 games, the weakest loses to a player that looks one stone
// ahead on each side and else plays at random, the best gives no result away, and the Elo that the levels claim is what the matches give. The log has the ladder.
func TestLadder(t *testing.T) {
	if !gametest.Soak() {
		t.Skip("plays 2,400 games: EVALD_SOAK=1m")
	}
	shared := shareAgents(processors{}, io.Discard)
	b := game.MustBoard(game.Connect4)
	best := play.Levels[len(play.Levels)-1]
	rating, below := 0.0, gametest.Must(agent.Parse("random"))(t)
	for i, l := range play.Levels {
		elo, games := matchOf(t, b, l.Agent, below, shared)
		rating += elo
		t.Logf("%-10s%+5.0f Elo ahead of %v; %.0f by all matches, claims %d", l.Name, elo, below, rating, l.Elo)
		if elo < 80 {
			t.Errorf("%s is only %.0f Elo ahead of %v", l.Name, elo, below)
		}
		if math.Abs(rating-float64(l.Elo)) > 60*math.Sqrt(float64(i+1)) {
			t.Errorf("%s claims %d Elo, and has %.0f", l.Name, l.Elo, rating)
		}
		if l == best {
			keeps(t, b, l.Agent, games)
		}
		slow := slowest(t, b, l.Agent, games, shared)
		t.Logf("%-10s99 of 100 moves take %v of processor time at most", l.Name, slow)
		below = l.Agent
	}
	onePly := gametest.Must(agent.Parse("human:model=uniform,ahead=2,temperature=1"))(t)
	if elo, _ := matchOf(t, b, onePly, play.Levels[0].Agent, shared); elo < 40 {
		t.Errorf("%v is only %.0f Elo ahead of the weakest level", onePly, elo)
	}
}

// matchOf is how far one agent is ahead of another in 200 games, and these games.
func matchOf(t *testing.T, b *game.Board, one, other agent.Spec, shared agent.Shared) (elo float64, games []arena.Game) {
	t.Helper()
	const pairs, seed = 100, 2026
	openings, _, err := arena.RandomOpenings(b, arena.DefaultPlies(b), pairs, seed)
	gametest.OK(t, err)
	m := arena.Match{Board: b, Players: arena.Players([]agent.Spec{one, other}, shared), Openings: openings, Seed: seed, Concurrency: 1}
	gametest.OK(t, m.Run(t.Context(), nil, func(g arena.Game) error { games = append(games, g); return nil }))
	table := arena.NewTable(m.Names(), games)
	for _, p := range table.Meetings {
		if elo = p.Elo; p.A != m.Names()[0] {
			elo = -elo
		}
	}
	return elo, games
}

// keeps fails the test for each move of an agent in these games that gives a result away, by the solver.
func keeps(t *testing.T, b *game.Board, spec agent.Spec, games []arena.Game) {
	t.Helper()
	s := gametest.Must(solver.New(b, solver.Options{}))(t)
	known := solver.Nodes(solver.ProbeNodes).For(b)
	result := func(p game.Position) game.Result {
		if r := known.Known(p); r != game.Ongoing {
			return r
		}
		return game.ResultOf(gametest.Must(s.WDL(t.Context(), p))(t).Score)
	}
	moves := 0
	for _, g := range games {
		first := g.First == spec.String()
		_, actions, err := b.ParseMoves(g.Moves)
		gametest.OK(t, err)
		var p game.Position
		for i, action := range actions {
			next := b.Play(p, action)
			if i >= arena.DefaultPlies(b) && (i%2 == 0) == first {
				moves++
				if before, after := result(p), result(next); before != after.Flip() {
					t.Errorf("%v gives a %v away by move %d of %s", spec, before, i+1, g.Moves)
				}
			}
			p = next
		}
	}
	t.Logf("%v: %d moves checked", spec, moves)
}

// slowest is the processor time that 99 of 100 moves in these games take at most, if an agent is asked for them. A third of the moves is asked for.
func slowest(t *testing.T, b *game.Board, spec agent.Spec, games []arena.Game, shared agent.Shared) time.Duration {
	t.Helper()
	a := gametest.Must(agent.New(spec, shared))(t)
	used := func() time.Duration {
		var u syscall.Rusage
		gametest.OK(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	var took []time.Duration
	for _, g := range games {
		_, actions, err := b.ParseMoves(g.Moves)
		gametest.OK(t, err)
		var p game.Position
		for i, action := range actions {
			if i >= arena.DefaultPlies(b) && i%3 == 0 {
				began := used()
				_ = gametest.Must(a.Move(t.Context(), b, p))(t)
				took = append(took, used()-began)
			}
			p = b.Play(p, action)
		}
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}
