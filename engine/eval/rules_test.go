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
	if err := ruled.Evaluate(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if want := []game.Position{at(t, "44"), at(t, "112234"), at(t, "-")}; !slices.Equal(asked, want) {
		t.Errorf("asked for %+v, want %+v", asked, want)
	}
	if want := []eval.Source{eval.Rules, eval.GPU, eval.Rules, eval.Forced, eval.Terminal, eval.GPU}; !slices.Equal(batch.Source, want) {
		t.Errorf("sources %v, want %v", batch.Source, want)
	}
	plain := eval.NewBatch(board, 3)
	copy(plain.Pos, asked)
	if err := stub.Compute(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
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
	b := board
	var p game.Position
	r := gametest.Rand(4)
	for b.Outlook(p).Result != game.Ongoing || b.Outlook(p).Plies > 0 || b.Outlook(p).Moves == b.Legal(p) {
		p = gametest.Position(r, b, 20, true)
	}
	o := b.Outlook(p)
	uniform := &evaltest.Stub{Source: eval.CPU, After: func(batch *eval.Batch) {
		policy := batch.PolicyRow(0)
		for a := range policy {
			policy[a] = 0
			if b.CanPlay(p, a) {
				policy[a] = 1 / float32(b.Legal(p).OnesCount())
			}
		}
	}}
	losing := &evaltest.Stub{Source: eval.CPU, After: func(batch *eval.Batch) {
		policy := batch.PolicyRow(0)
		clear(policy)
		policy[b.Action(b.Legal(p).AndNot(o.Moves).First())] = 1
	}}
	for name, stub := range map[string]*evaltest.Stub{"all alike": uniform, "all on one that loses": losing} {
		batch := batch(p)
		if err := eval.New(stub, eval.Options{}).Evaluate(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		for a, x := range batch.Policy {
			want := float32(0)
			if !b.Cell(p, a).And(o.Moves).IsZero() {
				want = 1 / float32(o.Moves.OnesCount())
			}
			if d := x - want; d > 1e-6 || d < -1e-6 {
				t.Errorf("%s: move %d has %v, want %v", name, a, x, want)
			}
		}
		if batch.Source[0] != eval.CPU {
			t.Errorf("%s: source %v", name, batch.Source[0])
		}
	}
}

func TestRulesAllocate(t *testing.T) {
	if gametest.Race {
		t.Skip("the race detector allocates")
	}
	b, ruled := batch(positions(1, 256)...), eval.New(constant{}, eval.Options{})
	if n := testing.AllocsPerRun(100, func() {
		if err := ruled.Evaluate(t.Context(), b); err != nil {
			t.Fatal(err)
		}
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
