package open_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/nn/open"
	"github.com/evald/evald/nn/pattern"
)

// quick is a small network of pattern tables with random weights.
func quick(t *testing.T) *pattern.Network {
	t.Helper()
	n := gametest.Must(pattern.New(*kernel.Random(rand.New(rand.NewPCG(1, 1)), pattern.RowCount(), 64, 16, 16)))(t)
	return n
}

// A network of convolutions that fails leaves the positions of 7x6x4 to the fast network, and those of other
// boards to bitsquares. On the CPU alone its batches are errors.
func TestFallsBack(t *testing.T) {
	n := overflowing(t)
	e := gametest.Must(open.OfConvolutions(n).Open("overflows", open.Options{}))(t)
	defer e.Close()
	for board, want := range map[*game.Board]eval.Source{connect4: eval.Fast, nineFive: eval.Bitsquares} {
		if b := evaluate(t, e.Evaluator, board, make([]game.Position, 3)); b.Source[2] != want {
			t.Errorf("%v: source %s, want %s", board.Rules(), b.Source[2], want)
		}
	}
	onCPU := gametest.Must(open.OfConvolutions(n).Open("overflows", open.Options{Backend: open.CPU}))(t)
	if err := onCPU.Evaluate(t.Context(), eval.NewBatch(connect4, 1)); !errors.Is(err, eval.ErrNotFinite) {
		t.Errorf("the cpu alone: %v", err)
	}
}

// A file of pattern tables is opened by its path as others are. With Substitute the network any
// answers the boards that it does not know.
func TestPattern(t *testing.T) {
	n := quick(t)
	path := filepath.Join(t.TempDir(), "quick.safetensors")
	gametest.OK(t, os.WriteFile(path, gametest.Must(n.Marshal())(t), 0o644))
	for model, mirror := range map[string]bool{"quick": false, "quick, mirrored": true} {
		e, _ := opened(t, open.Options{Model: path, Mirror: mirror, Substitute: true})
		if e.Model != model || !e.Network || e.OnGPU || e.Backend().Attributes().Rows != 1 {
			t.Errorf("want %s: %+v", model, e)
		}
		other := strings.Replace(model, "quick", open.AnyModel, 1)
		if b := evaluate(t, e.Evaluator, nineFive, make([]game.Position, 1)); b.Source[0] != eval.CPU || e.ModelOn(nineFive.Rules()) != other {
			t.Errorf("%s: on another board source %s of %s", model, b.Source[0], e.ModelOn(nineFive.Rules()))
		}
		got, want := evaluate(t, e.Evaluator, connect4, make([]game.Position, 1)), eval.NewBatch(connect4, 1)
		gametest.OK(t, pattern.NewBackend(n).Compute(t.Context(), want))
		if got.Source[0] != eval.Fast || !mirror && (!slices.Equal(got.WDL, want.WDL) || !slices.Equal(got.Policy, want.Policy)) {
			t.Errorf("%s: the answers by %s are not the network's", model, got.Source[0])
		}
	}
}
