package mcts_test

import (
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/solver"
)

// minimax is the result of a position for its side to move.
type minimax struct {
	b    *game.Board
	seen map[game.Position]game.Result
}

func (m *minimax) result(p game.Position) game.Result {
	if r := m.b.Result(p); r != game.Ongoing {
		return r
	}
	if r, ok := m.seen[p]; ok {
		return r
	}
	best := game.Loss
	for a := range m.b.Actions() {
		if m.b.CanPlay(p, a) {
			switch m.result(m.b.Play(p, a)) {
			case game.Loss:
				best = game.Win
			case game.Draw:
				best = min(best, game.Draw) // Win < Draw < Loss
			}
		}
	}
	m.seen[p] = best
	return best
}

// Proofs are always right, and on small boards most searches end with one. A win by the next stone is known from the first visit
// on.
func TestProofs(t *testing.T) {
	gametest.OneGoroutine(t)
	all, proofs, draws := 0, 0, 0
	for _, b := range []*game.Board{
		game.MustBoard(game.Rules{Rows: 3, Columns: 4, InARow: 3, Gravity: true}),
		game.MustBoard(game.Rules{Rows: 4, Columns: 4, InARow: 4, Gravity: true}),
		game.MustBoard(game.TicTacToe),
	} {
		m := &minimax{b, map[game.Position]game.Result{}}
		r := gametest.Rand(1)
		for i := range 16 {
			p := gametest.Position(r, b, 1+i%b.Cells(), true)
			for s, c := range searches {
				tr := tree(t, b, c, p)
				visits := 5000
				if !b.Wins(p).IsZero() {
					visits = 1
				}
				search(t, evaluator(t, eval.Uniform), tr, visits)
				got, want := tr.Result(), m.result(p)
				all++
				if got == game.Ongoing && visits > 1 {
					// A proved draw may attract the visits that would prove the other moves.
					for _, move := range tr.Moves(nil) {
						if move.Action == tr.Best() && move.Result == game.Draw {
							draws++
						}
					}
					continue
				}
				proofs++
				if got != want || tr.Value() != float64(want.Value()) {
					t.Fatalf("%v, %v by %s after %d visits: %v, value %v, minimax says %v", b.Rules(), p, s, tr.Visits(), got, tr.Value(), want)
				}
				if after := m.result(b.Play(p, tr.Best())); after != 4-want {
					t.Fatalf("%v, %v by %s: a %v, but the move %d leads to %v for the other", b.Rules(), p, s, want, tr.Best(), after)
				}
				for _, move := range tr.Moves(nil) {
					if after := m.result(b.Play(p, move.Action)); move.Result != game.Ongoing && after != 4-move.Result {
						t.Fatalf("%v, %v by %s: move %+v leads to %v for the other", b.Rules(), p, s, move, after)
					}
				}
			}
		}
	}
	t.Logf("%d of %d searches ended with a proof, %d with one of their best move", proofs, all, draws)
	if proofs+draws < all*3/4 {
		t.Errorf("%d of %d searches ended with a proof, %d with one of their best move", proofs, all, draws)
	}
}

// With probes, proofs stay right, all of them are those that the solver finds, and a few visits prove what took thousands.
func TestExact(t *testing.T) {
	gametest.OneGoroutine(t)
	for _, b := range []*game.Board{game.MustBoard(game.Connect4), game.MustBoard(game.Rules{Rows: 5, Columns: 5, InARow: 4, Gravity: true}), game.MustBoard(game.TicTacToe)} {
		full := gametest.Must(solver.New(b, solver.Options{}))(t)
		r, proofs := gametest.Rand(1), map[bool]int{}
		result := func(p game.Position) game.Result {
			if r := b.Result(p); r != game.Ongoing {
				return r
			}
			return game.ResultOf(gametest.Must(full.WDL(t.Context(), p))(t).Score)
		}
		for i := range 30 {
			p := gametest.Position(r, b, b.Cells()/3+i%(b.Cells()/2), true)
			for s, c := range searches {
				for _, c.Exact = range []solver.Nodes{0, 2000} {
					tr := tree(t, b, c, p)
					search(t, evaluator(t, eval.Uniform), tr, 40)
					for _, move := range tr.Moves(nil) {
						if after := result(b.Play(p, move.Action)); move.Result != game.Ongoing && after != move.Result.Flip() {
							t.Fatalf("%v, %v by %s: move %+v leads to %v for the other", b.Rules(), p, s, move, after)
						}
					}
					if tr.Result() == game.Ongoing {
						continue
					}
					proofs[c.Exact > 0]++
					if want := result(p); tr.Result() != want || result(b.Play(p, tr.Best())) != want.Flip() {
						t.Fatalf("%v, %v by %s: %v by %d, the solver says %v", b.Rules(), p, s, tr.Result(), tr.Best(), want)
					}
				}
			}
		}
		t.Logf("%v: %d proofs without probes, %d with", b.Rules(), proofs[false], proofs[true])
		if proofs[true] <= proofs[false] {
			t.Errorf("%v: %d proofs without probes, %d with", b.Rules(), proofs[false], proofs[true])
		}
	}
}

// On the first plies of 7x6, whose exact scores ship, and where the root's nodes suffice for all of its moves, a search with a backend
// that knows nothing keeps the result from its second visit on, in its policy too, also after a move, and says the true results of
// the moves that it leaves out.
func TestRoot(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	scores, r, left := solver.ShippedBook(b.Rules()), gametest.Rand(1), 0
	full := gametest.Must(solver.New(b, solver.Options{TableMiB: 16}))(t)
	result := func(p game.Position) game.Result {
		score, ok := scores.Score(p)
		if !ok {
			score = gametest.Must(full.Solve(t.Context(), p))(t).Score
		}
		return game.ResultOf(score)
	}
	c := mcts.DefaultConfig(mcts.PUCT)
	c.Exact, c.RootNodes = 1, mcts.RootNodesFor(100)
	for i := range 300 {
		p := gametest.Position(r, b, r.IntN(7)+i%2*20, true)
		if !b.Wins(p).IsZero() {
			continue
		}
		tr := tree(t, b, c, p)
		for _, visits := range []int{2, 40} {
			search(t, evaltest.Raw(&evaltest.Stub{Source: eval.Uniform}), tr, visits)
			best, policy := tr.Best(), make([]float32, b.Actions())
			tr.Policy(policy, 1)
			for _, move := range tr.Moves(nil) {
				q := b.Play(tr.Root(), move.Action)
				switch {
				case !b.Wins(q).IsZero() || b.Result(q) != game.Ongoing:
				case result(q).Flip() == result(tr.Root()):
					if move.Result != game.Ongoing && move.Result != result(tr.Root()) {
						t.Fatalf("%+v: move %+v is a %v", tr.Root(), move, result(q).Flip())
					}
				case move.Result != result(q).Flip() || move.Visits > 0 || policy[move.Action] > 0 || move.Action == best:
					t.Fatalf("%+v: move %+v has probability %v and is a %v, best is %d", tr.Root(), move, policy[move.Action], result(q).Flip(), best)
				default:
					left++
				}
			}
			if q := b.Play(tr.Root(), best); visits == 2 && b.Wins(q).IsZero() && b.Result(q) == game.Ongoing {
				tr.Advance(best)
			}
		}
	}
	if left < 500 {
		t.Errorf("%d moves are left out", left)
	}
}

// distance is how many plies a game lasts from p if the winner hurries and the loser delays.
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

// Move.Plies is never less than the exact number of plies, also with probes. With a discount long searches mostly find the shortest win. If all
// moves lose, most searches choose the longest defence. A policy gives the best move everything then.
func TestProofDistance(t *testing.T) {
	gametest.OneGoroutine(t)
	b := game.MustBoard(game.Rules{Rows: 4, Columns: 4, InARow: 3, Gravity: true})
	m := &minimax{b, map[game.Position]game.Result{}}
	for _, form := range []struct {
		discount float64
		exact    solver.Nodes
	}{{0.95, 0}, {1, 0}, {1, 100}} {
		r := gametest.Rand(2)
		c := config(mcts.PUCT)
		c.Discount, c.Exact = form.discount, form.exact
		proofs, exact := map[game.Result]int{}, map[game.Result]int{}
		for i := range 300 {
			p := gametest.Position(r, b, 4+i%8, true)
			tr := tree(t, b, c, p)
			search(t, evaluator(t, eval.Uniform), tr, 3000)
			for _, move := range tr.Moves(nil) {
				if want := 1 + m.distance(b.Play(p, move.Action)); move.Result != game.Ongoing && move.Result != game.Draw && move.Plies < want {
					t.Fatalf("%v: %+v, but the game lasts %d plies", p, move, want)
				}
			}
			if len(tr.Moves(nil)) == 0 || tr.Result() != game.Win && tr.Result() != game.Loss {
				continue
			}
			proofs[tr.Result()]++
			if 1+m.distance(b.Play(p, tr.Best())) == m.distance(p) {
				exact[tr.Result()]++
			}
			policy := make([]float32, b.Actions())
			if tr.Policy(policy, 1); policy[tr.Best()] != 1 {
				t.Fatalf("%v: the best move is %d, the policy %v", p, tr.Best(), policy)
			}
		}
		t.Logf("%+v: %v of %v are the shortest wins and longest defences", form, exact, proofs)
		for result, n := range proofs {
			if n < 20 || exact[result] < n*8/10 && form.exact == 0 && (result == game.Loss || form.discount < 1) {
				t.Errorf("%+v: %d of %d with a %v are the shortest or longest", form, exact[result], n, result)
			}
		}
	}
}
