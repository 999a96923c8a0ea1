package mcts_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/solver"
)

// found is all that a tree says.
type found struct {
	Moves  []mcts.Move
	Value  float64
	WDL    [3]float32
	Policy []float32
	Line   []int
	Best   int
	Visits int
	Nodes  int
}

func find(t *mcts.Tree) found {
	f := found{Moves: t.Moves(nil), Value: t.Value(), Policy: make([]float32, t.Board().Actions()), Line: t.Line(nil), Best: t.Best(), Visits: t.Visits(), Nodes: t.Nodes()}
	t.Policy(f.Policy, 1)
	t.WDL(f.WDL[:])
	return f
}

// companyVisits is enough for several waves of each tree, and for transpositions and proofs in some trees.
const companyVisits = 24

// What a tree finds does not depend on the other trees, their order, the batches, or the number of cores. Looks at the tree in
// between change nothing.
func TestCompany(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	random := gametest.Rand(3)
	some := gametest.Boards()
	boards := []*game.Board{some[0], some[0], some[1], some[3], some[7], some[9]}
	n, rounds := 150, 4
	switch {
	case testing.Short():
		n, rounds = 16, 2
		boards = boards[:4]
	case gametest.Soak():
		n, rounds = 1000, 20
	}
	for i, b := range boards {
		if i > 0 {
			n, rounds = min(n, 16), min(rounds, 2)
		}
		positions := gametest.Open(random, b, n)
		all := maps.Clone(searches)
		all["flat"] = mcts.DefaultConfig(mcts.Flat)
		for name, c := range all {
			if i == 0 && name != "puct" { // one search has all positions, the others a sample
				continue
			}
			c.Visits = companyVisits
			if name == "plain puct" {
				c.Noise, c.Alpha, c.ForcedPlayouts = 0.25, 0.3, 2
			}
			for _, form := range []struct {
				leaves int
				exact  solver.Nodes
			}{{1, 0}, {5, 0}, {5, 300}} {
				leaves := form.leaves
				if c.Exact, c.RootNodes = form.exact, 0; form.exact > 0 {
					if c.Plain {
						continue
					}
					c.RootNodes = mcts.RootNodesFor(8)
				}
				want := make([]found, len(positions))
				for k, p := range positions {
					tr := tree(t, b, c, p)
					gametest.OK(t, mcts.Search(t.Context(), evaluator(t, eval.Bitsquares), []*mcts.Tree{tr}, mcts.Limits{Visits: companyVisits, Batch: 1, Leaves: leaves}))
					want[k] = find(tr)
				}
				for round := range rounds {
					search := companies
					if round%2 == 1 {
						search = scheduled
					}
					company := search(t, b, c, positions, leaves, random)
					for k := range positions {
						if !reflect.DeepEqual(want[k], company[k]) {
							t.Fatalf("%v, %s, %+v, round %d, position %+v (-alone +in company):\n%s", b.Rules(), name, form, round, positions[k], cmp.Diff(want[k], company[k]))
						}
					}
				}
			}
		}
	}
}

// companies searches the positions in companies of random size. In each company a tree may search several positions, one after
// the other.
func companies(t *testing.T, b *game.Board, c mcts.Config, positions []game.Position, leaves int, random *rand.Rand) []found {
	t.Helper()
	runtime.GOMAXPROCS(1 + random.IntN(8))
	all := make([]found, len(positions))
	for order := random.Perm(len(positions)); len(order) > 0; {
		n := 1 + random.IntN(min(len(order), 300))
		some := order[:n]
		order = order[n:]
		trees := make([]*mcts.Tree, 1+random.IntN(n))
		turn := map[*mcts.Tree][]int{} // the positions of each tree, one after the other
		for i, k := range some {
			j := i % len(trees)
			if trees[j] == nil {
				trees[j] = tree(t, b, c, positions[k])
			}
			turn[trees[j]] = append(turn[trees[j]], k)
		}
		type progress struct{ at, look int }
		at := map[*mcts.Tree]*progress{}
		for _, tr := range trees {
			at[tr] = &progress{look: 1 + random.IntN(companyVisits)}
		}
		slices.Reverse(trees)
		err := mcts.Drive(t.Context(), evaluator(t, eval.Bitsquares), trees, 1+random.IntN(2*n), leaves, func(tr *mcts.Tree) mcts.Goal {
			now := at[tr]
			if tr.Visits() >= companyVisits || tr.Result() != game.Ongoing {
				all[turn[tr][now.at]] = find(tr)
				if now.at++; now.at == len(turn[tr]) {
					return mcts.Goal{}
				}
				tr.Reset(positions[turn[tr][now.at]])
			}
			return mcts.Goal{Visits: companyVisits, CheckAt: tr.Visits() + now.look}
		})
		gametest.OK(t, err)
	}
	return all
}

// scheduled searches the positions by a Scheduler, in random order and beside jobs of another board.
func scheduled(t *testing.T, b *game.Board, c mcts.Config, positions []game.Position, leaves int, random *rand.Rand) []found {
	t.Helper()
	runtime.GOMAXPROCS(1 + random.IntN(8))
	s := gametest.Must(mcts.NewScheduler(t.Context(), t.Context(), evaluator(t, eval.Bitsquares), 1+random.IntN(2*len(positions)), leaves, random.IntN(2)*(1+random.IntN(300))))(t)
	all := make([]found, len(positions))
	for _, k := range random.Perm(len(positions)) {
		look := 1 + random.IntN(companyVisits)
		job := mcts.Job{
			Board: b, Position: positions[k], Visits: companyVisits, Config: c, Priority: random.IntN(3),
			Next: func(_ *mcts.Job, tr *mcts.Tree) mcts.Goal {
				return mcts.Goal{Visits: companyVisits, CheckAt: tr.Visits() + look}
			},
			Done: func(_ *mcts.Job, tr *mcts.Tree, err error) {
				if err != nil {
					t.Error(err)
				}
				all[k] = find(tr)
			},
		}
		beside := job
		beside.Board, beside.Position, beside.Visits = game.MustBoard(game.TicTacToe), game.Position{}, 1+random.IntN(9)
		beside.Config.Exact = 0
		beside.Next = func(j *mcts.Job, _ *mcts.Tree) mcts.Goal { return mcts.Goal{Visits: j.Visits} }
		beside.Done = func(*mcts.Job, *mcts.Tree, error) {}
		gametest.OK(t, s.Add(&beside, &job))
	}
	s.Wait()
	return all
}

// From the second wave on a tree has Limits.Leaves pending leaves, and a batch has room for them.
func TestLeaves(t *testing.T) {
	b, p := position(t, "44")
	for _, leaves := range []int{1, 8, 64} {
		sizes := &sizing{Evaluator: evaluator(t, eval.Bitsquares)}
		tr := tree(t, b, config(mcts.PUCT), p)
		gametest.OK(t, mcts.Search(t.Context(), evaltest.Raw(sizes), []*mcts.Tree{tr}, mcts.Limits{Visits: 1000, Batch: 1, Leaves: leaves}))
		if slices.Max(sizes.rows) != leaves || len(sizes.rows) > 1000/leaves+20 || tr.Visits() != 1000 {
			t.Errorf("%d leaves: %d visits, batches of %v", leaves, tr.Visits(), sizes.rows)
		}
	}
	for _, bad := range []mcts.Limits{{Visits: 1, Batch: 1, Leaves: -1}, {Visits: 1, Batch: 1, Leaves: mcts.MaxLeaves + 1}, {Visits: 0, Batch: 1}, {Visits: 1}} {
		if err := mcts.Search(t.Context(), nil, []*mcts.Tree{tree(t, b, config(mcts.PUCT), p)}, bad); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}

// sizing notes how many rows each batch has.
type sizing struct {
	*eval.Evaluator
	rows []int
}

func (*sizing) Attributes() eval.Attributes { return eval.Attributes{Rows: 64, Invariant: true} }

func (s *sizing) Compute(ctx context.Context, b *eval.Batch) error {
	s.rows = append(s.rows, len(b.Pos))
	return s.Evaluator.Evaluate(ctx, b)
}

// Trees go on as soon as their own root probe has ended; they do not wait for those of others.
func TestRootProbesBesideVisits(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	c := config(mcts.PUCT)
	c.Exact, c.RootNodes = solver.ByBoard, mcts.RootNodesFor(1000)
	var trees []*mcts.Tree
	for _, p := range gametest.Positions(gametest.Rand(5), b, 160, true) {
		if p.Plies() >= 6 && p.Plies() <= 16 {
			trees = append(trees, tree(t, b, c, p))
		}
	}
	var mu sync.Mutex
	var rows []int // of each batch: first those of the first visits, which need no probe
	counting := &evaltest.Stub{Source: eval.CPU, Before: func(_ context.Context, b *eval.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		rows = append(rows, len(b.Pos))
		return nil
	}}
	gametest.OK(t, mcts.Search(t.Context(), evaltest.Raw(counting), trees, mcts.Limits{Visits: 10, Batch: len(trees)}))
	later := 0
	for _, n := range rows[1:] {
		later += n
	}
	if rows[0] < 16 || 3*later > rows[0]*(len(rows)-1) {
		t.Errorf("%d trees, batches of %d rows: want 16 or more in the first, and at most a third of that on average in the others", len(trees), rows)
	}
}
