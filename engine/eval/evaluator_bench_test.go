package eval_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// copying answers with the first rows of another batch, which takes a few nanoseconds a row.
type copying struct{ from *eval.Batch }

func (copying) Attributes() eval.Attributes { return eval.Attributes{} }

func (c copying) Compute(_ context.Context, b *eval.Batch) error {
	n := copy(b.Source, c.from.Source)
	copy(b.WDL, c.from.WDL[:3*n])
	copy(b.Policy, c.from.Policy[:b.Board.Actions()*n])
	return nil
}

// BenchmarkEvaluator is the time of a core for a row without the backend's: the steps of Evaluate,
// Best and Leaves around a backend that copies answers. Open positions all reach the backend; of random
// ones, the rules decide many. "chosen" is what callers would do without Best. With several callers, the
// time is that of each core, if there is one for each caller.
func BenchmarkEvaluator(b *testing.B) {
	const most = 1 << 16
	random := gametest.Rand(1)
	kinds := map[string][]game.Position{"open": gametest.Open(random, board, most), "random": gametest.Positions(random, board, most, true)}
	answers := batch(kinds["open"]...)
	for i, p := range answers.Pos {
		for l := board.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
			answers.PolicyRow(i)[board.Action(l.First())] = random.Float32() / 4
		}
		copy(answers.WDLRow(i), []float32{0.5, 0.25, 0.25})
		answers.Source[i] = eval.GPU
	}
	plain := eval.New(copying{answers}, eval.Options{})
	fallback := eval.New(eval.Fallback{{Name: "gpu", Backend: copying{answers}}}, eval.Options{})
	for _, kind := range []string{"open", "chosen", "best", "random", "leaves", "fallback"} {
		for _, rows := range []int{64, 1024, most} {
			for _, callers := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/rows=%d/callers=%d", kind, rows, callers), func(b *testing.B) {
					asks := make([]func() error, callers)
					for i := range asks {
						own := batch(kinds["open"][:rows]...)
						asks[i] = func() error { return plain.Evaluate(b.Context(), own) }
						switch kind {
						case "chosen":
							best := eval.NewChoices(board, rows)
							asks[i] = func() error {
								err := plain.Evaluate(b.Context(), own)
								for i := range own.Pos {
									best.Action[i], best.Value[i], best.Source[i] = chooseSlowly(own, i)
								}
								return err
							}
						case "best":
							best := eval.NewChoices(board, rows)
							copy(best.Pos, own.Pos)
							asks[i] = func() error { return plain.Best(b.Context(), best) }
						case "random":
							copy(own.Pos, kinds["random"])
						case "leaves":
							asks[i] = func() error { return plain.Leaves(b.Context(), own) }
						case "fallback":
							asks[i] = func() error { return fallback.Evaluate(b.Context(), own) }
						}
						gametest.OK(b, asks[i]()) // the first call allocates memory
					}
					b.ReportAllocs()
					b.ResetTimer()
					var all sync.WaitGroup
					for _, ask := range asks {
						all.Go(func() {
							for n := 0; n < b.N; n += rows {
								if err := ask(); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					all.Wait()
				})
			}
		}
	}
}
