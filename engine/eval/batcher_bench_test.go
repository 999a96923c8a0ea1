package eval_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/evald/evald/engine/eval"
)

// BenchmarkBatcher is what a request costs in the batcher alone: the backend takes no time. Callers belong to eight clients.
func BenchmarkBatcher(b *testing.B) {
	for _, x := range []struct{ callers, rows int }{{1, 1}, {64, 1}, {64, 100}, {1024, 1}} {
		b.Run(fmt.Sprintf("callers=%d/rows=%d", x.callers, x.rows), func(b *testing.B) {
			e := batching(constant{}, eval.BatcherConfig{MaxRows: 64, MaxDelay: time.Millisecond, InFlight: 2})
			defer e.Close()
			var callers sync.WaitGroup
			b.ReportAllocs()
			for i := range x.callers {
				of, own := e.For(eval.Caller{Client: fmt.Sprint(i % 8)}), batch(positions(1, x.rows)...)
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
