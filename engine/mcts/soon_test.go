package mcts_test

import (
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// distance is how many plies a game lasts from p where the winner hurries and the loser delays.
func (m *minimax) distance(p game.Position) int {
	if m.b.Result(p) != game.Ongoing {
		return 0
	}
	result, best := m.result(p), -1
	for a := range m.b.Actions() {
		if !m.b.CanPlay(p, a) {
			continue
		}
		after := m.b.Play(p, a)
		if m.result(after) != 4-result {
			continue
		}
		d := 1 + m.distance(after)
		if best < 0 || result == game.Win && d < best || result != game.Win && d > best {
			best = d
		}
	}
	return best
}

// How long a proved move takes is never said to be less than it is, a win in one is known as such, and with a discount
// long searches mostly come upon the shortest win.
func TestProofDistance(t *testing.T) {
	b := game.MustBoard(game.Rules{Rows: 4, Columns: 4, InARow: 3, Gravity: true})
	m := &minimax{b, map[game.Position]game.Result{}}
	r := gametest.Rand(2)
	c := config(0)
	c.Discount = 0.95
	wins, shortest := 0, 0
	for i := range 200 {
		p := gametest.Position(r, b, 4+i%8, true)
		tr := tree(t, b, c, p)
		search(t, evaluator(t, eval.Uniform), tr, 3000)
		for _, move := range tr.Moves(nil) {
			if want := 1 + m.distance(b.Play(p, move.Action)); move.Result != game.Ongoing && move.Result != game.Draw && move.Plies < want {
				t.Fatalf("%v: %+v, but the game lasts %d plies", p, move, want)
			}
		}
		if len(tr.Moves(nil)) > 0 && tr.Result() == game.Win {
			wins++
			if 1+m.distance(b.Play(p, tr.Best())) == m.distance(p) {
				shortest++
			}
		}
	}
	t.Logf("%d of %d wins are the shortest", shortest, wins)
	if wins < 20 || shortest < wins*8/10 {
		t.Errorf("%d of %d wins are the shortest", shortest, wins)
	}
}

// The longest defence is played where all is lost, and the policy says so.
func TestLongestDefence(t *testing.T) {
	b := game.MustBoard(game.Rules{Rows: 4, Columns: 4, InARow: 3, Gravity: true})
	m := &minimax{b, map[game.Position]game.Result{}}
	r := gametest.Rand(3)
	losses, longest := 0, 0
	for i := range 300 {
		p := gametest.Position(r, b, 4+i%8, true)
		if m.result(p) != game.Loss {
			continue
		}
		tr := tree(t, b, config(0), p)
		search(t, evaluator(t, eval.Uniform), tr, 3000)
		if tr.Result() != game.Loss {
			continue
		}
		losses++
		policy := make([]float32, b.Actions())
		tr.Policy(policy, 1)
		if policy[tr.Best()] != 1 {
			t.Fatalf("%v: the best move is %d, the policy %v", p, tr.Best(), policy)
		}
		if 1+m.distance(b.Play(p, tr.Best())) == m.distance(p) {
			longest++
		}
	}
	t.Logf("%d of %d defences are the longest", longest, losses)
	if losses < 20 || longest < losses*8/10 {
		t.Errorf("%d of %d defences are the longest", longest, losses)
	}
}
