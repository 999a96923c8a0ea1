package main

import (
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evald/evald/cmd/evald/client"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// rulePositions is how many positions of random play each backend is asked for: few where they would take minutes.
func rulePositions(full int) int {
	if testing.Short() || gametest.Race {
		return min(full, 2000)
	}
	return full
}

// Whoever evaluates, what the next stones decide is answered by the rules.
func TestRulesFirst(t *testing.T) {
	for name, test := range map[string]struct {
		backend
		positions int
	}{
		"bitsquares":          {backend{Backend: "bitsquares"}, 100_000},
		"gameovers":           {backend{Backend: "gameovers"}, 100_000},
		"oddeven":             {backend{Backend: "oddeven"}, 100_000},
		"uniform":             {backend{Backend: "uniform"}, 100_000},
		"rollout":             {backend{Backend: "rollout"}, 100_000},
		"cpu":                 {backend{Backend: "cpu", Model: "seeded-2x16"}, 100_000},
		"cpu, mirrored":       {backend{Backend: "cpu", Model: "seeded-2x16", Mirror: true}, 100_000},
		"auto":                {backend{Backend: "auto", Model: "seeded-2x16"}, 100_000},
		"the shipped network": {backend{Backend: "auto"}, 100_000},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := test.choose(io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			n := rulePositions(test.positions)
			d := evaltest.Rules(t, c.Answers(), game.MustBoard(game.Connect4), n, 18)
			if d.Won < n/10 || d.Lost < n/200 || d.Forced < n/20 {
				t.Errorf("of %d positions %+v: too few to tell", n, d)
			}
			evaltest.Rules(t, c.Answers(), game.MustBoard(game.Rules{Columns: 9, Rows: 5, InARow: 4, Gravity: true}), 300, 18)
		})
	}
}

// So does the service, with a cache and without, as its client and so any search elsewhere sees it.
func TestRulesFirstServed(t *testing.T) {
	for name, args := range map[string][]string{
		"bitsquares":  {"--backend", "bitsquares"},
		"seeded-2x16": {"--model", "seeded-2x16", "--cache", "10000", "--backend", "cpu"},
	} {
		address, _, stop := startServe(t, append(args, "--rows", "1000")...)
		c, err := client.Dial(address["grpc"], name, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		n := rulePositions(100_000)
		d := evaltest.Rules(t, c, game.MustBoard(game.Connect4), n, 19)
		if d.Won < n/10 || d.Lost < n/200 || d.Forced < n/20 {
			t.Errorf("%s: of %d positions %+v: too few to tell", name, n, d)
		}
		c.Close()
		if status := stop(); status != exitOK {
			t.Errorf("%s: status %d", name, status)
		}
	}
}
