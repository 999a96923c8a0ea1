package main

import (
	"fmt"
	"io"
	"testing"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// Every level plays whole games on boards of all kinds, and the same one again with the same seed.
func TestLevelsPlay(t *testing.T) {
	shared := shareAgents(processors{}, io.Discard)
	for _, rules := range []string{"7x6x4", "8x7x5", "5x4x3", "5x5x4free"} {
		b := gametest.Must(new(game.Boards).Parse(rules))(t)
		for _, l := range play.Levels {
			var games [2]string
			for i := range games {
				sides, moves := [2]agent.Agent{}, []int(nil)
				for side := range sides {
					spec := l.Agent
					spec.Seed = uint64(1 + side)
					sides[side] = gametest.Must(agent.New(spec, shared))(t)
				}
				// The moves of a level as perfect as the last take long on large boards: a dozen are enough.
				for p := (game.Position{}); b.Result(p) == game.Ongoing && len(moves) < 12; {
					action := gametest.Must(sides[p.Plies()%2].Move(t.Context(), b, p))(t)
					if !b.CanPlay(p, action) {
						t.Fatalf("%s on %s: %d after %v", l.Name, rules, action, moves)
					}
					p, moves = b.Play(p, action), append(moves, action)
				}
				games[i] = fmt.Sprint(moves)
			}
			if games[0] != games[1] {
				t.Errorf("%s on %s with the same seeds: %v", l.Name, rules, games)
			}
		}
	}
}
