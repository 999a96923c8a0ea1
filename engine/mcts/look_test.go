package mcts_test

import (
	"math"
	"sync"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts"
)

// Below the root the tree asks for no evaluation of a position if the next stone wins, or if fewer than two moves prevent a
// win by the stone after it. UCT looks one stone ahead only.
func TestLook(t *testing.T) {
	gametest.OneGoroutine(t)
	for _, rules := range []game.Rules{game.Connect4, game.TicTacToe, {Rows: 9, Columns: 9, InARow: 5}, {Rows: 8, Columns: 12, InARow: 4, Gravity: true}} {
		b := game.MustBoard(rules)
		for _, s := range selections {
			forced, asked := 0, 0
			var root game.Position
			var mu sync.Mutex // guards forced and asked: batches are evaluated concurrently
			e := &evaltest.Stub{Source: eval.CPU, After: func(batch *eval.Batch) {
				mu.Lock()
				defer mu.Unlock()
				for _, p := range batch.Pos {
					asked++
					if !b.Wins(p).IsZero() {
						t.Errorf("%v, %v: %v was evaluated, where the next stone wins", rules, s, p)
					}
					if p != root && b.Safe(p).WithoutFirst().IsZero() {
						forced++
					}
				}
			}}
			for _, p := range gametest.Positions(gametest.Rand(3), b, 30, true) {
				root = p
				search(t, evaltest.Raw(e), tree(t, b, config(s), p), 200)
			}
			if (forced > 0) != (s == mcts.UCT) || asked < 500 && rules != game.TicTacToe {
				t.Errorf("%v, %v: %d of %d positions evaluated leave no choice", rules, s, forced, asked)
			}
		}
	}
}

// A line of forced moves is one visit with the value of the position at its end.
func TestForcedLine(t *testing.T) {
	b, p := position(t, "1122")
	for _, s := range []mcts.Selection{mcts.PUCT, mcts.Gumbel} {
		tr := tree(t, b, config(s), p)
		var leaf mcts.Leaf
		wdl, policy := []float32{0.2, 0.3, 0.5}, []float32{0, 0, 1, 0, 0, 0, 0}
		if wants, free := tr.Descend(&leaf); !wants || !free || leaf.Position != p {
			t.Fatalf("%v: the root is not the first leaf", s)
		}
		tr.Expand(&leaf, wdl, policy, eval.Bitsquares)
		// Column 3 makes three in a row, and column 4 would make four. So the reply is forced, and the leaf is the position after it.
		want := b.Play(b.Play(p, 2), 3)
		if wants, free := tr.Descend(&leaf); !wants || !free || leaf.Position != want {
			t.Fatalf("%v: the leaf is %v, want %v after the forced reply", s, leaf.Position, want)
		}
		var other mcts.Leaf
		if wants, _ := tr.Descend(&other); wants && other.Position == want {
			t.Errorf("%v: the forced line is under way twice", s)
		} else if wants {
			tr.Abandon(&other)
		}
		tr.Expand(&leaf, wdl, policy, eval.Bitsquares)
		for _, m := range tr.Moves(nil) {
			if m.Action == 2 && (m.Visits != 1 || m.Q < -0.31 || m.Q > -0.29) {
				t.Errorf("%v: move 3 is %+v, want one visit of value 0.2-0.5, which is its mover's", s, m)
			}
		}
	}
}

// Moves that let the other side win at once are lost before any visit. The priors of the others sum to 1.
func TestLosingMoves(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	losing := 0
	for _, p := range gametest.Positions(gametest.Rand(5), b, 500, true) {
		if safe := b.Safe(p); !b.Wins(p).IsZero() || safe.IsZero() || safe == b.Legal(p) {
			continue
		}
		tr := tree(t, b, config(mcts.PUCT), p)
		search(t, evaltest.Raw(&evaltest.Stub{Source: eval.CPU}), tr, 1)
		total := 0.0
		for _, m := range tr.Moves(nil) {
			if b.Wins(b.Play(p, m.Action)).IsZero() {
				total += m.Prior
				continue
			}
			losing++
			if m.Result != game.Loss || m.Plies != 2 || m.Prior != 0 {
				t.Fatalf("%v: the other side refutes %+v", p, m)
			}
		}
		if total < 0.9999 || total > 1.0001 {
			t.Fatalf("%v: the priors of the other moves are %v in all", p, total)
		}
	}
	if losing < 100 {
		t.Errorf("%d losing moves", losing)
	}
}

// In PUCT the priors of a network are the square roots of its policy, scaled to sum to 1. In all other cases they are the
// policy.
func TestFlatPriors(t *testing.T) {
	b, p := position(t, "44")
	policy := []float32{0.36, 0.16, 0, 0.09, 0.25, 0.04, 0.1}
	for _, test := range []struct {
		selection mcts.Selection
		source    eval.Source
		off, flat bool
	}{
		{mcts.PUCT, eval.CPU, false, true},
		{mcts.PUCT, eval.Cached, false, true},
		{mcts.PUCT, eval.Bitsquares, false, false},
		{mcts.PUCT, eval.GPU, true, false},
		{mcts.Gumbel, eval.CPU, false, false},
	} {
		c := config(test.selection)
		c.FlatPriors = !test.off
		tr := tree(t, b, c, p)
		var leaf mcts.Leaf
		tr.Descend(&leaf)
		tr.Expand(&leaf, []float32{0.5, 0, 0.5}, policy, test.source)
		total := 1.0
		if test.flat {
			total = 0.6 + 0.4 + 0.3 + 0.5 + 0.2 + math.Sqrt(0.1)
		}
		for i, m := range tr.Moves(nil) {
			want := float64(policy[i])
			if test.flat {
				want = math.Sqrt(want) / total
			}
			if math.Abs(m.Prior-want) > 1e-6 {
				t.Errorf("%v of %v, FlatPriors %t: move %d has the prior %v, want %v", test.selection, test.source, c.FlatPriors, i+1, m.Prior, want)
			}
		}
	}
}
