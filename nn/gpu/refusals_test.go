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
	"github.com/evald/evald/kernels/cuda/driver/fake"
	"github.com/evald/evald/nn/net"
)

// An answer that is not finite costs a launch and nothing else: the device is asked again for
// halves of its batch.
func TestEvaluatorNotFinite(t *testing.T) {
	noGoroutineLeft(t)
	s := newScenario(t, fewRows)
	o := s.run(t, "an answer is not finite", func() { fakeDriver.Fail("kernel", 2, 1, fake.Spoil) })
	if o.start != nil || o.cpu != 0 || o.stats.Faults != 0 || o.stats.Rebuilt != 0 {
		t.Errorf("%+v", o)
	}
	if o := s.run(t, "always", func() { fakeDriver.Fail("kernel", 1, -1, fake.Spoil) }); !errors.Is(o.start, errSelfTest) {
		t.Errorf("a device whose answers are never finite serves: %+v", o)
	}
}

// The self-test notices rows that were not written, that differ from their repetition, or that belong to another position.
func TestEvaluatorSelfTestNotices(t *testing.T) {
	devices(t, 1, geforce)
	p := gametest.Must(newServed(convolutions{scrambled(t, "1x16/8/16", 1)}).planned(testBoard, geforce))(t)
	l, size := p.variants[0].test, p.RowBytes()
	for name, test := range map[string]struct {
		damage func(rows []byte)
		says   string
	}{
		"nothing":             {func([]byte) {}, ""},
		"nothing was written": {func(rows []byte) { clear(rows) }, "the device left no answer"},
		"a bit of a late row": {func(rows []byte) { rows[13*size+9] ^= 1 }, "rows 5 and 13 are the same position, and differ"},
		"all rows are one": {func(rows []byte) {
			for i := 1; i < 20; i++ {
				copy(rows[i*size:(i+1)*size], rows)
			}
		}, " apart from the reference, at most"},
		"too much of a win": {func(rows []byte) {
			for i := 0; i < 20; i += probes {
				rows[i*size+3] |= 1
				rows[i*size] |= 1
			}
		}, "the device left no answer"},
	} {
		rows := make([]byte, 0, 20*size)
		for i := range 20 {
			rows = appendAnswer(rows, l.want, i%probes)
		}
		test.damage(rows)
		err := l.compare(rows)
		if test.says == "" && err != nil || test.says != "" && (!errors.Is(err, errSelfTest) || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}

// appendAnswer writes an answer in a kernel's format.
func appendAnswer(rows []byte, b *eval.Batch, i int) []byte {
	unit := func(x float32) uint32 { return uint32(x * (1 << 24)) }
	rows = binary.LittleEndian.AppendUint32(rows, answered<<28|unit(b.WDLRow(i)[0]))
	rows = binary.LittleEndian.AppendUint32(rows, unit(b.WDLRow(i)[1]))
	for _, x := range b.PolicyRow(i) {
		rows = binary.LittleEndian.AppendUint32(rows, math.Float32bits(x))
	}
	return rows
}

// A kernel that only another board needs is refused if it fails its self-test. Other batches do not suffer.
func TestEvaluatorRefuses(t *testing.T) {
	gametest.OneGoroutine(t)
	noGoroutineLeft(t)
	board, large := game.MustBoard(game.Connect4), game.MustBoard(large)
	e := evaluator(t, scrambled(t, "1x200/8/16", 1), devices(t, 1, geforce), nil)
	pos := gametest.Positions(gametest.Rand(4), board, 5, false)
	want, memory := evaluate(t, e, board, pos), fakeDriver.Count().Memory

	fakeDriver.Reset()
	fakeDriver.Fail("kernel", 1, 1, fake.Spoil)
	for range 2 { // the second time it is refused without a launch
		if err := e.Compute(t.Context(), eval.NewBatch(large, 3)); !errors.Is(err, errSelfTest) || !strings.Contains(err.Error(), "kernel tower_any") {
			t.Errorf("a kernel that fails its self-test serves: %v", err)
		}
	}
	if n := fakeDriver.Calls()["kernel"]; n != 1 {
		t.Errorf("it was started %d times", n)
	}
	if !sameRows(evaluate(t, e, board, pos), want) || e.Stats()[0].Faults != 0 {
		t.Error("other batches suffer from it")
	}
	if now := fakeDriver.Count().Memory; now != memory+1 { // that kernel's scratch memory, which is kept for its next test
		t.Errorf("%d pieces of memory after it, %d before", now, memory)
	}
}

// A network that is never finite is refused at the start.
func TestEvaluatorOverflows(t *testing.T) {
	n := scrambled(t, "1x4/3/5", 1)
	for _, name := range []string{"value.wdl.weight", "value.wdl.bias"} {
		for i, w := 0, n.Weight(name).Float32s(); i < len(w); i++ {
			w[i] = 3e38
		}
	}
	noGoroutineLeft(t)
	_, _, err := newEvaluator(convolutions{n}, devices(t, 1, geforce), Options{}, quick)
	if err == nil || !strings.Contains(err.Error(), "self-test: network 1x4/3/5: evaluate: row 0: answer is not finite: position -: win-draw-loss logit 0 is") {
		t.Errorf("a network that is never finite: %v", err)
	}
	nothingLeft(t, "after a network that is never finite")
}

// A position with an activation that fp16 cannot hold is answered by the next evaluator, as often
// as it comes. The positions beside it keep the device's answers, bit for bit.
func TestEvaluatorFloat16Overflows(t *testing.T) {
	noGoroutineLeft(t)
	n, board := scrambled(t, "1x16/8/16", 1), game.MustBoard(game.Connect4)
	w := n.Weight("stem.weight").Float32s() // [16,5,3,3]
	for tap := range 9 {
		w[tap] = 8000 // of the first channel and the plane of own stones: only if all nine are there, it overflows
	}
	for name, taps := range map[string]int{"blocks.0.conv1": 9, "value.conv": 1, "policy.conv": 1} {
		w := n.Weight(name + ".weight").Float32s() // [..,16,..]
		for i := range w {
			if i/taps%16 == 0 {
				w[i] = 0 // nothing comes of that channel while it is finite
			}
		}
	}
	e := evaluator(t, n, devices(t, 1, geforce), nil)
	f := eval.Fallback{{Name: "gpu", Backend: e}, {Name: "cpu", Backend: net.NewBackend(n)}}
	large, _, err := board.ParseMoves("151515262626373737") // nine stones of the side to move in a square
	if err != nil {
		t.Fatal(err)
	}
	small := gametest.Positions(gametest.Rand(4), board, 6, true)
	want := evaluate(t, e, board, small)
	if countSource(want, eval.GPU) != len(small) {
		t.Errorf("without that position sources are %v", want.Source)
	}
	err = e.Compute(t.Context(), &eval.Batch{Board: board, Pos: []game.Position{large}, WDL: make([]float32, 3), Policy: make([]float32, 7), Source: make([]eval.Source, 1)})
	if !errors.Is(err, eval.ErrNotFinite) || !strings.Contains(err.Error(), "answer is not finite: position "+board.Text(large)) || !strings.Contains(err.Error(), "65504") {
		t.Errorf("error %v, want one that names the position", err)
	}
	for at := range 7 { // the row of that position
		got := evaluate(t, f, board, slices.Insert(slices.Clone(small), at, large))
		alone := got.Slice(at, at+1)
		if !sameRows(&alone, reference(t, n, board, alone.Pos)) {
			t.Errorf("row %d is by %v, and not the reference's", at, alone.Source)
		}
		before, after := got.Slice(0, at), got.Slice(at+1, len(got.Pos))
		wantBefore, wantAfter := want.Slice(0, at), want.Slice(at, len(small))
		if !sameRows(&before, &wantBefore) || !sameRows(&after, &wantAfter) {
			t.Errorf("the rows beside row %d are not the device's: %v", at, got.Source)
		}
	}
	if d := e.Stats()[0]; !d.Working || d.Faults != 0 || d.Rebuilt != 0 {
		t.Errorf("%+v", d)
	}
}

// A network with a weight that fp16 cannot hold is refused at the start.
func TestEvaluatorRefusesLargeWeights(t *testing.T) {
	noGoroutineLeft(t)
	n := scrambled(t, "1x4/3/5", 1)
	n.Weight("blocks.0.conv1.weight").Float32s()[5] = 7e4
	_, _, err := newEvaluator(convolutions{n}, devices(t, 1, geforce), Options{}, quick)
	if want := "blocks.0.conv1.weight[5] is 70000, and GPUs multiply in float16, up to 65504: take the CPU"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	nothingLeft(t, "after a network of large weights")
}
