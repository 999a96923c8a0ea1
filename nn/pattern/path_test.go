package pattern

import (
	"fmt"
	"slices"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
)

// walk evaluates the open positions up to depth moves after that of a path, each after the one it comes from, as rows of b.
// It returns the next row.
func walk(p *Path, b *eval.Batch, row, depth int) int {
	at := p.levels[len(p.levels)-1].position
	p.Evaluate(b, row)
	row++
	for l := board.Legal(at); depth > 0 && !l.IsZero(); l = l.WithoutFirst() {
		if a := board.Action(l.First()); board.Result(board.Play(at, a)) == game.Ongoing {
			p.Play(a)
			row = walk(p, b, row, depth-1)
			p.Undo()
		}
	}
	return row
}

// The answers by steps are those of a batch, bit for bit, on every path of the processor.
func TestPath(t *testing.T) {
	n := random(t)
	for _, name := range kernel.Paths() {
		e, err := NewBackendPath(n, name)
		if err != nil {
			t.Fatal(err)
		}
		p := e.NewPath()
		for _, start := range gametest.Open(gametest.Rand(3), board, 20) {
			b := eval.NewBatch(board, 1+7+49+343)
			p.Start(start)
			rows := b.Slice(0, walk(p, b, 0, 3))
			want := eval.NewBatch(board, len(rows.Pos))
			copy(want.Pos, rows.Pos)
			if err := e.Compute(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(rows.WDL, want.WDL) || !slices.Equal(rows.Policy, want.Policy) || !slices.Equal(rows.Source, want.Source) {
				t.Fatalf("path %s: the positions after %+v are answered otherwise than in a batch", name, start)
			}
		}
	}
}

// BenchmarkPath measures the positions of a search of four moves, by steps and as batches of so many.

func BenchmarkPath(b *testing.B) {
	e := NewBackend(randomShape(b, 256, 64, 32))
	p := e.NewPath()
	start := gametest.Open(gametest.Rand(4), board, 1)[0]
	all := eval.NewBatch(board, 1+7+49+343+2401)
	p.Start(start)
	rows := all.Slice(0, walk(p, all, 0, 4))
	rate := func(b *testing.B) {
		b.ReportMetric(float64(len(rows.Pos))*float64(b.N)/b.Elapsed().Seconds(), "positions/s")
	}
	b.Run("steps", func(b *testing.B) {
		for b.Loop() {
			p.Start(start)
			walk(p, all, 0, 4)
		}
		rate(b)
	})
	for _, size := range []int{1, 8, 32, 128} {
		b.Run(fmt.Sprint("batches of ", size), func(b *testing.B) {
			for b.Loop() {
				for i := 0; i < len(rows.Pos); i += size {
					part := rows.Slice(i, min(i+size, len(rows.Pos)))
					if err := e.Compute(b.Context(), &part); err != nil {
						b.Fatal(err)
					}
				}
			}
			rate(b)
		})
	}
}
