package queue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/queue"
)

// constant answers without counting or allocating.
type constant struct{}

func (constant) Attributes() eval.Attributes { return eval.Attributes{} }

func (constant) Compute(_ context.Context, b *eval.Batch) error {
	for i := range b.Pos {
		copy(b.WDLRow(i), []float32{1, 0, 0})
		clear(b.PolicyRow(i))
		b.Source[i] = eval.CPU
	}
	return nil
}

// BenchmarkBatcher is what a request costs in the batcher and an Evaluator in front of it: the backend takes no time. Callers belong to
// eight clients.
func BenchmarkBatcher(b *testing.B) {
	for _, x := range []struct{ callers, rows int }{{1, 1}, {64, 1}, {64, 100}, {1024, 1}} {
		b.Run(fmt.Sprintf("callers=%d/rows=%d", x.callers, x.rows), func(b *testing.B) {
			e := queue.New(constant{}, queue.Config{MaxRows: 64, MaxDelay: time.Millisecond, InFlight: 2})
			defer e.Close()
			all := eval.New(e, eval.Options{OwnRules: true})
			var callers sync.WaitGroup
			b.ReportAllocs()
			for i := range x.callers {
				of, own := all.WithBackend(&queue.Client{Batcher: e, Caller: queue.Caller{Client: fmt.Sprint(i % 8)}}), batch(positions(1, x.rows)...)
				callers.Go(func() {
					for range (b.N + x.callers - 1) / x.callers {
						if err := of.Leaves(b.Context(), own); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			callers.Wait()
		})
	}
}
