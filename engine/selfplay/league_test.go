package selfplay_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/selfplay"
)

// leagueOf plays games of a league and returns them by their numbers.
func leagueOf(t *testing.T, c selfplay.Config, games int, members ...selfplay.Member) []*selfplay.Game {
	t.Helper()
	number, all := -1, make([]*selfplay.Game, games)
	next := func() (int, bool) { number++; return number, number < games }
	gametest.OK(t, selfplay.PlayLeague(t.Context(), members, c, next, func(g *selfplay.Game) error {
		if all[g.Number] != nil {
			t.Errorf("game %d is played twice", g.Number)
		}
		all[g.Number] = g
		return nil
	}))
	if i := slices.Index(all, nil); i >= 0 {
		t.Fatalf("game %d is missing", i)
	}
	return all
}

// A league of a network and itself plays the games of that network alone.
func TestLeagueOfOne(t *testing.T) {
	for _, change := range []func(*selfplay.Config){
		func(*selfplay.Config) {},
		func(c *selfplay.Config) { c.Plain, c.Details = true, true },
		func(c *selfplay.Config) { c.Exact, c.Rules = 500, "5x4x4" },
		func(c *selfplay.Config) { c.Selection, c.Resign = "gumbel", 0.6 },
	} {
		c := config()
		change(&c)
		want := make([]*selfplay.Game, 30)
		gametest.OK(t, selfplay.Play(t.Context(), bitsquares(t), c, 0, len(want), nil, func(g *selfplay.Game) error { want[g.Number] = g; return nil }))
		m := selfplay.Member{Evaluator: bitsquares(t), Plain: c.Plain}
		c.Plain = false // each member has its own
		got := leagueOf(t, c, len(want), m, m)
		for i, g := range got {
			if g.Networks != [2]int{i % 2, 1 - i%2} {
				t.Errorf("game %d is of %v", i, g.Networks)
			}
			g.Networks = [2]int{}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-alone +league):\n%.500s", diff)
		}
	}
}

// Each network plays each other equally often on both sides, its positions alone are searched with it,
// and the games depend on nothing that runs at the same time.
func TestLeague(t *testing.T) {
	var members []selfplay.Member
	var sources []eval.Source
	for _, h := range heuristic.All()[:3] {
		members = append(members, selfplay.Member{Evaluator: gametest.Must(heuristic.New(h.Source))(t)})
		sources = append(sources, h.Source)
	}
	c := config()
	c.Exact = 0
	games := leagueOf(t, c, 60, members...)
	played := map[[2]int]int{}
	for _, g := range games {
		played[g.Networks]++
		for _, p := range g.Plies {
			if p.Source != eval.Rules && p.Source != eval.Terminal && p.Source != sources[g.Networks[p.Position.Plies()&1]] {
				t.Fatalf("game %d of %v: %v is searched by %s", g.Number, g.Networks, p.Position, p.Source)
			}
		}
	}
	if len(played) != 6 {
		t.Errorf("pairs that play: %v", played)
	}
	for pair, n := range played {
		if n != 10 || pair[0] == pair[1] {
			t.Errorf("%v plays %d of 60 games", pair, n)
		}
	}
	c.Parallel, c.Batch = 3, 64
	if diff := cmp.Diff(games, leagueOf(t, c, 60, members...)); diff != "" {
		t.Errorf("(-20 at once +3 at once):\n%.500s", diff)
	}
}

// An error of one network ends the games of all, and so does the end of the context.
func TestLeagueEnds(t *testing.T) {
	broken := errors.New("broken")
	good := selfplay.Member{Evaluator: bitsquares(t)}
	var calls atomic.Int64
	bad := selfplay.Member{Evaluator: evaltest.Raw(&evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
		if calls.Add(1) > 20 {
			return broken
		}
		return nil
	}})}
	c := config()
	number := 0
	next := func() (int, bool) { number++; return number, true }
	if err := selfplay.PlayLeague(t.Context(), []selfplay.Member{good, bad}, c, next, func(*selfplay.Game) error { return nil }); !errors.Is(err, broken) {
		t.Errorf("with a broken network: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	games := 0
	err := selfplay.PlayLeague(ctx, []selfplay.Member{good, good}, c, next, func(*selfplay.Game) error {
		if games++; games == 10 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || games < 10 {
		t.Errorf("after its end: %d games, %v", games, err)
	}
	c.Reuse = true
	if err := selfplay.PlayLeague(t.Context(), []selfplay.Member{good, good}, c, next, nil); err == nil {
		t.Error("a league reuses trees")
	}
}
