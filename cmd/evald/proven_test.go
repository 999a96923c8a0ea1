package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// The level proven is the agent that README.md has the proof of, by its network and by the nodes of its probes. For another network or
// another rule nothing is proved: evald prove proven has to be run again before the checksum and the numbers change here.
func TestProvenLevel(t *testing.T) {
	const network = "0d927eb8e51380b0a565c9b4f20dd18db994604122ded2c96c1d5925b2fcd7be"
	spec := gametest.Must(play.ParseAgent("proven"))(t)
	want := gametest.Must(agent.Parse("policy:model=default-fast,exact=262144"))(t)
	if want.Chosen = true; spec != want {
		t.Errorf("proven is %v, want %v", spec, want)
	}
	if sum := gametest.Must(networkOf(spec, game.Connect4))(t); sum != network {
		t.Errorf("its network is %s, the proof is of %s", sum, network)
	}
	if !strings.Contains(string(getFile(t, "README.md")), "| `proven` | 66,840,449 | 38,800,890 | 0 | 0 | 0 |") {
		t.Error("README.md has no proof")
	}
}

// The level proven wins the games that it begins, against random moves and against the longest defence, also from positions that it would
// give away if each probe had 100,000 nodes of its own.
func TestProvenWins(t *testing.T) {
	b, shared := game.MustBoard(game.Connect4), shareAgents(processors{}, io.Discard)
	player := func(text string) agent.Agent {
		return gametest.Must(agent.New(gametest.Must(play.ParseAgent(text))(t), shared))(t)
	}
	proven := player("proven")
	wins := func(start, other string) {
		p, moves, err := b.ParseMoves(start)
		gametest.OK(t, err)
		for sides := []agent.Agent{proven, player(other)}; b.Result(p) == game.Ongoing; {
			action := gametest.Must(sides[p.Plies()%2].Move(t.Context(), b, p))(t)
			if !b.CanPlay(p, action) {
				t.Fatalf("from %s against %s: %s, then %d", start, other, game.FormatMoves(b.Rules(), moves), action)
			}
			p, moves = b.Play(p, action), append(moves, action)
		}
		if b.Result(p) != game.Loss || p.Plies()%2 == 0 {
			t.Errorf("from %s against %s: %s is no win", start, other, game.FormatMoves(b.Rules(), moves))
		}
	}
	starts := []string{"-", "2242251513", "4525222311", "4525255322", "5746322113", "574633311112", "566745322115"}
	for _, start := range starts {
		wins(start, "solver")
	}
	seeds := 70
	if gametest.Soak() {
		seeds = 700
	}
	for seed := range seeds {
		wins(starts[seed%len(starts)], fmt.Sprintf("random:seed=%d", seed))
	}
}
