package mcts_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts"
)

var selections = []mcts.Selection{mcts.PUCT, mcts.UCT, mcts.Gumbel}

func config(s mcts.Selection) mcts.Config {
	c := mcts.DefaultConfig(mcts.PUCT)
	c.Selection = s
	return c
}

// searches are the selections, with transpositions and without.
var searches = map[string]mcts.Config{
	"puct": config(mcts.PUCT), "plain puct": plain(mcts.PUCT), "uct": config(mcts.UCT),
	"gumbel": config(mcts.Gumbel), "plain gumbel": plain(mcts.Gumbel),
}

// plain is config without transpositions.
func plain(s mcts.Selection) mcts.Config {
	c := config(s)
	c.Transpositions = false
	return c
}

func tree(t testing.TB, b *game.Board, c mcts.Config, p game.Position) *mcts.Tree {
	t.Helper()
	tr := gametest.Must(mcts.New(b, c))(t)
	tr.Reset(p)
	return tr
}

func evaluator(t testing.TB, s eval.Source) *eval.Evaluator {
	t.Helper()
	return gametest.Must(heuristic.New(s))(t)
}

func position(t testing.TB, moves string) (*game.Board, game.Position) {
	t.Helper()
	var p game.Parser
	s := gametest.Must(p.Parse(moves))(t)
	return s.Board, s.Position
}

func search(t testing.TB, e *eval.Evaluator, tr *mcts.Tree, visits int) {
	t.Helper()
	gametest.OK(t, mcts.Search(t.Context(), e, []*mcts.Tree{tr}, mcts.Limits{Visits: visits, Batch: 1}))
}

// Any search sees this, with one leaf under way or many, even with an evaluator that knows nothing.
func TestTactics(t *testing.T) {
	gametest.OneGoroutine(t)
	for _, c := range []struct {
		name, moves string
		want        []int // columns from 1
	}{
		{"win in one", "121212", []int{1}},
		{"block in one", "12121", []int{1}},
		{"make a double attack", "3343", []int{2, 5}},
		{"foil a double attack", "334", []int{2, 5}},
	} {
		for s, conf := range searches {
			for _, leaves := range []int{1, 32} {
				b, p := position(t, c.moves)
				conf.Visits = 3000
				tr := tree(t, b, conf, p)
				limits := mcts.Limits{Visits: conf.Visits, Leaves: leaves, Batch: 1}
				gametest.OK(t, mcts.Search(t.Context(), evaluator(t, eval.Uniform), []*mcts.Tree{tr}, limits))
				if best := tr.Best() + 1; !slices.Contains(c.want, best) || tr.Result() == game.Ongoing && tr.Visits() != conf.Visits {
					t.Errorf("%s by %s, %d leaves: column %d after %d visits, want one of %v\n%+v", c.name, s, leaves, best, tr.Visits(), c.want, tr.Moves(nil))
				}
			}
		}
	}
}

func trees(t testing.TB, b *game.Board, c mcts.Config, n int) []*mcts.Tree {
	t.Helper()
	ps := gametest.Positions(gametest.Rand(7), b, n, true)
	all := make([]*mcts.Tree, n)
	for i := range all {
		c.Seed = uint64(i)
		all[i] = tree(t, b, c, ps[i])
	}
	return all
}

// Visits add up and stop at the limit. Batches are full as long as there is enough to do.
func TestCounts(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	stub := &evaltest.Stub{Source: eval.CPU}
	all := make([]*mcts.Tree, 64)
	for i := range all {
		all[i] = tree(t, b, config(mcts.PUCT), gametest.Position(gametest.Rand(uint64(i)), b, i%6, true))
	}
	gametest.OK(t, mcts.Search(t.Context(), evaltest.Raw(stub), all, mcts.Limits{Visits: 100, Batch: 16}))
	for i, tr := range all {
		sum := 0
		for _, m := range tr.Moves(nil) {
			sum += m.Visits
		}
		if tr.Result() == game.Ongoing && (tr.Visits() != 100 || sum != 99) {
			t.Errorf("tree %d: %d visits, its moves %d; want 100 and 99", i, tr.Visits(), sum)
		}
	}
	full := 0
	for _, n := range stub.Sizes() {
		if n == 16 {
			full++
		}
	}
	if share := float64(full) / float64(len(stub.Sizes())); share < 0.9 {
		t.Errorf("%.0f%% of batches were full: %v", 100*share, stub.Sizes())
	}
}

// Driven trees play whole games side by side. The games do not depend on the size of the batches, and batches are full as long
// as there are enough games.
func TestDrive(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	const games = 60
	play := func(batch int) (moves [games][]int, sizes []int) {
		c := config(mcts.PUCT)
		c.Noise, c.Alpha = 0.25, 1
		all := make([]*mcts.Tree, games)
		index := map[*mcts.Tree]int{}
		for i := range all {
			c.Seed = uint64(i)
			all[i] = tree(t, b, c, gametest.Position(gametest.Rand(uint64(i)), b, i%6, true))
			index[all[i]] = i
		}
		stub := &evaltest.Stub{Source: eval.CPU}
		err := mcts.Drive(t.Context(), evaltest.Raw(stub), all, batch, 1, func(tr *mcts.Tree) mcts.Goal {
			i := index[tr]
			// Some moves get more visits than others.
			if want := 8 + 8*(len(moves[i])%3); tr.Visits() < want && tr.Result() == game.Ongoing {
				return mcts.Goal{Visits: want}
			}
			best := tr.Best()
			moves[i] = append(moves[i], best)
			if b.Result(b.Play(tr.Root(), best)) != game.Ongoing {
				return mcts.Goal{}
			}
			tr.Reset(b.Play(tr.Root(), best))
			return mcts.Goal{Visits: 8 + 8*(len(moves[i])%3)}
		})
		gametest.OK(t, err)
		return moves, stub.Sizes()
	}
	want, _ := play(1)
	for _, batch := range []int{4, 16} {
		got, sizes := play(batch)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("batches of %d give other games:\n%s", batch, diff)
		}
		// Later batches are smaller: too few games are left to fill them.
		if early := sizes[:400/batch]; slices.Min(early) < batch {
			t.Errorf("batches of %d: %v", batch, early)
		}
	}
	for i, m := range want {
		if len(m) == 0 {
			t.Errorf("game %d has no moves", i)
		}
	}
	// Drive returns the error of the evaluator, not that of the workers that were cancelled because of it.
	broken := errors.New("device lost")
	stub := &evaltest.Stub{Before: func(context.Context, *eval.Batch) error { return broken }}
	err := mcts.Drive(t.Context(), evaltest.Raw(stub), trees(t, b, config(mcts.PUCT), games), 2, 1, func(tr *mcts.Tree) mcts.Goal { return mcts.Goal{Visits: 10} })
	if !errors.Is(err, broken) || errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v alone", err, broken)
	}
}

// A search that decides early takes the move that the whole search takes, unless that proves later that the move loses.
func TestDecide(t *testing.T) {
	gametest.OneGoroutine(t)
	b := game.MustBoard(game.Connect4)
	const visits = 2000
	early, saved := 0, 0
	for _, s := range []mcts.Selection{mcts.PUCT, mcts.UCT} {
		for i := range 36 {
			p := gametest.Position(gametest.Rand(uint64(i)), b, i, true)
			limits := mcts.Limits{Visits: visits, Batch: 1, Leaves: 4}
			whole, decided := tree(t, b, config(s), p), tree(t, b, config(s), p)
			gametest.OK(t, mcts.Search(t.Context(), evaluator(t, eval.Bitsquares), []*mcts.Tree{whole}, limits))
			limits.Decide = true
			gametest.OK(t, mcts.Search(t.Context(), evaluator(t, eval.Bitsquares), []*mcts.Tree{decided}, limits))
			if decided.Result() == game.Ongoing && decided.Visits() < visits {
				early++
				saved += visits - decided.Visits()
			}
			if got, want := decided.Best(), whole.Best(); got != want {
				for _, m := range whole.Moves(nil) {
					if m.Action == got && m.Result != game.Loss {
						t.Errorf("%v, %+v: %d after %d visits, %d after all:\n%+v\n%+v", s, p, got, decided.Visits(), want, decided.Moves(nil), whole.Moves(nil))
					}
				}
			}
		}
	}
	if early < 24 {
		t.Errorf("%d of 72 searches were decided early, %d visits saved", early, saved)
	}
}

// If a proved draw is better than all other moves, visits want no evaluation. The deadline ends the search all the same.
func TestEndlessDraw(t *testing.T) {
	// Tic-tac-toe after corner and center: the tree proves draws before it proves the root.
	b, p := position(t, "3x3x3free:15")
	for _, s := range selections {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		tr := tree(t, b, config(s), p)
		done := make(chan error, 1)
		go func() {
			done <- mcts.Search(ctx, evaluator(t, eval.Uniform), []*mcts.Tree{tr}, mcts.Limits{Visits: math.MaxInt32, Batch: 16})
		}()
		select {
		case err := <-done:
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%v: the search continues after its time", s)
		}
		cancel()
	}
}

// A probe takes the time of many visits, so a search with probes may end between two probes.
func TestEndsBetweenProbes(t *testing.T) {
	b, p := position(t, "1323335555322626") // six moves are open, and probes find that all of them lose
	ctx, cancel := context.WithCancel(t.Context())
	c := config(mcts.PUCT)
	c.Exact = 1000
	tr := tree(t, b, c, p)
	err := mcts.Drive(ctx, evaluator(t, eval.Uniform), []*mcts.Tree{tr}, 1, 1, func(tr *mcts.Tree) mcts.Goal {
		if tr.Visits() == 2 {
			cancel()
		}
		return mcts.Goal{Visits: 100, CheckAt: tr.Visits() + 1}
	})
	if !errors.Is(err, context.Canceled) || tr.Visits() > 3 {
		t.Errorf("after the end: %d visits, error %v", tr.Visits(), err)
	}
}

func TestCancelled(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	ctx, cancel := context.WithCancel(t.Context())
	stub := &evaltest.Stub{Source: eval.CPU, After: func(*eval.Batch) { cancel() }}
	all := trees(t, b, config(mcts.PUCT), 8)
	err := mcts.Search(ctx, evaltest.Raw(stub), all, mcts.Limits{Visits: 100, Batch: 4})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	// The trees are intact and can go on.
	gametest.OK(t, mcts.Search(t.Context(), evaltest.Raw(&evaltest.Stub{Source: eval.CPU}), all, mcts.Limits{Visits: 100, Batch: 4}))
	for i, tr := range all {
		if tr.Result() == game.Ongoing && tr.Visits() != 100 {
			t.Errorf("tree %d: %d visits, want 100", i, tr.Visits())
		}
	}
}

func TestConfig(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	for name, damage := range map[string]func(*mcts.Config){
		"C": func(c *mcts.Config) { c.C = math.NaN() }, "Noise": func(c *mcts.Config) { c.Noise = 2 },
		"MaxNodes": func(c *mcts.Config) { c.MaxNodes = 7 }, "Alpha": func(c *mcts.Config) { c.Alpha = 0 },
		"RootNodes": func(c *mcts.Config) { c.RootNodes = 1<<18 + 1 },
		"Exact":     func(c *mcts.Config) { c.Exact = 100_001 },
		"Gumbel":    func(c *mcts.Config) { c.Selection, c.Visits = mcts.Gumbel, 0 },
		"Flat":      func(c *mcts.Config) { c.Selection = mcts.Flat },
		"Selection": func(c *mcts.Config) { c.Selection = mcts.Flat + 1 },
	} {
		c := mcts.DefaultConfig(mcts.PUCT)
		damage(&c)
		if _, err := mcts.New(b, c); err == nil || len(fmt.Sprint(err)) < 10 {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestPolicy(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	for _, s := range selections {
		tr := tree(t, b, config(s), game.Position{})
		search(t, evaluator(t, eval.Bitsquares), tr, 300)
		policy := make([]float32, 7)
		for _, temperature := range []float64{0, 0.5, 1} {
			tr.Policy(policy, temperature)
			sum := float32(0)
			for _, p := range policy {
				sum += p
			}
			if math.Abs(float64(sum)-1) > 1e-5 || temperature == 0 && policy[tr.Best()] != 1 {
				t.Errorf("%v at temperature %v: %v", s, temperature, policy)
			}
		}
		if line := tr.Line(nil); len(line) < 2 || line[0] != tr.Best() {
			t.Errorf("%v: principal variation %v, best %d", s, line, tr.Best())
		}
	}
}

// A visit allocates nothing once the tree has enough memory.
func TestAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("memory is measured without the race detector")
	}
	b := game.MustBoard(game.Connect4)
	tr := tree(t, b, config(mcts.PUCT), game.Position{})
	visit := visitor(t, evaluator(t, eval.Bitsquares), tr)
	for range 50_000 {
		visit()
	}
	tr.Reset(game.Position{})
	if n := testing.AllocsPerRun(20_000, visit); n != 0 && !gametest.Race {
		t.Errorf("%v allocations a visit, want none", n)
	}
}

// A search is an evaluator like any other.
func TestConformance(t *testing.T) {
	boards := gametest.Boards()[:5]
	if gametest.Race {
		boards = boards[:2]
	}
	for _, s := range selections {
		t.Run(s.String(), func(t *testing.T) {
			evaltest.Run(t, evaltest.Config{
				New: func(t testing.TB) *eval.Evaluator {
					c := config(s)
					c.Visits = 20
					return gametest.Must(mcts.NewEvaluator(evaluator(t, eval.Bitsquares), c, mcts.Limits{Visits: 20, Batch: 16}))(t)
				},
				Boards:  boards,
				Sources: []eval.Source{eval.Searched},
			})
		})
	}
	if _, err := mcts.NewEvaluator(nil, mcts.DefaultConfig(mcts.PUCT), mcts.Limits{Visits: 1, Batch: 1}); err == nil {
		t.Error("a policy by one visit: no error")
	}
}

// SearchBatch answers as an Evaluator does, bit for bit, and shows the trees of the rows whose games are not over, although the rows
// are more than are searched at once, and with trees of another search.
func TestSearchBatch(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	const open = 300
	ps := append(gametest.Open(gametest.Rand(3), b, open), gametest.Position(gametest.Rand(3), b, 42, false))
	c := config(mcts.PUCT)
	c.Visits = 30
	limits := mcts.Limits{Visits: 30, Batch: 8}
	e := gametest.Must(mcts.NewEvaluator(evaluator(t, eval.Bitsquares), c, limits))(t)
	want, got := eval.NewBatch(b, len(ps)), eval.NewBatch(b, len(ps))
	copy(want.Pos, ps)
	copy(got.Pos, ps)
	gametest.OK(t, e.Evaluate(t.Context(), want))
	var seen []int
	reports := 0
	found := func(row int, tr *mcts.Tree) {
		if tr.Visits() < limits.Visits && tr.Result() == game.Ongoing {
			if reports++; tr.Visits() != 10 && tr.Visits() != 20 {
				t.Errorf("row %d: a report after %d visits", row, tr.Visits())
			}
			return
		}
		seen = append(seen, row)
		alone := tree(t, b, c, ps[row])
		search(t, evaluator(t, eval.Bitsquares), alone, 30)
		if diff := cmp.Diff(alone.Moves(nil), tr.Moves(nil)); diff != "" {
			t.Errorf("row %d: moves (-alone +in the batch):\n%s", row, diff)
		}
	}
	var forest mcts.Forest
	other := c
	other.MaxNodes, other.FPU = 50, 1
	gametest.OK(t, mcts.SearchBatch(t.Context(), evaluator(t, eval.Bitsquares), got, other, mcts.Limits{Visits: 5, Batch: 3}, &forest, nil))
	limits.Report = 10
	gametest.OK(t, mcts.SearchBatch(t.Context(), evaluator(t, eval.Bitsquares), got, c, limits, &forest, found))
	if reports < open {
		t.Errorf("%d reports of %d rows", reports, open)
	}
	if !slices.Equal(got.WDL, want.WDL) || !slices.Equal(got.Policy, want.Policy) || !slices.Equal(got.Source, want.Source) {
		t.Errorf("answers %v %v %v, want %v %v %v", got.WDL, got.Policy, got.Source, want.WDL, want.Policy, want.Source)
	}
	slices.Sort(seen)
	if len(seen) != open || len(slices.Compact(seen)) != open || seen[0] != 0 || seen[open-1] != open-1 {
		t.Errorf("trees of the rows %v, want 0 to %d", seen, open-1)
	}
	if at := mcts.AtOnce(limits.Batch); at >= len(ps) {
		t.Errorf("%d of %d rows are searched at once: nothing is tested", at, len(ps))
	}
	one := eval.NewBatch(b, 1)
	gametest.OK(t, mcts.SearchBatch(t.Context(), evaluator(t, eval.Bitsquares), one, c, mcts.Limits{Visits: 1, Batch: 1}, new(mcts.Forest), nil))
	if even := float32(1) / 7; slices.Max(one.Policy) != even || slices.Min(one.Policy) != even {
		t.Errorf("after one visit the policy is %v, want it even", one.Policy)
	}
}

// leaving is the context of a client that leaves as soon as it has been asked once whether it is still there.
type leaving struct {
	context.Context
	leave context.CancelFunc
}

func (l leaving) Err() error {
	defer l.leave()
	return l.Context.Err()
}

// A client that leaves while its search begins gets the context's error, and nothing is used by two goroutines at once.
func TestSearchBatchLeft(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	c := config(mcts.PUCT)
	var forest mcts.Forest
	for range 200 {
		ctx, leave := context.WithCancel(t.Context())
		err := mcts.SearchBatch(leaving{ctx, leave}, evaluator(t, eval.Uniform), eval.NewBatch(b, 1), c, mcts.Limits{Visits: 3, Batch: 1}, &forest, nil)
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("the error is %v, want %v", err, context.Canceled)
		}
	}
}

// A search of many rows in a forest that was used before allocates nothing for a row. Otherwise a service that answers such
// searches would collect garbage most of the time.
func TestSearchBatchAllocates(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	batch := eval.NewBatch(b, 700)
	copy(batch.Pos, gametest.Open(gametest.Rand(9), b, len(batch.Pos)))
	c := config(mcts.PUCT)
	c.Visits = 3
	var forest mcts.Forest
	e := evaluator(t, eval.Uniform)
	got := testing.AllocsPerRun(5, func() {
		gametest.OK(t, mcts.SearchBatch(t.Context(), e, batch, c, mcts.Limits{Visits: 3, Batch: 512}, &forest, nil))
	})
	if got > 80 {
		t.Errorf("%v allocations for %d rows, want at most 80", got, len(batch.Pos))
	}
	t.Logf("%v allocations", got)
}

func BenchmarkVisit(b *testing.B) {
	board := game.MustBoard(game.Connect4)
	for _, source := range []eval.Source{eval.Uniform, eval.Bitsquares} {
		for name, c := range searches {
			b.Run(source.String()+"/"+name, func(b *testing.B) {
				all := make([]*mcts.Tree, 64)
				for i := range all {
					c.Seed, c.Visits = uint64(i), 800
					all[i] = tree(b, board, c, gametest.Position(gametest.Rand(uint64(i)), board, i%12, true))
				}
				e := evaluator(b, source)
				b.ReportAllocs()
				visits := 0
				for b.Loop() {
					for _, tr := range all {
						tr.Reset(tr.Root())
					}
					gametest.OK(b, mcts.Search(b.Context(), e, all, mcts.Limits{Visits: 800, Batch: 64}))
					for _, tr := range all {
						visits += tr.Visits()
					}
				}
				b.ReportMetric(float64(visits)/b.Elapsed().Seconds(), "visits/s")
			})
		}
	}
}

// A network's own constants take the place of PUCT's, and of no other rule's.
func TestConfigFor(t *testing.T) {
	own := eval.Tuned{Backend: new(evaltest.Stub), Search: eval.Search{CPUCT: 3, FPU: -1}}
	for _, s := range selections {
		usual := mcts.DefaultConfig(s)
		if got := usual.For(new(evaltest.Stub)); got != usual {
			t.Errorf("%v: a backend without constants changes %+v", s, got)
		}
		want := usual
		if s == mcts.PUCT {
			want.C, want.FPU = 3, -1
		}
		if got := usual.For(own); got != want {
			t.Errorf("%v: %+v, want %+v", s, got, want)
		}
	}
	if a := own.Attributes(); a.Rows != 64 || !a.Invariant {
		t.Errorf("the other attributes are lost: %+v", a)
	}
}
