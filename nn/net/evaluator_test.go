package net

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/evald/evald/engine/eval/evaltest"

	"github.com/evald/evald/engine/eval"
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

func TestEvaluator(t *testing.T) {
	manyWorkers(t)
	n := shipped(t, "seeded-2x16")
	e := evaltest.Raw(NewBackend(n)) // one for all boards, which differ in size
	for _, b := range boards() {
		pos := gametest.Positions(gametest.Rand(11), b, 60, false)
		batch := newBatch(b, pos)
		if err := e.Evaluate(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		out := mustForward(t, n, NewPlanes(b, pos))
		for i, p := range pos {
			what := fmt.Sprintf("%v row %d", b.Rules(), i)
			if result := b.Result(p); result != game.Ongoing {
				want := make([]float32, 3)
				want[result-game.Win] = 1
				if batch.Source[i] != eval.Terminal || !slices.Equal(batch.WDLRow(i), want) {
					t.Fatalf("%s: %v from %v, want %v from the rules", what, batch.WDLRow(i), batch.Source[i], want)
				}
				checkDistribution(t, batch.PolicyRow(i), nil, 0)
				continue
			}
			if batch.Source[i] != eval.CPU {
				t.Fatalf("%s: source is %v", what, batch.Source[i])
			}
			want := make([]float32, 3)
			Softmax(want, out.WDL.Float32s()[3*i:3*i+3])
			if !slices.Equal(batch.WDLRow(i), want) {
				t.Fatalf("%s: win, draw, loss %v, want %v", what, batch.WDLRow(i), want)
			}
			legal := make([]bool, b.Actions())
			for a := range legal {
				legal[a] = b.CanPlay(p, a)
			}
			checkDistribution(t, batch.WDLRow(i), nil, 1)
			checkDistribution(t, batch.PolicyRow(i), legal, 1)
		}
	}
}

// Many callers at once, with batches of many sizes and boards, get the same bits for the same position.
func TestEvaluatorConcurrently(t *testing.T) {
	manyWorkers(t)
	e := NewBackend(shipped(t, "seeded-2x16"))
	var callers sync.WaitGroup
	for seed, b := range gametest.Boards()[:5] {
		pos := gametest.Positions(gametest.Rand(uint64(seed)), b, 24, true)
		whole := newBatch(b, pos)
		if err := e.Compute(t.Context(), whole); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 5, 24} {
			callers.Go(func() {
				for i := 0; i < len(pos); i += n {
					part := newBatch(b, pos[i:min(i+n, len(pos))])
					if err := e.Compute(t.Context(), part); err != nil {
						t.Error(err)
						return
					}
					want := whole.Slice(i, i+len(part.Pos))
					if !slices.Equal(part.WDL, want.WDL) || !slices.Equal(part.Policy, want.Policy) {
						t.Errorf("%v: rows from %d differ in a batch of %d", b.Rules(), i, n)
					}
				}
			})
		}
	}
	callers.Wait()
}

func TestEvaluatorErrors(t *testing.T) {
	manyWorkers(t)
	b := game.MustBoard(game.Connect4)
	n := shipped(t, "seeded-2x16")
	e := NewBackend(n)
	pos := gametest.Positions(gametest.Rand(12), b, 40, true)

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Compute(cancelled, newBatch(b, pos)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want a cancelled context", err)
	}
	late := &cancelLater{Context: t.Context(), left: 10}
	if err := e.Compute(late, newBatch(b, pos)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want a context cancelled on the way", err)
	}
	if late.left < -4 {
		t.Errorf("the context was asked %d times after it was cancelled by 4 goroutines", -late.left)
	}
	// The error names the first row.
	for name, want := range map[string]string{
		"value.wdl.bias":      "evaluate: row 0: win-draw-loss logit 1 is +Inf",
		"value.gameover.bias": "evaluate: row 0: gameover logit 1 is +Inf",
		"policy.logit.bias":   "evaluate: row 0: cell logit 0 is +Inf",
	} {
		broken := mustNew(t, n.Config(), 1)
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

// cancelLater is a context that is cancelled after Err has been called a number of times.
type cancelLater struct {
	context.Context
	mu   sync.Mutex
	left int
}

func (c *cancelLater) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}
