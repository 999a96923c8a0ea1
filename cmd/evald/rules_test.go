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
	"github.com/evald/evald/engine/heuristic"
)

// rulePositions returns the number of random positions for a backend.
func rulePositions() int {
	if gametest.Soak() {
		return 100_000
	}
	return 2000
}

// With every evaluator, the rules answer what the next stones decide.
func TestRulesFirst(t *testing.T) {
	backends := map[string]backend{
		"cpu":                 {Backend: "cpu", Model: "seeded-2x16"},
		"cpu, mirrored":       {Backend: "cpu", Model: "seeded-2x16", Mirror: true},
		"auto":                {Backend: "auto", Model: "seeded-2x16"},
		"the shipped network": {Backend: "auto"},
	}
	for _, name := range heuristic.Names() {
		backends[name] = backend{Backend: name}
	}
	for name, from := range backends {
		t.Run(name, func(t *testing.T) {
			c, err := from.choose(io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			n := rulePositions()
			d := evaltest.Rules(t, c.Evaluator, game.MustBoard(game.Connect4), n, 18)
			if d.Won < n/10 || d.Lost < n/200 || d.Forced < n/20 {
				t.Errorf("of %d positions %+v: too few to tell", n, d)
			}
			evaltest.Rules(t, c.Evaluator, game.MustBoard(game.Rules{Columns: 9, Rows: 5, InARow: 4, Gravity: true}), 300, 18)
		})
	}
}

// The same holds for the service, with and without a cache, as seen by its client and so by any search elsewhere.
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
		n := rulePositions()
		d := evaltest.Rules(t, evaltest.Raw(c), game.MustBoard(game.Connect4), n, 19)
		if d.Won < n/10 || d.Lost < n/200 || d.Forced < n/20 {
			t.Errorf("%s: of %d positions %+v: too few to tell", name, n, d)
		}
		c.Close()
		if status := stop(); status != exitOK {
			t.Errorf("%s: status %d", name, status)
		}
	}
}
