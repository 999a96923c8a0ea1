package gpu

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
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

// Positions and answers of many rows are those of each row, and nothing is written beyond them. An
// error names its row.
func TestRowsTogether(t *testing.T) {
	gametest.OneGoroutine(t)
	const n = 100
	wide := game.Rules{Rows: 9, Columns: 9, InARow: 5, Gravity: true}
	for name, p := range map[string]plan{
		"convolutions": planFor(t, config(t, "1x16"), game.Connect4, hopper, "tower_64"),
		"wide":         gametest.Must(newPlan(config(t, "1x16"), wide, hopper))(t),
		"tables":       gametest.Must(planTables(ofTables(emptyTables(t, 64, 16, 16)), game.Connect4, hopper))(t),
	} {
		board, random := game.MustBoard(p.rules), gametest.Rand(1)
		in, rows, size := p.PositionBytes(), answers(p, n), p.RowBytes()
		got, want := eval.NewBatch(board, n), eval.NewBatch(board, n)
		for i := range got.Policy {
			got.Policy[i], want.Policy[i] = -1, -1
		}
		copy(got.Pos, gametest.Positions(random, board, n, true))
		all, each := bytes.Repeat([]byte{0xcd}, (n+1)*in), bytes.Repeat([]byte{0xcd}, (n+1)*in)
		p.PutPositions(all, got.Pos)
		gametest.OK(t, p.ReadAnswers(got, 10, 90, rows[10*size:]))
		for i := range n {
			p.PutPosition(each[i*in:], got.Pos[i])
			if i >= 10 && i < 90 {
				gametest.OK(t, p.ReadAnswer(want, i, rows[i*size:][:size]))
			}
		}
		want.Pos = got.Pos
		if diff := cmp.Diff(each, all); diff != "" {
			t.Errorf("%s: positions (-want +got):\n%s", name, diff)
		}
		if !slices.Equal(got.WDL, want.WDL) || !slices.Equal(got.Policy, want.Policy) || !slices.Equal(got.Source, want.Source) {
			t.Errorf("%s: other answers together than alone", name)
		}
		if got.Policy[10*board.Actions()-1] != -1 || got.Policy[90*board.Actions()] != -1 || got.Policy[10*board.Actions()] == -1 {
			t.Errorf("%s: other rows than 10 to 90 are answered", name)
		}
		clear(rows[70*size:][:size])
		if err := p.ReadAnswers(got, 10, 90, rows[10*size:]); err == nil || !strings.Contains(err.Error(), "row 70:") {
			t.Errorf("%s: error %v, want one of row 70", name, err)
		}
	}
}

// answers are n possible answers of a device.
func answers(p plan, n int) []byte {
	random := gametest.Rand(2)
	var rows []byte
	for range n {
		if p.isTables() {
			rows = binary.LittleEndian.AppendUint32(rows, tablesAnswered|math.Float32bits(random.Float32()))
		} else {
			rows = binary.LittleEndian.AppendUint32(rows, answered<<28|random.Uint32N(1<<23))
			rows = binary.LittleEndian.AppendUint32(rows, random.Uint32N(1<<23))
		}
		for len(rows)%p.RowBytes() != 0 {
			rows = binary.LittleEndian.AppendUint32(rows, math.Float32bits(random.Float32()))
		}
	}
	return rows
}

// BenchmarkRows is the host's time for a row of a launch: writing its position for the device, and
// reading its answer.
func BenchmarkRows(b *testing.B) {
	const n = 4096
	for name, p := range map[string]plan{
		"convolutions": planFor(b, config(b, "6x64"), game.Connect4, hopper, "tower_64"),
		"tables":       gametest.Must(planTables(ofTables(emptyTables(b, 64, 16, 16)), game.Connect4, hopper))(b),
	} {
		board := game.MustBoard(game.Connect4)
		batch, in, out := eval.NewBatch(board, n), make([]byte, n*p.PositionBytes()), answers(p, n)
		copy(batch.Pos, gametest.Positions(gametest.Rand(1), board, n, true))
		b.Run(name+"/put", func(b *testing.B) {
			for done := 0; done < b.N; done += n {
				p.PutPositions(in, batch.Pos)
			}
		})
		b.Run(name+"/read", func(b *testing.B) {
			for done := 0; done < b.N; done += n {
				if err := p.ReadAnswers(batch, 0, n, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
