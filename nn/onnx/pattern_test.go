package onnx_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/nn/onnx"
	"github.com/evald/evald/nn/pattern"
)

// tables is a batch for a network of pattern tables in the form that run.py reads.
type tables struct {
	Rows  [][]int32 `json:"rows"`
	Legal [][]int   `json:"legal"`
}

// onnx.checker accepts the file of a network of pattern tables, and onnxruntime computes its whole numbers exactly.
func TestPatternRuntime(t *testing.T) {
	board := game.MustBoard(game.Connect4)
	n, err := pattern.New(*kernel.Random(rand.New(rand.NewPCG(3, 3)), pattern.RowCount(), 64, 32, 16))
	if err != nil {
		t.Fatal(err)
	}
	n.Metadata["evald.name"] = "quick"
	b := eval.NewBatch(board, 200)
	copy(b.Pos, gametest.Open(gametest.Rand(5), board, len(b.Pos)))
	if err := pattern.NewBackend(n).Compute(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	k, err := kernel.New(&n.Weights, kernel.Go)
	if err != nil {
		t.Fatal(err)
	}
	asked := tables{}
	want := make([]int32, len(b.Pos)*kernel.Outputs)
	for i, p := range b.Pos {
		rows, legal := pattern.AppendRows(nil, p), make([]int, board.Actions())
		k.Forward(rows, pattern.Each, want[i*kernel.Outputs:(i+1)*kernel.Outputs])
		for a := range legal {
			if board.CanPlay(p, a) {
				legal[a] = 1
			}
		}
		asked.Rows, asked.Legal = append(asked.Rows, rows), append(asked.Legal, legal)
	}
	got := run(t, []map[string]any{{"file": write(t, onnx.MarshalPattern(n, "quick")), "tables": []tables{asked}}})[0]
	if diff := cmp.Diff(map[string]string{"evald.name": "quick", "evald.kind": "pattern"}, got.Metadata); diff != "" {
		t.Errorf("metadata: %s", diff)
	}
	answers := got.Batches[0]
	for i := range b.Pos {
		got := slices.Concat(answers["wdl"].Values[3*i:3*i+3], answers["moves"].Values[7*i:7*i+7])
		for o, x := range got {
			if want := float32(want[i*kernel.Outputs+o]) * (1. / kernel.Unit); x != want {
				t.Fatalf("position %d: wdl and moves are %v, want %v as value %d", i, got, want, o)
			}
		}
		for name, want := range map[string][]float32{"outcome": b.WDLRow(i), "policy": b.PolicyRow(i)} {
			for k, w := range want {
				if got := answers[name].Values[i*len(want)+k]; got-w > 1e-5 || w-got > 1e-5 || w == 0 && got != 0 {
					t.Fatalf("position %d: %s has %v as value %d, want %v", i, name, got, k, w)
				}
			}
		}
	}
}
