package mcts_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts"
)

// opinion is an evaluation by random numbers, which depend on the position alone.
func opinion(b *game.Board, p game.Position) (wdl, policy []float32) {
	r := rand.New(rand.NewPCG(p.Hash(), 1))
	share := func(n int, may func(int) bool) []float32 {
		x, sum := make([]float32, n), float32(0)
		for i := range x {
			if may(i) {
				x[i] = r.Float32()
				sum += x[i]
			}
		}
		for i := range x {
			x[i] /= sum
		}
		return x
	}
	return share(3, func(int) bool { return true }), share(b.Actions(), func(a int) bool { return b.CanPlay(p, a) })
}

// graph is the search by PUCT with transpositions, written in a slow and obvious way: a map of positions, each with its moves.
// It does not know that games can be won.
type graph struct {
	b     *game.Board
	c     mcts.Config
	root  *way
	known map[game.Position]*place
}

type place struct {
	raw  float64 // for the side that moved here
	ways []*way
}

// way is a move. Its value is for the side that makes it.
type way struct {
	to     game.Position
	prior  float32
	visits int
	value  float64
}

func newGraph(b *game.Board, c mcts.Config, p game.Position) *graph {
	return &graph{b, c, &way{to: p}, map[game.Position]*place{}}
}

// worth is the mean of a position's evaluation and of its moves' values, each by its visits.
func (g *graph) worth(s *place) float64 {
	sum, n := s.raw, 1.0
	for _, w := range s.ways {
		sum -= g.c.Discount * w.value * float64(w.visits)
		n += float64(w.visits)
	}
	return sum / n
}

func (g *graph) visit() {
	path := []*way{g.root}
	for {
		w := path[len(path)-1]
		s := g.known[w.to]
		if s == nil {
			break
		}
		path = append(path, g.choose(s, w, len(path) == 1))
	}
	p := path[len(path)-1].to
	wdl, policy := opinion(g.b, p)
	s := &place{raw: float64(int16(math.MaxInt16*(wdl[2]-wdl[0]))) / math.MaxInt16}
	for a, prior := range policy {
		if g.b.CanPlay(p, a) {
			s.ways = append(s.ways, &way{to: g.b.Play(p, a), prior: prior})
		}
	}
	g.known[p] = s
	for _, w := range slices.Backward(path) {
		w.visits++
		w.value = g.worth(g.known[w.to])
	}
}

func (g *graph) choose(s *place, from *way, root bool) *way {
	total, tried := 1, float32(0)
	for _, w := range s.ways {
		if total += w.visits; w.visits > 0 {
			tried += w.prior
		}
	}
	untried := -from.value
	if from.visits == 0 {
		untried = -g.worth(s)
	}
	if !root {
		untried -= g.c.FPU * math.Sqrt(float64(tried))
	}
	var best *way
	most := math.Inf(-1)
	for _, w := range s.ways {
		q := w.value
		if w.visits == 0 {
			q = untried
		}
		if u := q + g.c.C*math.Sqrt(float64(total))*float64(w.prior)/float64(1+w.visits); u > most {
			best, most = w, u
		}
	}
	return best
}

// below adds to seen the positions that ways with visits lead to.
func (g *graph) below(p game.Position, seen map[game.Position]*place) {
	s := g.known[p]
	if s == nil || seen[p] != nil {
		return
	}
	seen[p] = s
	for _, w := range s.ways {
		if w.visits > 0 {
			g.below(w.to, seen)
		}
	}
}

// PUCT finds what graph finds, also after a move, on boards on which neither side can win for a long time.
func TestGraph(t *testing.T) {
	gametest.OneGoroutine(t)
	for _, rules := range []game.Rules{{Rows: 6, Columns: 9, InARow: 9, Gravity: true}, {Rows: 3, Columns: 9, InARow: 9}} {
		b := game.MustBoard(rules)
		for seed := range uint64(12) {
			c := config(mcts.PUCT)
			c.Discount = 1 - 0.01*float64(seed%3)
			p := gametest.Position(gametest.Rand(seed), b, int(seed%4), true)
			tr, slow := tree(t, b, c, p), newGraph(b, c, p)
			for range 3 {
				compareGraph(t, b, tr, slow, 400)
				best := tr.Best()
				tr.Advance(best)
				for _, w := range slow.known[slow.root.to].ways {
					if w.to == tr.Root() {
						slow.root = w
					}
				}
				kept := map[game.Position]*place{}
				slow.below(slow.root.to, kept)
				slow.known = kept
			}
			if t.Failed() {
				t.FailNow()
			}
		}
	}
}

func compareGraph(t *testing.T, b *game.Board, tr *mcts.Tree, slow *graph, visits int) {
	t.Helper()
	var leaf mcts.Leaf
	for i := range visits {
		if wants, free := tr.Descend(&leaf); !wants || !free {
			t.Fatalf("visit %d: wants %t, free %t", i, wants, free)
		}
		if slow.known[leaf.Position] != nil {
			t.Fatalf("visit %d: %v was evaluated before", i, leaf.Position)
		}
		wdl, policy := opinion(b, leaf.Position)
		tr.Expand(&leaf, wdl, policy, eval.Bitsquares)
		slow.visit()
		if slow.known[leaf.Position] == nil {
			t.Fatalf("visit %d: the leaf is %v, want another", i, leaf.Position)
		}
	}
	if tr.Visits() != slow.root.visits || math.Abs(tr.Value()+slow.root.value) > 1e-9 {
		t.Errorf("%d visits, value %v; want %d, %v", tr.Visits(), tr.Value(), slow.root.visits, -slow.root.value)
	}
	seen := map[game.Position]bool{}
	var below func(line []int, p game.Position)
	below = func(line []int, p game.Position) {
		s := slow.known[p]
		if s == nil || seen[p] {
			return
		}
		seen[p] = true
		for _, m := range tr.MovesAfter(line, nil) {
			to := b.Play(p, m.Action)
			w := s.ways[slices.IndexFunc(s.ways, func(w *way) bool { return w.to == to })]
			if m.Visits != w.visits || math.Abs(m.Q-w.value) > 1e-9 {
				t.Errorf("after %v: move %+v, want %d visits, value %v", line, m, w.visits, w.value)
			}
			if m.Visits > 0 {
				below(append(slices.Clip(line), m.Action), to)
			}
		}
	}
	if below(nil, tr.Root()); len(seen) < 100 {
		t.Errorf("%d positions were compared", len(seen))
	}
	wdl := make([]float32, 3)
	if tr.WDL(wdl); math.Abs(float64(wdl[0]+wdl[1]+wdl[2])-1) > 1e-5 || slices.Min(wdl) < 0 {
		t.Errorf("the root has the probabilities %v", wdl)
	}
}

// With transpositions no position is evaluated twice in one search, whatever moves lead there.
func TestEvaluatedOnce(t *testing.T) {
	gametest.OneGoroutine(t)
	for s, c := range searches {
		seen, again := map[game.Position]bool{}, 0
		e := &evaltest.Stub{Source: eval.CPU, After: func(batch *eval.Batch) {
			for _, p := range batch.Pos {
				if seen[p] {
					again++
				}
				seen[p] = true
			}
		}}
		b, p := position(t, "44")
		tr := tree(t, b, c, p)
		for range 2 {
			again = 0
			clear(seen)
			tr.Reset(p)
			visit := visitor(t, evaltest.Raw(e), tr)
			for range 3000 {
				visit()
			}
			if c.Transpositions && c.Selection != mcts.UCT && again > 0 || s == "plain puct" && again < 100 || len(seen) < 300 {
				t.Errorf("%s: %d positions were evaluated, %d evaluations more", s, len(seen), again)
			}
		}
	}
}

// visitor returns a function that makes one visit.
func visitor(t *testing.T, e *eval.Evaluator, tr *mcts.Tree) (visit func()) {
	leaf, batch := new(mcts.Leaf), eval.NewBatch(tr.Board(), 1)
	return func() {
		if wants, _ := tr.Descend(leaf); !wants {
			return
		}
		batch.Pos[0] = leaf.Position
		if err := e.Evaluate(context.Background(), batch); err != nil {
			t.Fatal(err)
		}
		tr.Expand(leaf, batch.WDL, batch.Policy, batch.Source[0])
	}
}
