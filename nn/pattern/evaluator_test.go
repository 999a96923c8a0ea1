package pattern

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
)

var _ eval.Backend = (*Backend)(nil)

func TestConformance(t *testing.T) {
	was := runtime.GOMAXPROCS(4)
	t.Cleanup(func() { runtime.GOMAXPROCS(was) })
	n := random(t)
	for _, p := range kernel.Paths() {
		t.Run(string(p), func(t *testing.T) {
			evaltest.Run(t, evaltest.Config{
				New: func(t testing.TB) *eval.Evaluator {
					e := gametest.Must(NewBackendPath(n, p))(t)
					return evaltest.Raw(e)
				},
				Boards: []*game.Board{board}, Rows: 2*block + 41, Sources: []eval.Source{eval.Fast},
			})
		})
	}
}

// All paths give the same answers, bit for bit.
func TestPathsAgree(t *testing.T) {
	n := random(t)
	var want *eval.Batch
	for _, p := range kernel.Paths() {
		e := gametest.Must(NewBackendPath(n, p))(t)
		b := eval.NewBatch(board, 1000)
		copy(b.Pos, gametest.Positions(gametest.Rand(2), board, 1000, false))
		gametest.OK(t, e.Compute(t.Context(), b))
		if want == nil {
			want = b
		}
		if !slices.Equal(b.WDL, want.WDL) || !slices.Equal(b.Policy, want.Policy) {
			t.Errorf("path %s differs from %s", p, kernel.Paths()[0])
		}
	}
	if best := NewBackend(n).Path(); best != kernel.Paths()[0] {
		t.Errorf("path %s, want %s", best, kernel.Paths()[0])
	}
}

func TestOtherBoards(t *testing.T) {
	e := NewBackend(random(t))
	b := eval.NewBatch(game.MustBoard(game.Rules{Rows: 6, Columns: 8, InARow: 4, Gravity: true}), 1)
	if err := e.Compute(t.Context(), b); err == nil || !strings.Contains(err.Error(), "7x6x4 alone, not 8x6x4") {
		t.Errorf("another board: %v", err)
	}
}

// Positions a second of one core, by shape and path.
func BenchmarkEvaluate(b *testing.B) {
	r := rand.New(rand.NewPCG(4, 4))
	var positions []game.Position // of all numbers of stones, as they come in play
	for len(positions) < 4096 {
		p := gametest.Position(r, board, r.IntN(36), true)
		if board.Result(p) == game.Ongoing {
			positions = append(positions, p)
		}
	}
	batch := eval.NewBatch(board, len(positions))
	copy(batch.Pos, positions)
	for _, shape := range [][3]int{{64, 32, 32}, {128, 64, 32}, {256, 64, 32}} {
		n := randomShape(b, shape[0], shape[1], shape[2])
		for _, p := range kernel.Paths() {
			b.Run(n.String()+"/"+string(p), func(b *testing.B) {
				was := runtime.GOMAXPROCS(1)
				defer runtime.GOMAXPROCS(was)
				e, err := NewBackendPath(n, p)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := e.Compute(b.Context(), batch); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(len(positions))*float64(b.N)/b.Elapsed().Seconds(), "positions/s")
			})
		}
	}
}
