package net

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// The same network in PyTorch. testdata/make_golden.py made the file, which says with which versions.
func TestTorchGolden(t *testing.T) {
	text := gametest.Must(os.ReadFile("testdata/torch_golden.json"))(t)
	var golden struct {
		Model string
		Cases []struct {
			Rules          string
			Board          []int
			Mark           int
			Planes         []float32 // [5,H,W], from the board
			WDLLogits      []float32 `json:"wdl_logits"`
			GameOverLogits []float32 `json:"gameover_logits"`
			CellLogits     []float32 `json:"cell_logits"`
			WDL            []float32
			Policy         []float32
		}
	}
	gametest.OK(t, json.Unmarshal(text, &golden))
	if len(golden.Cases) < 10 {
		t.Fatalf("%d cases, want 10", len(golden.Cases))
	}
	n := shipped(t, golden.Model)
	const tolerance = 1e-5
	for _, c := range golden.Cases {
		t.Run(c.Rules, func(t *testing.T) {
			rules := gametest.Must(game.ParseRules(c.Rules))(t)
			state := gametest.Must(game.MustBoard(rules).FromKaggle(c.Board, c.Mark))(t)
			b := state.Board
			pos := []game.Position{state.Position}
			planes := NewPlanes(b, pos)
			if !slices.Equal(planes.Float32s(), c.Planes) {
				t.Errorf("planes are\n%v, want\n%v", planes.Float32s(), c.Planes)
			}
			out := forward(n, planes)
			near(t, "wdl logits", out.WDL, c.WDLLogits, tolerance)
			near(t, "gameover logits", out.GameOver, c.GameOverLogits, tolerance)
			near(t, "cell logits", out.Cells, c.CellLogits, tolerance)

			batch := eval.NewBatch(b, 1)
			batch.Pos[0] = state.Position
			if b.Result(state.Position) != game.Ongoing {
				return // the rules answer instead of the network
			}
			gametest.OK(t, NewBackend(n).Compute(t.Context(), batch))
			near(t, "wdl", batch.WDL, c.WDL, tolerance)
			near(t, "policy", batch.Policy, c.Policy, tolerance)
		})
	}
}
