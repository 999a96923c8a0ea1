//go:build gpu && cgo && linux && amd64

package gpu

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/kernels/cuda/driver/fake"
	"github.com/evald/evald/nn/pattern"
)

// A network of tables answers through sessions, slots and streams as the CPU does, in batches of one
// launch and of many, on two devices; in make soak also in a batch that exceeds the memory of two
// launches. An answer that no kernel gives, a launch that fails and a lost context cost their batch
// alone, and are counted; the same batch is right afterwards. Another board is an error.
func TestTablesBackend(t *testing.T) {
	noGoroutineLeft(t)
	on, said := devices(t, 2, turing), newEvents()
	n := randomTables(t, 1, 64, 16, 16, false)
	fakeDriver.Reset()
	e, notes, err := newEvaluator(ofTables(n), on, Options{Event: said.say}, quick)
	if err != nil || len(notes) > 0 {
		t.Fatal(err, notes)
	}
	t.Cleanup(func() { closed(t, e) })
	board := game.MustBoard(game.Connect4)
	cpu := gametest.Must(pattern.NewBackendPath(n, kernel.Go))(t)
	right := func(count int) {
		t.Helper()
		pos := gametest.Positions(gametest.Rand(uint64(count)), board, count, true)
		got, want := evaluate(t, e, board, pos), evaluate(t, cpu, board, pos)
		for i := range pos {
			if !sameBits(got.WDLRow(i), want.WDLRow(i)) || !sameBits(got.PolicyRow(i), want.PolicyRow(i)) {
				t.Fatalf("%d positions: row %d is %v, want %v", count, i, got.WDLRow(i), want.WDLRow(i))
			}
		}
	}
	counts := []int{1, 17, 700}
	if gametest.Soak() {
		counts = append(counts, 3*slotAnswers/tablesAnswer) // more than the memory of two devices' launches
	}
	for _, count := range counts {
		right(count)
	}
	for i, test := range []struct {
		call string
		code int
	}{{"kernel", fake.Spoil}, {"kernel", fake.LaunchFailed}, {"cuMemcpyDtoHAsync_v2", fake.LaunchFailed}} {
		fakeDriver.Reset()
		fakeDriver.Fail(test.call, 1, 1, test.code)
		pos := gametest.Positions(gametest.Rand(9), board, 700, true)
		b := newBatchOf(board, pos)
		if err := e.Compute(t.Context(), b); err == nil {
			t.Errorf("%s fails with %d: no error", test.call, test.code)
		}
		said.wait("works again", i+1)
		right(30)
		faults := uint64(0)
		for _, d := range e.Stats() {
			faults += d.Faults
		}
		if faults != uint64(i+1) {
			t.Errorf("after %s failed with %d: %d faults, want %d", test.call, test.code, faults, i+1)
		}
	}
	other := game.MustBoard(game.Rules{Rows: 6, Columns: 7, InARow: 5, Gravity: true})
	if err := e.Compute(t.Context(), newBatchOf(other, make([]game.Position, 3))); err == nil || !strings.Contains(err.Error(), "6x7") && !strings.Contains(err.Error(), "7x6x5") {
		t.Errorf("another board: %v", err)
	}
}

// A kernel whose self-test is one bit off is not used: its answers must be the CPU's.
func TestTablesSelfTest(t *testing.T) {
	gametest.OneGoroutine(t)
	n := randomTables(t, 1, 64, 16, 16, false)
	p := gametest.Must(planTables(ofTables(n), game.Connect4, turing))(t)
	served := newServed(ofTables(n))
	v := gametest.Must(served.planned(testBoard, turing))(t).variants[0]
	rows := make([]byte, 0, probes*tablesAnswer)
	for i := range probes {
		rows = append(rows, answerBytes(v.test.want.WDLRow(i), v.test.want.PolicyRow(i))...)
	}
	gametest.OK(t, v.test.compare(rows))
	rows[3*p.RowBytes()+12] ^= 1
	if err := v.test.compare(rows); !errors.Is(err, errSelfTest) {
		t.Errorf("one bit off: %v", err)
	}
}

// answerBytes is an answer as a kernel writes it.
func answerBytes(wdl, policy []float32) (row []byte) {
	for i, x := range slices.Concat(wdl, policy) {
		bits := math.Float32bits(x)
		if i == 0 {
			bits |= tablesAnswered
		}
		row = binary.LittleEndian.AppendUint32(row, bits)
	}
	return row
}

func newBatchOf(board *game.Board, pos []game.Position) *eval.Batch {
	b := eval.NewBatch(board, len(pos))
	copy(b.Pos, pos)
	return b
}
