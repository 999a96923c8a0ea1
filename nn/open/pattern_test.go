package open_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/nn/open"
	"github.com/evald/evald/nn/pattern"
)

// A file of pattern tables is opened by its path as others are, and bitsquares answers the boards that it does not know.
func TestPattern(t *testing.T) {
	w := kernel.Random(rand.New(rand.NewPCG(1, 1)), pattern.RowCount(), 64, 16, 16)
	n, err := pattern.New(*w)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "quick.safetensors")
	if err := n.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	for _, mirror := range []bool{false, true} {
		e, err := open.Evaluator(open.Options{Model: path, Mirror: mirror})
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]string{false: "quick", true: "quick, mirrored"}[mirror]; e.Model != want || !e.Network || e.OnGPU {
			t.Errorf("the model calls itself %s, want %s: %+v", e.Model, want, e)
		}
		known, other := game.MustBoard(game.Connect4), game.MustBoard(game.Rules{Rows: 4, Columns: 5, InARow: 3, Gravity: true})
		for board, source := range map[*game.Board]eval.Source{known: eval.CPU, other: eval.Bitsquares} {
			got, want := eval.NewBatch(board, 1), eval.NewBatch(board, 1)
			if err := e.Evaluate(t.Context(), got); err != nil || got.Source[0] != source {
				t.Fatalf("%v: source %s, want %s; error %v", board.Rules(), got.Source[0], source, err)
			}
			if board != known || mirror {
				continue
			}
			if err := pattern.NewEvaluator(n).Evaluate(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.WDL, want.WDL) || !slices.Equal(got.Policy, want.Policy) {
				t.Error("the answers are not the network's")
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	file, err := n.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	file[len(file)-1] ^= 1
	damaged := filepath.Join(t.TempDir(), "damaged.safetensors")
	if err := os.WriteFile(damaged, file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := open.Evaluator(open.Options{Model: damaged}); err == nil || !strings.Contains(err.Error(), "the file is damaged") {
		t.Errorf("a damaged file: %v", err)
	}
}
