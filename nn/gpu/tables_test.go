package gpu

import (
	"context"
	"encoding/binary"
	"math"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cuda"
	"github.com/evald/evald/kernels/cuda/emutest"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/pattern"
)

func TestTablesEmulated(t *testing.T) {
	e := emulator(t)
	board := game.MustBoard(game.Connect4)
	n := shippedTables(t)
	random := gametest.Rand(1)
	pos := append(gametest.Open(random, board, 42), gametest.Positions(random, board, 100, true)...)
	for _, k := range cuda.TablesKernels() {
		if k.Lanes < 256 {
			continue
		}
		want := eval.NewBatch(board, len(pos))
		copy(want.Pos, pos)
		gametest.OK(t, pattern.NewBackend(n).Compute(context.Background(), want))
		widths := k.Widths(n.Weights.Sizes())
		var job, in []byte
		for _, x := range []int{len(pos), 6, 7, 4, 1, 0, 0, 0, widths[1], widths[2], 40, 7} {
			job = binary.LittleEndian.AppendUint32(job, uint32(x))
		}
		for _, p := range pos {
			in = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(in, p.Own.Lo), p.All.Lo)
		}
		out := e.Run(t, emutest.Launch{Kernel: k.Name, Blocks: 2, Shared: k.Shared(widths), Job: job, Weights: packTables(k, n), Pos: in, Out: 40 * len(pos)})
		got := eval.NewBatch(board, len(pos))
		wrong := 0
		for i := range pos {
			for j := range 10 {
				x := binary.LittleEndian.Uint32(out[40*i+4*j:])
				if j == 0 {
					x &^= 3 << 30
				}
				y := f32bits(want.WDLRow(i), want.PolicyRow(i), j)
				if x != y {
					if wrong++; wrong < 10 {
						t.Errorf("%s position %d word %d: %x want %x", k.Name, i, j, x, y)
					}
				}
			}
		}
		_ = got
	}
}

func f32bits(wdl, policy []float32, j int) uint32 {
	if j < 3 {
		return math.Float32bits(wdl[j])
	}
	return math.Float32bits(policy[j-3])
}

func shippedTables(t testing.TB) *pattern.Network {
	t.Helper()
	file, _, err := models.Open("default-fast")
	gametest.OK(t, err)
	return gametest.Must(pattern.Parse(file))(t)
}
