package gpu

import (
	"encoding/binary"
	"math"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cuda"
)

func TestReadAnswer(t *testing.T) {
	p := planFor(t, config(t, "1x16"), game.TicTacToe, hopper, "tower_64")
	b := eval.NewBatch(game.MustBoard(game.TicTacToe), 2)
	policy := []float32{0, 0.5, 0, 0, 0.25, 0.25, 0, 0, 0}
	answer := func(first, second uint32) []byte {
		row := binary.LittleEndian.AppendUint32(nil, first)
		row = binary.LittleEndian.AppendUint32(row, second)
		for _, x := range policy {
			row = binary.LittleEndian.AppendUint32(row, math.Float32bits(x))
		}
		return row
	}
	const ok, one = answered << 28, 1 << 24
	for _, test := range []struct {
		first, second uint32
		want          []float32 // nil: an error is expected
	}{
		{ok | one/2, one / 4, []float32{0.5, 0.25, 0.25}},
		{ok | one, 0, []float32{1, 0, 0}},
		{ok, one, []float32{0, 1, 0}},
		{ok, 0, []float32{0, 0, 1}},
		{ok | 1, one - 1, []float32{1. / one, 1 - 1./one, 0}},
		{ok | one, 1, nil},
		{ok, one + 1, nil},
		{ok | one + 1, 0, nil},
		{0, 0, nil},
		{0xcdcdcdcd, 0xcdcdcdcd, nil},
		{math.MaxUint32, 0, nil},
		{notFinite << 28, 0, nil},
	} {
		err := p.ReadAnswer(b, 1, answer(test.first, test.second))
		if (err == nil) != (test.want != nil) {
			t.Errorf("%#x %#x: error %v", test.first, test.second, err)
		}
		if err != nil || test.want == nil {
			continue
		}
		if diff := cmp.Diff(test.want, b.WDLRow(1)); diff != "" {
			t.Errorf("%#x %#x: WDL (-want +got):\n%s", test.first, test.second, diff)
		}
		if diff := cmp.Diff(policy, b.PolicyRow(1)); diff != "" || b.Source[1] != eval.GPU {
			t.Errorf("policy (-want +got):\n%s; source %v", diff, b.Source[1])
		}
	}
}

func TestReadAnswerRefusesWhatIsNoProbability(t *testing.T) {
	p := planFor(t, config(t, "1x16"), game.Connect4, hopper, "tower_64")
	b := eval.NewBatch(game.MustBoard(game.Connect4), 1)
	row := make([]byte, p.RowBytes())
	binary.LittleEndian.PutUint32(row, answered<<28)
	if err := p.ReadAnswer(b, 0, row); err != nil {
		t.Error(err)
	}
	for _, x := range []float32{-1e-9, 1.1, float32(math.NaN()), float32(math.Inf(1))} {
		binary.LittleEndian.PutUint32(row[8+4*6:], math.Float32bits(x))
		if err := p.ReadAnswer(b, 0, row); err == nil {
			t.Errorf("probability %g is taken", x)
		}
	}
}

func TestPositionsTravelAsBitboards(t *testing.T) {
	at := game.Position{Own: game.Bits{Lo: 1, Hi: 2}, All: game.Bits{Lo: 3, Hi: 4}}
	for _, test := range []struct {
		rules game.Rules
		want  []uint64
	}{
		{game.Connect4, []uint64{0, 0, 1, 3}},
		{game.Rules{Rows: 9, Columns: 9, InARow: 5}, []uint64{0, 0, 0, 0, 1, 2, 3, 4}},
	} {
		p := gametest.Must(newPlan(config(t, "1x16"), test.rules, small))(t)
		dst := make([]byte, 2*p.PositionBytes())
		p.PutPosition(dst, game.Position{})
		p.PutPosition(dst[p.PositionBytes():], at)
		got := make([]uint64, len(dst)/8)
		for i := range got {
			got[i] = binary.LittleEndian.Uint64(dst[8*i:])
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.rules, diff)
		}
	}
}

// job has the memory layout of the kernels' Job, whose offsets emu/main.cpp asserts.
func TestJobLayout(t *testing.T) {
	var j job
	got := []uintptr{
		unsafe.Offsetof(j.Weights), unsafe.Offsetof(j.Positions), unsafe.Offsetof(j.Out), unsafe.Offsetof(j.Scratch),
		unsafe.Offsetof(j.ScratchBytes), unsafe.Offsetof(j.N), unsafe.Sizeof(j),
	}
	if diff := cmp.Diff([]uintptr{0, 8, 16, 24, 32, 40, cuda.JobBytes}, got); diff != "" {
		t.Errorf("offsets (-want +got):\n%s", diff)
	}
}

// BenchmarkRow is the host's work for a position: the rules, writing it for the device and reading the answer.
func BenchmarkRow(b *testing.B) {
	board := game.MustBoard(game.Connect4)
	p, err := newPlan(config(b, "6x64"), game.Connect4, hopper)
	if err != nil {
		b.Fatal(err)
	}
	const n = 1024
	batch := eval.NewBatch(board, n)
	copy(batch.Pos, gametest.Positions(gametest.Rand(1), board, n, false))
	in, out := make([]byte, n*p.PositionBytes()), make([]byte, n*p.RowBytes())
	for i := range n {
		binary.LittleEndian.PutUint32(out[i*p.RowBytes():], answered<<28)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i = (i + 1) % n {
		if !batch.AnswerTerminal(i) {
			p.PutPosition(in[i*p.PositionBytes():], batch.Pos[i])
			if err := p.ReadAnswer(batch, i, out[i*p.RowBytes():(i+1)*p.RowBytes()]); err != nil {
				b.Fatal(err)
			}
		}
	}
}
