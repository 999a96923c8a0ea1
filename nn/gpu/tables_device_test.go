//go:build gpu && cgo && linux && amd64

package gpu

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/nn/pattern"
)

// serveTables is serve for a network of tables.
func serveTables(t testing.TB, n *pattern.Network, d driver.Device) *Backend {
	t.Helper()
	e, notes, err := newEvaluator(ofTables(n), []driver.Device{d}, Options{Trial: trialProgram(t)}, limitsOf([]driver.Device{d}))
	if err != nil || len(notes) > 0 {
		t.Fatal(err, notes)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// A device gives the bits of the CPU for 1,200,000 positions, of random games, quiet ones and nearly full boards, and for random networks
// of every kernel that it can run.
func TestGPUTables(t *testing.T) {
	d, emulated := machine(t, hopper)
	board, count := game.MustBoard(game.Connect4), 400_000
	if emulated {
		count = 300
	}
	compare := func(n *pattern.Network, pos []game.Position) {
		t.Helper()
		e := serveTables(t, n, d)
		got, want := evaluate(t, e, board, pos), evaluate(t, pattern.NewBackend(n), board, pos)
		wrong := 0
		for i := range pos {
			if !sameBits(got.WDLRow(i), want.WDLRow(i)) || !sameBits(got.PolicyRow(i), want.PolicyRow(i)) {
				wrong++
			}
		}
		t.Logf("%s by %s: %d of %d positions have other bits than the CPU's", n, e.Stats()[0].Kernel, wrong, len(pos))
		if wrong > 0 {
			t.Fail()
		}
	}
	r := gametest.Rand(20261128)
	last := late(r, board, count)
	compare(shippedTables(t), slices.Concat(gametest.Positions(r, board, count, true), gametest.Open(r, board, count), last))
	for i, shape := range []struct {
		lanes, h1, h2 int
		words         bool
	}{{64, 16, 16, false}, {128, 48, 32, true}, {256, 128, 96, false}, {160, 32, 64, true}, {288, 16, 128, false}, {512, 64, 32, true}} {
		compare(randomTables(t, uint64(i), shape.lanes, shape.h1, shape.h2, shape.words), last[:count/4])
	}
}

// Compute from several callers: positions a second with large batches, and the time of a single caller with small ones.
func BenchmarkGPUTables(b *testing.B) {
	d, emulated := machine(b, hopper)
	if emulated {
		b.Skip("emulated devices have no speed")
	}
	board := game.MustBoard(game.Connect4)
	e := serveTables(b, shippedTables(b), d)
	pos := gametest.Positions(gametest.Rand(7), board, 1<<16, true)
	for _, callers := range []int{1, 2, 4, 8, 16} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			var wait sync.WaitGroup
			began := time.Now()
			for range callers {
				batch := eval.NewBatch(board, len(pos))
				copy(batch.Pos, pos)
				wait.Go(func() {
					for range b.N {
						if err := e.Compute(b.Context(), batch); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wait.Wait()
			b.ReportMetric(float64(callers*b.N*len(pos))/time.Since(began).Seconds()/1e6, "Mpositions/s")
		})
	}
	for _, size := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("rows=%d", size), func(b *testing.B) {
			batch := eval.NewBatch(board, size)
			copy(batch.Pos, pos)
			gametest.OK(b, microseconds(b, 0, func() error { return e.Compute(b.Context(), batch) }))
		})
	}
	b.Run("evaluator", func(b *testing.B) { // with the step of the rules
		whole := eval.New(e, eval.Options{})
		batch := eval.NewBatch(board, len(pos))
		copy(batch.Pos, pos)
		for b.Loop() {
			gametest.OK(b, whole.Evaluate(b.Context(), batch))
		}
		b.ReportMetric(float64(len(pos))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mpositions/s")
	})
}
