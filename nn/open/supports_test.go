package open_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/onnx"
	"github.com/evald/evald/nn/open"
)

// described copies a network of another program into a file of its own with that description.
func described(t *testing.T, name, description string) (path string) {
	t.Helper()
	path = inFile(t, name+".onnx", gametest.Must(os.ReadFile(filepath.Join("..", "encoding", "testdata", name+".onnx")))(t))
	gametest.OK(t, os.WriteFile(open.DescriptionFile(path), []byte(description), 0o644))
	return path
}

// Games that a named network does not support are an error that says what it supports and what else
// may answer, also for positions that the rules decide and for games that are over. With Substitute
// another evaluator answers, and under its own name.
func TestSupports(t *testing.T) {
	const of = "planes: [0.5*own, 0.5*other, 0.5*ones+0.5*player], value: {kind: linear}}"
	small := inFile(t, "quick.safetensors", gametest.Must(quick(t).Marshal())(t))
	cases := []struct {
		name, path, games string
		mirror, foreign   bool
	}{
		{open.FastModel, open.FastModel, "7x6x4 alone", false, false},
		{"quick, mirrored", small, "7x6x4 alone", true, false},
		{"tables", inFile(t, "tables.onnx", onnx.MarshalPattern(quick(t), "tables")), "7x6x4 alone", false, true},
		{"lightzero", described(t, "lightzero", "{rules: 7x6x4, "+of), "7x6x4 alone", false, true},
		{"lightzero", described(t, "lightzero", "{rules: any, "+of), "boards whose shapes fit it (description: input \"obs\": ", false, true},
	}
	for _, c := range cases {
		t.Run(c.name+" "+c.games[:3], func(t *testing.T) {
			if c.foreign {
				needRuntime(t)
			}
			e, _ := opened(t, open.Options{Model: c.path, Mirror: c.mirror})
			won, _, err := nineFive.ParseMoves("1212121")
			gametest.OK(t, err)
			one, _, err := nineFive.ParseMoves("121212")
			gametest.OK(t, err)
			for _, p := range []game.Position{{}, won, one} {
				err := e.Evaluate(t.Context(), &eval.Batch{
					Board: nineFive, Pos: []game.Position{p}, WDL: make([]float32, 3), Policy: make([]float32, 9), Source: make([]eval.Source, 1),
				})
				missing, ok := errors.AsType[*eval.UnsupportedError](err)
				if !ok || missing.Model != c.name || missing.Rules != nineFive.Rules() || !strings.HasPrefix(missing.Games, c.games) || !strings.Contains(missing.Instead, "--model any") {
					t.Fatalf("%s, %+v: %v", c.path, p, err)
				}
				if err := e.Supports(nineFive); !errors.As(err, &missing) || e.Supports(connect4) != nil {
					t.Errorf("%s: supports 9x5x4: %v, 7x6x4: %v", c.path, err, e.Supports(connect4))
				}
			}
			if err := e.Backend().Compute(t.Context(), eval.NewBatch(nineFive, 1)); err == nil || e.ModelOn(nineFive.Rules()) != c.name {
				t.Errorf("its backend: %v; %s answers", err, e.ModelOn(nineFive.Rules()))
			}
			evaluate(t, e.Evaluator, connect4, make([]game.Position, 3))

			_, n, err := open.Any(c.path)
			gametest.OK(t, err)
			gametest.OK(t, n.Check(t.Context(), c.name, nil, open.Options{})) // which asks no other boards

			if strings.HasPrefix(c.games, "boards") {
				return // the program knows no such network
			}
			other, _ := opened(t, open.Options{Model: c.path, Mirror: c.mirror, Substitute: true})
			b := evaluate(t, other.Evaluator, nineFive, make([]game.Position, 1))
			if who := other.ModelOn(nineFive.Rules()); !strings.HasPrefix(who, open.AnyModel) || !slices.Contains([]eval.Source{eval.CPU, eval.ORTCPU}, b.Source[0]) {
				t.Errorf("instead of %s answers %s, source %s", c.path, who, b.Source[0])
			}
		})
	}
	large := game.MustBoard(game.Rules{Rows: 6, Columns: 17, InARow: 4, Gravity: true})
	e, _ := opened(t, open.Options{Model: small})
	if err := e.Supports(large); err == nil || !strings.HasSuffix(err.Error(), "or none, and bitsquares answers") {
		t.Errorf("on a board that no network knows: %v", err)
	}
}
