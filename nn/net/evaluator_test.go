package net

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

var _ eval.Backend = (*Backend)(nil)

// manyWorkers makes the evaluator use several goroutines on any machine.
func manyWorkers(t testing.TB) {
	was := runtime.GOMAXPROCS(4)
	t.Cleanup(func() { runtime.GOMAXPROCS(was) })
}

func newBatch(b *game.Board, pos []game.Position) *eval.Batch {
	batch := eval.NewBatch(b, len(pos))
	copy(batch.Pos, pos)
	return batch
}

func TestConformance(t *testing.T) {
	manyWorkers(t)
	n := shipped(t, "seeded-2x16")
	evaltest.Run(t, evaltest.Config{
		New:     func(testing.TB) *eval.Evaluator { return evaltest.Raw(NewBackend(n)) },
		Boards:  gametest.Boards()[:5],
		Rows:    37,
		Sources: []eval.Source{eval.CPU},
	})
}

// The answers are those of Forward, also if boards of several sizes take turns.
func TestEvaluator(t *testing.T) {
	manyWorkers(t)
	n := shipped(t, "seeded-2x16")
	e := evaltest.Raw(NewBackend(n))
	for _, b := range boards() {
		batch := newBatch(b, gametest.Positions(gametest.Rand(11), b, 40, false))
		gametest.OK(t, e.Evaluate(t.Context(), batch))
		out := forward(n, NewPlanes(b, batch.Pos))
		for i := range batch.Pos {
			if batch.Source[i] == eval.Terminal {
				continue
			}
			want := make([]float32, 3)
			Softmax(want, out.WDL[3*i:3*i+3])
			if batch.Source[i] != eval.CPU || !slices.Equal(batch.WDLRow(i), want) {
				t.Fatalf("%v row %d: win, draw, loss %v from %v, want %v", b.Rules(), i, batch.WDLRow(i), batch.Source[i], want)
			}
		}
	}
}

// An error names the first row whose answer is not finite.
func TestEvaluatorErrors(t *testing.T) {
	manyWorkers(t)
	b := game.MustBoard(game.Connect4)
	pos := gametest.Positions(gametest.Rand(12), b, 40, true)
	first := "answer is not finite: position " + b.Text(pos[0]) + ": "
	for name, want := range map[string]string{
		"value.wdl.bias":      "evaluate: row 0: " + first + "win-draw-loss logit 1 is +Inf",
		"value.gameover.bias": "evaluate: row 0: " + first + "gameover logit 1 is +Inf",
		"policy.logit.bias":   "evaluate: row 0: " + first + "cell logit 0 is +Inf",
	} {
		broken := mustNew(t, Config{2, 16, 8, 16}, 1)
		overflow(broken, name)
		for range 5 {
			if err := NewBackend(broken).Compute(t.Context(), newBatch(b, pos)); !errors.Is(err, eval.ErrNotFinite) || err.Error() != want {
				t.Errorf("%s: error %v, want %s", name, err, want)
			}
		}
	}
}

// overflow makes the sum in the layer of that bias exceed float32, with finite weights.
func overflow(n *Network, bias string) {
	weight := n.Weight(strings.TrimSuffix(bias, "bias") + "weight").Float32s()
	values := n.Weight(bias).Float32s()
	at := min(1, len(values)-1)
	in := len(weight) / len(values)
	values[at] = 3e38
	fill(weight[at*in:(at+1)*in], 3e38)
}
