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
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/open"
	"github.com/evald/evald/nn/pattern"
)

// quick is a small network of pattern tables with random weights.
func quick(t *testing.T) *pattern.Network {
	t.Helper()
	n, err := pattern.New(*kernel.Random(rand.New(rand.NewPCG(1, 1)), pattern.RowCount(), 64, 16, 16))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A network of pattern tables in the store is opened by its name, and who needs convolutions is told.
func TestPatternOfStore(t *testing.T) {
	t.Setenv("EVALD_MODELS", t.TempDir())
	add(t, quick(t), "quick")
	s, p, err := open.Any("quick")
	if err != nil || p.Pattern == nil || p.Config() != "pattern64x16x16" || s.Label() != "quick@1" {
		t.Fatalf("%+v, called %s: %v", s.Entry, s.Label(), err)
	}
	e, _ := opened(t, open.Options{Model: "quick"})
	b := evaluate(t, e.Evaluator, connect4, make([]game.Position, 1))
	if e.Model != "quick@1" || b.Source[0] != eval.Fast || !b.Source[0].Network() {
		t.Errorf("%+v answers by %s", e, b.Source[0])
	}
	if _, _, err := open.Model("quick"); err == nil || !strings.Contains(err.Error(), "of convolutions") {
		t.Errorf("as a network of convolutions: %v", err)
	}
	if _, err := open.Evaluator(open.Options{Model: "quick", Backend: "rollout"}); err == nil {
		t.Error("a heuristic with a model: no error")
	}
}

// A network of convolutions that fails leaves the positions of 7x6x4 to the fast network, and those of other
// boards to bitsquares.
func TestFallsBackToFast(t *testing.T) {
	e, err := open.Network(overflowing(t), "overflows", open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	other := game.MustBoard(game.Rules{Rows: 4, Columns: 5, InARow: 3, Gravity: true})
	for board, want := range map[*game.Board]eval.Source{connect4: eval.Fast, other: eval.Bitsquares} {
		if b := evaluate(t, e.Evaluator, board, make([]game.Position, 3)); b.Source[2] != want {
			t.Errorf("%v: source %s, want %s", board.Rules(), b.Source[2], want)
		}
	}
}

// add puts a network into the user's store.
func add(t *testing.T, n *pattern.Network, name string) {
	t.Helper()
	content, err := n.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	store, err := models.UserStore()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Add(models.Entry{Name: name, Config: n.String(), Trained: true, Rules: []string{"7x6x4"}}, content); err != nil {
		t.Fatal(err)
	}
}

// A file of pattern tables is opened by its path as others are, and bitsquares answers the boards that it does not know.
func TestPattern(t *testing.T) {
	n := quick(t)
	path := filepath.Join(t.TempDir(), "quick.safetensors")
	if err := n.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	for _, mirror := range []bool{false, true} {
		e, err := open.Evaluator(open.Options{Model: path, Mirror: mirror})
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]string{false: "quick", true: "quick, mirrored"}[mirror]; e.Model != want || !e.Network || e.OnGPU || e.Backend().Attributes().Rows != 1 {
			t.Errorf("the model calls itself %s, want %s: %+v", e.Model, want, e)
		}
		known, other := game.MustBoard(game.Connect4), game.MustBoard(game.Rules{Rows: 4, Columns: 5, InARow: 3, Gravity: true})
		for board, source := range map[*game.Board]eval.Source{known: eval.Fast, other: eval.Bitsquares} {
			got, want := eval.NewBatch(board, 1), eval.NewBatch(board, 1)
			if err := e.Evaluate(t.Context(), got); err != nil || got.Source[0] != source {
				t.Fatalf("%v: source %s, want %s; error %v", board.Rules(), got.Source[0], source, err)
			}
			if board != known || mirror {
				continue
			}
			if err := pattern.NewBackend(n).Compute(t.Context(), want); err != nil {
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
