package eval_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/queue"
)

var board = game.MustBoard(game.Connect4)

func batch(ps ...game.Position) *eval.Batch {
	b := eval.NewBatch(board, len(ps))
	copy(b.Pos, ps)
	return b
}

func positions(seed uint64, n int) []game.Position {
	return gametest.Positions(gametest.Rand(seed), board, n, true)
}

// at is the position after some moves.
func at(t *testing.T, moves string) game.Position {
	p, _, err := board.ParseMoves(moves)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// sameAnswers reports whether two batches have the same WDL and policies, bit for bit.
func sameAnswers(a, b *eval.Batch) bool {
	return slices.Equal(a.WDL, b.WDL) && slices.Equal(a.Policy, b.Policy)
}

// constant answers without counting or allocating.
type constant struct{}

func (constant) Attributes() eval.Attributes { return eval.Attributes{} }

func (constant) Compute(_ context.Context, b *eval.Batch) error {
	for i := range b.Pos {
		copy(b.WDLRow(i), []float32{1, 0, 0})
		clear(b.PolicyRow(i))
		b.Source[i] = eval.CPU
	}
	return nil
}

func TestConformance(t *testing.T) {
	stub := func() *evaltest.Stub { return &evaltest.Stub{Source: eval.CPU} }
	broken := &evaltest.Stub{Before: func(context.Context, *eval.Batch) error { return errors.New("out of order") }}
	own, merging := eval.Options{OwnRules: true}, queue.Config{MaxRows: 16, MaxDelay: time.Microsecond, InFlight: 2}
	for name, c := range map[string]struct {
		e       func() *eval.Evaluator
		mirror  bool
		sources []eval.Source
	}{
		"rules":      {func() *eval.Evaluator { return eval.New(stub(), eval.Options{}) }, false, []eval.Source{eval.CPU, eval.Rules, eval.Forced}},
		"cache":      {func() *eval.Evaluator { return cached(eval.NewCache(1<<14), "m", stub()) }, true, []eval.Source{eval.CPU, eval.Cached}},
		"tiny cache": {func() *eval.Evaluator { return cached(eval.NewCache(1), "m", stub()) }, true, []eval.Source{eval.CPU, eval.Cached}},
		"batcher": {func() *eval.Evaluator {
			return eval.New(queue.New(stub(), merging), own)
		}, false, []eval.Source{eval.CPU}},
		"fallback": {func() *eval.Evaluator {
			return eval.New(eval.Fallback{{Name: "broken", Backend: broken}, {Name: "stub", Backend: stub()}}, own)
		}, false, []eval.Source{eval.CPU}},
		"mirrored": {func() *eval.Evaluator { return eval.New(eval.NewMirrored(stub()), own) }, true, []eval.Source{eval.CPU}},
		"exact":    {func() *eval.Evaluator { return eval.New(stub(), eval.Options{Exact: eval.NewExact(200)}) }, false, []eval.Source{eval.CPU, eval.Rules, eval.Forced, eval.Solved}},
		"all options": {func() *eval.Evaluator {
			fallback := eval.Fallback{{Name: "broken", Backend: broken}, {Name: "stub", Backend: stub()}}
			return eval.New(queue.New(fallback, merging), eval.Options{Cache: eval.NewCache(1 << 10), Model: "m", Exact: eval.NewExact(200)})
		}, true, []eval.Source{eval.CPU, eval.Cached, eval.Rules, eval.Forced, eval.Solved}},
	} {
		t.Run(name, func(t *testing.T) {
			evaltest.Run(t, evaltest.Config{
				New: func(testing.TB) *eval.Evaluator { return c.e() }, Mirror: c.mirror, MirrorTolerance: 1e-6, Sources: c.sources,
			})
		})
	}
}

// A batch whose slices do not fit, or whose context has ended, is an error, never a panic, and the backend is not asked.
func TestMalformed(t *testing.T) {
	stub := &evaltest.Stub{}
	e := eval.New(stub, eval.Options{})
	for name, damage := range map[string]func(*eval.Batch){
		"no board":     func(b *eval.Batch) { b.Board = nil },
		"short WDL":    func(b *eval.Batch) { b.WDL = b.WDL[:1] },
		"short policy": func(b *eval.Batch) { b.Policy = b.Policy[:1] },
		"long source":  func(b *eval.Batch) { b.Source = append(b.Source, eval.None) },
		"late":         func(*eval.Batch) {},
	} {
		for call, ask := range map[string]func(context.Context, *eval.Batch) error{"Evaluate": e.Evaluate, "Leaves": e.Leaves} {
			b := batch(make([]game.Position, 3)...)
			damage(b)
			ctx, cancel := context.WithCancel(t.Context())
			if name == "late" {
				cancel()
			}
			if err := ask(ctx, b); err == nil || errors.Is(err, context.Canceled) != (name == "late") || stub.Rows.Load() > 0 {
				t.Errorf("%s, %s: error %v, and the backend was asked for %d rows", name, call, err, stub.Rows.Load())
			}
			cancel()
		}
	}
}

// Leaves are the backend's own answers, also where the next stones decide, and a finished game is refused before anything is
// asked.
func TestLeaves(t *testing.T) {
	stub := &evaltest.Stub{Source: eval.CPU}
	var seen []eval.Source
	e := eval.New(stub, eval.Options{OnAnswers: func(s []eval.Source) { seen = append(seen, s...) }})
	open := batch(at(t, "112233"), at(t, "44"), at(t, "22334"), at(t, "11223")) // won, open, lost, forced
	raw := batch(open.Pos...)
	gametest.OK(t, stub.Compute(t.Context(), raw))
	gametest.OK(t, e.Leaves(t.Context(), open))
	if !sameAnswers(open, raw) || !slices.Equal(open.Source, raw.Source) {
		t.Errorf("leaves %v %v, the backend's answers %v %v", open.WDL, open.Source, raw.WDL, raw.Source)
	}
	if !slices.Equal(seen, raw.Source) {
		t.Errorf("OnAnswers was called with %v, want %v", seen, raw.Source)
	}
	asked := stub.Rows.Load()
	err := e.Leaves(t.Context(), batch(at(t, "44"), at(t, "1122334")))
	if why, ok := errors.AsType[*eval.RowError](err); !ok || why.Row != 1 || !strings.Contains(err.Error(), "row 1: "+why.Reason) || stub.Rows.Load() != asked {
		t.Errorf("a finished game as a leaf: error %v, %d rows asked for", err, stub.Rows.Load()-asked)
	}
}

// A batch that grows keeps its positions: callers append them before they know how many there will be.
func TestResetKeepsPositions(t *testing.T) {
	b := batch(positions(3, 5)...)
	want := slices.Clone(b.Pos)
	b.Reset(board, 500)
	if !slices.Equal(b.Pos[:5], want) {
		t.Errorf("after Reset to more rows the positions are %v, want %v", b.Pos[:5], want)
	}
	if b.Reset(board, 3); !slices.Equal(b.Pos, want[:3]) {
		t.Errorf("after Reset to fewer rows the positions are %v, want %v", b.Pos, want[:3])
	}
}

// Mirrored answers the mean of a position's answer and of its mirror image's, asked for in one batch.
func TestMirrored(t *testing.T) {
	fallen := map[game.Position]bool{}
	stub := &evaltest.Stub{Source: eval.GPU, After: func(b *eval.Batch) {
		for i, p := range b.Pos {
			if fallen[p] {
				b.Source[i] = eval.Bitsquares
			}
		}
	}}
	m := eval.NewMirrored(stub)
	ps := positions(5, 40)
	b, both := batch(ps...), batch(append(ps, ps...)...)
	fallen[ps[2]], fallen[board.Mirror(ps[7])] = true, true
	for i, p := range ps {
		both.Pos[40+i] = board.Mirror(p)
	}
	gametest.OK(t, errors.Join(stub.Compute(t.Context(), both), m.Compute(t.Context(), b)))
	if sizes := stub.Sizes(); !slices.Equal(sizes, []int{80, 80}) {
		t.Errorf("batches of %v", sizes)
	}
	for i := range ps {
		for k, got := range b.WDLRow(i) {
			if want := (both.WDLRow(i)[k] + both.WDLRow(40 + i)[k]) / 2; got != want {
				t.Errorf("row %d: wdl[%d] is %v, want %v", i, k, got, want)
			}
		}
		for a, got := range b.PolicyRow(i) {
			if want := (both.PolicyRow(i)[a] + both.PolicyRow(40 + i)[board.Columns()-1-a]) / 2; got != want {
				t.Errorf("row %d: policy[%d] is %v, want %v", i, a, got, want)
			}
		}
		want := eval.GPU
		if i == 2 || i == 7 {
			want = eval.Bitsquares
		}
		if b.Source[i] != want {
			t.Errorf("row %d is %v's, want %v's", i, b.Source[i], want)
		}
	}
}

func TestSourceNames(t *testing.T) {
	if eval.None.String() != "none" || eval.Cached.String() != "cache" {
		t.Errorf("None is called %q, Cached %q", eval.None, eval.Cached)
	}
	order := []eval.Source{
		eval.None, eval.GPU, eval.CPU, eval.Cached, eval.Terminal, eval.Bitsquares, "centre", eval.Gameovers, eval.OddEven, eval.Rollout, eval.Uniform,
		eval.Searched, eval.Solved, eval.Rules, eval.Forced,
	}
	if !slices.IsSortedFunc(order, eval.Source.Compare) {
		t.Errorf("sources are listed as %v, want %v", slices.SortedFunc(slices.Values(order), eval.Source.Compare), order)
	}
	for _, s := range order {
		want := "m"
		if s.Heuristic() {
			want = s.String()
		}
		if got := s.By("m"); got != want {
			t.Errorf("%v of model m is by %q, want %q", s, got, want)
		}
		if back, ok := eval.ParseSource(s.String()); ok == s.Heuristic() || ok && back != s {
			t.Errorf("ParseSource(%q) = %q, %t", s, back, ok)
		}
	}
	for _, name := range []string{"", "nobody", "heuristic"} {
		if s, ok := eval.ParseSource(name); ok {
			t.Errorf("ParseSource(%q) = %q, want none", name, s)
		}
	}
}

func TestFallback(t *testing.T) {
	lost := errors.New("device lost")
	first := &evaltest.Stub{Source: eval.GPU, Before: func(context.Context, *eval.Batch) error { return lost }}
	all := positions(1, 5)
	second := &evaltest.Stub{Source: eval.CPU, After: func(b *eval.Batch) {
		for i, p := range b.Pos {
			if p == all[3] {
				b.PolicyRow(i)[6] = float32(math.Inf(1))
			}
		}
	}}
	third := &evaltest.Stub{Source: eval.Bitsquares}
	f := eval.Fallback{{Name: "gpu", Backend: first}, {Name: "cpu", Backend: second}, {Name: "bitsquares", Backend: third}}
	b := batch(all...)
	gametest.OK(t, f.Compute(t.Context(), b))
	// The row whose answer is not finite is another's; the rows beside it are not.
	if want := []eval.Source{eval.CPU, eval.CPU, eval.CPU, eval.Bitsquares, eval.CPU}; !slices.Equal(b.Source, want) {
		t.Errorf("answered by %v, want %v", b.Source, want)
	}
	third.Before = first.Before
	err := f.Compute(t.Context(), b)
	if !errors.Is(err, lost) || !errors.Is(err, eval.ErrNotFinite) {
		t.Errorf("error %v, want those of all stages", err)
	}
	for _, name := range []string{"gpu: device lost", "cpu: answer is not finite: position " + b.Board.Text(all[3]), "bitsquares: device lost"} {
		if !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("error %q does not say %q", err, name)
		}
	}
}

// If the caller leaves, the next stage is not asked, and the error is that of the context.
func TestFallbackCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	first := &evaltest.Stub{Before: func(ctx context.Context, _ *eval.Batch) error {
		cancel()
		return ctx.Err()
	}}
	second := &evaltest.Stub{}
	f := eval.Fallback{{Name: "first", Backend: first}, {Name: "second", Backend: second}}
	if err := f.Compute(ctx, batch(game.Position{})); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if second.Rows.Load() != 0 {
		t.Errorf("the next stage was asked %d rows", second.Rows.Load())
	}
}
