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

func TestRulesConform(t *testing.T) {
	evaltest.Run(t, evaltest.Config{
		New:     func(testing.TB) *eval.Evaluator { return eval.New(&evaltest.Stub{Source: eval.CPU}, eval.Options{}) },
		Sources: []eval.Source{eval.CPU, eval.Rules, eval.Forced},
	})
}

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
	b := game.MustBoard(game.Connect4)
	var asked []game.Position
	stub := &evaltest.Stub{Source: eval.GPU, Before: func(_ context.Context, batch *eval.Batch) error {
		asked = slices.Clone(batch.Pos)
		return nil
	}}
	ruled := eval.New(stub, eval.Options{})
	position := func(moves string) game.Position {
		p, _, err := b.ParseMoves(moves)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	batch := eval.NewBatch(b, 6)
	for i, moves := range []string{"112233", "44", "22334", "11223", "1122334", "-"} { // won, open, lost, forced, over, open
		batch.Pos[i] = position(moves)
	}
	if err := ruled.Evaluate(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if want := []game.Position{position("44"), position("112234"), position("-")}; !slices.Equal(asked, want) {
		t.Errorf("asked for %+v, want %+v", asked, want)
	}
	if want := []eval.Source{eval.Rules, eval.GPU, eval.Rules, eval.Forced, eval.Terminal, eval.GPU}; !slices.Equal(batch.Source, want) {
		t.Errorf("sources %v, want %v", batch.Source, want)
	}
	plain := eval.NewBatch(b, 3)
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
	b := game.MustBoard(game.Connect4)
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
		batch := eval.NewBatch(b, 1)
		batch.Pos[0] = p
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
	b := eval.NewBatch(game.MustBoard(game.Connect4), 256)
	copy(b.Pos, gametest.Positions(gametest.Rand(1), b.Board, 256, true))
	ruled := eval.New(fixed{}, eval.Options{})
	if n := testing.AllocsPerRun(100, func() {
		if err := ruled.Evaluate(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations a batch", n)
	}
}

// fixed leaves the answers as they are.
type fixed struct{}

func (fixed) Attributes() eval.Attributes { return eval.Attributes{} }

func (fixed) Compute(context.Context, *eval.Batch) error { return nil }

func BenchmarkRules(b *testing.B) {
	batch := eval.NewBatch(game.MustBoard(game.Connect4), 256)
	copy(batch.Pos, gametest.Positions(gametest.Rand(1), batch.Board, 256, true))
	ruled := eval.New(fixed{}, eval.Options{})
	b.ReportAllocs()
	for b.Loop() {
		if err := ruled.Evaluate(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/row")
}
