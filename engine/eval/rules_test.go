package eval_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// On every board each answer is what playing the next two moves shows.
func TestRules(t *testing.T) {
	for i, b := range gametest.Boards() {
		d := evaltest.Rules(t, eval.New(&evaltest.Stub{Source: eval.CPU}, eval.Options{}), b, 2000, uint64(i))
		if d.Won < 20 || d.Forced < 20 || d.Lost < 3 {
			t.Errorf("%v: %+v: too few to tell", b.Rules(), d)
		}
	}
}

// The backend is asked once for what the rules leave open and for nothing else; its answers come back in their rows.
func TestRulesAsk(t *testing.T) {
	var asked []game.Position
	stub := &evaltest.Stub{Source: eval.GPU, Before: func(_ context.Context, batch *eval.Batch) error {
		asked = slices.Clone(batch.Pos)
		return nil
	}}
	ruled := eval.New(stub, eval.Options{})
	// Won, open, lost, forced, over, open.
	batch := batch(at(t, "112233"), at(t, "44"), at(t, "22334"), at(t, "11223"), at(t, "1122334"), at(t, "-"))
	gametest.OK(t, ruled.Evaluate(t.Context(), batch))
	if want := []game.Position{at(t, "44"), at(t, "112234"), at(t, "-")}; !slices.Equal(asked, want) {
		t.Errorf("asked for %+v, want %+v", asked, want)
	}
	if want := []eval.Source{eval.Rules, eval.GPU, eval.Rules, eval.Forced, eval.Terminal, eval.GPU}; !slices.Equal(batch.Source, want) {
		t.Errorf("sources %v, want %v", batch.Source, want)
	}
	plain := eval.NewBatch(board, 3)
	copy(plain.Pos, asked)
	gametest.OK(t, stub.Compute(t.Context(), plain))
	if !slices.Equal(batch.WDLRow(1), plain.WDLRow(0)) || !slices.Equal(batch.PolicyRow(1), plain.PolicyRow(0)) || !slices.Equal(batch.PolicyRow(5), plain.PolicyRow(2)) {
		t.Error("an open row is not the backend's, bit for bit")
	}
	if got, after := batch.WDLRow(3), plain.WDLRow(1); got[0] != after[2] || got[1] != after[1] || got[2] != after[0] {
		t.Errorf("a forced move leads to %v for the other side, its row says %v", after, got)
	}
	if got := batch.PolicyRow(3); got[3] != 1 {
		t.Errorf("the forced move is 4, the policy %v", got)
	}

	broken := errors.New("device lost")
	stub.Before = func(context.Context, *eval.Batch) error { return broken }
	if err := ruled.Evaluate(t.Context(), batch); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	decided := batch.Slice(0, 1)
	if err := ruled.Evaluate(t.Context(), &decided); err != nil {
		t.Errorf("nothing to ask for: %v", err)
	}
}

// Moves that lose at once have no probability, and the others share it in their old proportions, or evenly if they had none.
func TestRulesMask(t *testing.T) {
	r := gametest.Rand(4)
	p := gametest.Open(r, board, 1)[0]
	for board.Outlook(p).Moves == board.Legal(p) {
		p = gametest.Open(r, board, 1)[0]
	}
	moves, legal := board.Outlook(p).Moves, board.Legal(p)
	for name, cells := range map[string]game.Bits{"all alike": legal, "all on those that lose": legal.AndNot(moves)} {
		stub := &evaltest.Stub{Source: eval.CPU, After: func(b *eval.Batch) { b.SharePolicy(0, cells) }}
		got, want := batch(p), batch(p)
		want.SharePolicy(0, moves)
		gametest.OK(t, eval.New(stub, eval.Options{}).Evaluate(t.Context(), got))
		for a, x := range got.Policy {
			if d := x - want.Policy[a]; d > 1e-6 || d < -1e-6 || got.Source[0] != eval.CPU {
				t.Errorf("%s: move %d has %v by %v, want %v", name, a, x, got.Source[0], want.Policy[a])
			}
		}
	}
}

// Each row of a large batch has the bits that the rules and the backend give to its position alone,
// with the rules and without them.
func TestRulesRows(t *testing.T) {
	stub := &evaltest.Stub{Source: eval.CPU}
	for i, b := range gametest.Boards() {
		for _, own := range []bool{false, true} {
			got, want := eval.NewBatch(b, 1000), eval.NewBatch(b, 1)
			copy(got.Pos, gametest.Positions(gametest.Rand(uint64(i)), b, 1000, false))
			copy(got.Pos[300:], gametest.Open(gametest.Rand(9), b, 200)) // more neighbours than are copied at a time
			gametest.OK(t, eval.New(stub, eval.Options{OwnRules: own}).Evaluate(t.Context(), got))
			for i, p := range got.Pos {
				evaluateSlowly(t, stub, want, p, own)
				if row := got.Slice(i, i+1); !sameAnswers(&row, want) || row.Source[0] != want.Source[0] {
					t.Fatalf("%v row %d: %v %v by %v, want %v %v by %v", b.Rules(), i, row.WDL, row.Policy, row.Source, want.WDL, want.Policy, want.Source)
				}
			}
		}
	}
}

// evaluateSlowly answers p in the only row of b, as rules.go describes it.
func evaluateSlowly(t *testing.T, backend eval.Backend, b *eval.Batch, p game.Position, ownRules bool) {
	if b.Pos[0] = p; b.AnswerTerminal(0) {
		return
	}
	o := game.Outlook{Next: p, Moves: b.Board.Legal(p)}
	if !ownRules {
		o = b.Board.Outlook(p)
	}
	if o.Result != game.Ongoing {
		wdl := o.Result.WDL()
		copy(b.WDL, wdl[:])
		b.SharePolicy(0, o.Moves)
		b.Source[0] = eval.Rules
		return
	}
	b.Pos[0] = o.Next
	gametest.OK(t, backend.Compute(t.Context(), b))
	if b.Pos[0] = p; o.Plies > 0 {
		if o.Plies%2 == 1 {
			b.WDL[0], b.WDL[2] = b.WDL[2], b.WDL[0]
		}
		b.SharePolicy(0, o.Moves)
		b.Source[0] = eval.Forced
		return
	}
	if o.Moves == b.Board.Legal(p) {
		return
	}
	total := float32(0)
	for a := range b.Policy {
		if b.Board.Cell(p, a).And(o.Moves).IsZero() {
			b.Policy[a] = 0
		}
		total += b.Policy[a]
	}
	for a := range b.Policy {
		b.Policy[a] /= total
	}
}

func TestRulesAllocate(t *testing.T) {
	if gametest.Race {
		t.Skip("the race detector allocates")
	}
	b, ruled := batch(positions(1, 256)...), eval.New(constant{}, eval.Options{})
	best := eval.NewChoices(board, len(b.Pos))
	copy(best.Pos, b.Pos)
	if n := testing.AllocsPerRun(100, func() {
		gametest.OK(t, errors.Join(ruled.Evaluate(t.Context(), b), ruled.Best(t.Context(), best)))
	}); n > 0 {
		t.Errorf("%v allocations a batch", n)
	}
}

func BenchmarkRules(b *testing.B) {
	batch, ruled := batch(positions(1, 256)...), eval.New(constant{}, eval.Options{})
	b.ReportAllocs()
	for b.Loop() {
		if err := ruled.Evaluate(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/row")
}
