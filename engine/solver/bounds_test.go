package solver

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// Bounds hold on every kind of board, whatever the limit; with nodes enough they are the exact scores; and they are the same whatever
// the solver has searched before.
func TestBounds(t *testing.T) {
	gametest.OneGoroutine(t)
	for _, b := range append(gametest.Boards(), game.MustBoard(game.Rules{Rows: 7, Columns: 8, InARow: 4, Gravity: true})) {
		t.Run(b.Rules().String(), func(t *testing.T) {
			used := mustNew(t, b, Options{TableMiB: 1, Bounded: true})
			low, high := make([]int32, b.Actions()), make([]int32, b.Actions())
			low2, high2 := slices.Clone(low), slices.Clone(low)
			for i := range uint64(20) {
				p := nearEnd(i, b, 9)
				if b.Cells()-p.Plies() > 10 {
					continue
				}
				for _, limit := range []uint64{0, 2000, 1 << 40} {
					r := gametest.Must(used.Bounds(t.Context(), p, limit, low, high))(t)
					for a := range b.Actions() {
						if b.Result(p) != game.Ongoing || !b.CanPlay(p, a) {
							if low[a] != NoMove || high[a] != NoMove {
								t.Errorf("%+v: action %d has %d to %d, want none", p, a, low[a], high[a])
							}
							continue
						}
						if want := int32(-minimax(b, b.Play(p, a))); low[a] > want || high[a] < want || limit > 2000 && low[a] != high[a] {
							t.Errorf("%+v within %d nodes: action %d has %d to %d, is %d", p, limit, a, low[a], high[a], want)
						}
					}
					fresh := mustNew(t, b, Options{TableMiB: 1, Bounded: true})
					if r2, err := fresh.Bounds(t.Context(), p, limit, low2, high2); err != nil || r.Nodes != r2.Nodes || !slices.Equal(low, low2) || !slices.Equal(high, high2) {
						t.Errorf("%+v within %d nodes: %v to %v by %d nodes, after other positions %v to %v by %d (%v)", p, limit, low2, high2, r2.Nodes, low, high, r.Nodes, err)
					}
				}
			}
		})
	}
}

// More nodes never widen the bounds, the limit holds, and what was not solved by then is known to be so.
func TestBoundsLimit(t *testing.T) {
	gametest.OneGoroutine(t)
	b := game.MustBoard(game.Connect4)
	s := mustNew(t, b, Options{})
	low, high := make([]int32, b.Actions()), make([]int32, b.Actions())
	p := game.Position{}
	for _, a := range []int{3, 3, 3, 3, 1, 1, 5, 5} {
		p = b.Play(p, a)
	}
	exact, _, err := s.Scores(t.Context(), p)
	gametest.OK(t, err)
	width := 1 << 20
	for _, limit := range []uint64{0, 10_000, 100_000, 1_000_000, 10_000_000, 1 << 40} {
		r := gametest.Must(s.Bounds(t.Context(), p, limit, low, high))(t)
		now := 0
		for a, want := range exact {
			if int(low[a]) > want || int(high[a]) < want {
				t.Errorf("%d nodes: action %d has %d to %d, is %d", limit, a, low[a], high[a], want)
			}
			now += int(high[a] - low[a])
		}
		if now > width || r.Nodes > limit+uint64(b.Actions())*pollEvery {
			t.Errorf("%d nodes: %d were searched, the widths are %d together, with fewer nodes %d", limit, r.Nodes, now, width)
		}
		width = now
	}
	if width != 0 {
		t.Errorf("without a limit: %v to %v", low, high)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Bounds(ctx, game.Position{}, 1<<40, low, high); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Known positions of Pons, whose best score is exact.
func TestBoundsTruth(t *testing.T) {
	gametest.OneGoroutine(t)
	b, rows := readSet(t, "pons/Test_L2_R2_first500")
	s := mustNew(t, b, Options{})
	low, high := make([]int32, b.Actions()), make([]int32, b.Actions())
	solved := 0
	for _, row := range rows[:100] {
		gametest.Must(s.Bounds(t.Context(), row.p, 50_000, low, high))(t)
		if int(slices.Max(low)) > row.score || int(slices.Max(high)) < row.score {
			t.Errorf("%s: %v to %v", row.line, low, high)
		}
		if slices.Equal(low, high) {
			solved++
		}
	}
	if solved < 30 || solved == 100 {
		t.Errorf("%d of 100 were solved by 50,000 nodes", solved)
	}
}

// A table that may not take more than its size is the general search's where the fast one needs more.
func TestBounded(t *testing.T) {
	for columns, isGeneral := range map[int]bool{7: false, 8: true} {
		b := game.MustBoard(game.Rules{Rows: 7, Columns: columns, InARow: 4, Gravity: true})
		if _, is := mustNew(t, b, Options{TableMiB: 16, Bounded: true}).prover.(*general); is != isGeneral {
			t.Errorf("%d columns: general %v, want %v", columns, is, isGeneral)
		}
		if got, want := fastMiB(b), len(newTable(1<<20, uint(b.Columns()*(b.Rows()+1)), b.Columns(), (b.Cells()+1)/2).buckets)*64>>20; got != want {
			t.Errorf("%d columns: a table of %d MiB, want %d", columns, got, want)
		}
	}
}

// Within Options.Nodes all calls have the answers of a solver without a bound, or ErrNodes: which of the two follows from the position
// alone. They exceed the bound by little.
func TestNodesOfCalls(t *testing.T) {
	gametest.OneGoroutine(t)
	for _, rules := range []string{"6x5x4", "9x8x5", "4x4x4free"} { // the last two by the general search
		b := game.MustBoard(gametest.Must(game.ParseRules(rules))(t))
		free := mustNew(t, b, Options{TableMiB: 4})
		solved, spent := 0, 0
		for seed := range uint64(40) {
			p := nearEnd(seed, b, 11)
			if b.Result(p) != game.Ongoing {
				continue
			}
			want, whole, err := free.Scores(t.Context(), p)
			gametest.OK(t, err)
			for _, nodes := range []uint64{1, 500, 2000, whole.Nodes + 1, 1 << 40} {
				bounded := mustNew(t, b, Options{TableMiB: 4, Nodes: nodes})
				var first error
				for range 2 {
					bounded.Reset()
					got, r, err := bounded.Scores(t.Context(), p)
					if r.Nodes > nodes+1000*uint64(b.Actions()) {
						t.Errorf("%s, %d nodes: %d were used", rules, nodes, r.Nodes)
					}
					if err != nil && (!errors.Is(err, ErrNodes) || got != nil || nodes > whole.Nodes+1000) || err == nil && !slices.Equal(got, want) {
						t.Errorf("%s, %d nodes: %v, %v; want %v with %d nodes", rules, nodes, got, err, want, whole.Nodes)
					}
					if r.Nodes > 0 && first != nil && err == nil {
						t.Errorf("%s, %d nodes suffice the second time alone", rules, nodes)
					}
					if first = err; err == nil {
						solved++
					} else {
						spent++
					}
				}
			}
		}
		if solved < 20 || spent < 20 {
			t.Errorf("%s: %d calls had answers and %d had not", rules, solved, spent)
		}
	}
}
