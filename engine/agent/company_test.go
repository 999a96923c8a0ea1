package agent_test

import (
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts"
)

// thought is a move and what the search behind it found.
type thought struct {
	Move   int
	Value  float64
	Moves  []mcts.Move
	Policy []float32
	Line   []int
}

// thinker is an agent that shows the tree behind its move.
type thinker struct {
	agent.Agent
	last *mcts.Tree
}

func newThinker(t testing.TB, text string) *thinker {
	t.Helper()
	k := new(thinker)
	k.Agent = newAgent(t, text, agent.Shared{Models: stubModels, Searched: func(t *mcts.Tree) { k.last = t }})
	return k
}

func (k *thinker) think(t testing.TB, b *game.Board, p game.Position) (x thought) {
	k.last = nil
	var err error
	if x.Move, err = k.Move(t.Context(), b, p); err != nil {
		t.Error(err)
	}
	if k.last != nil { // there was a choice
		x.Value, x.Moves, x.Line = k.last.Value(), k.last.Moves(nil), k.last.Line(nil)
		x.Policy = make([]float32, b.Actions())
		k.last.Policy(x.Policy, 1)
	}
	return x
}

// games are the positions of random games, one after the other.
func games(random *rand.Rand, b *game.Board, n int) (all []game.Position) {
	for {
		for p := (game.Position{}); b.Result(p) == game.Ongoing; {
			if all = append(all, p); len(all) == n {
				return all
			}
			p = b.Play(p, b.Action(b.Legal(p).Nth(random.IntN(b.Legal(p).OnesCount())).First()))
		}
	}
}

// An agent that counts visits answers a position as a new one does: whatever it was asked before, in a game or not, how
// many others think beside it, and on how many cores.
func TestCompany(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	random := gametest.Rand(4)
	b := game.MustBoard(game.Connect4)
	for _, c := range []struct {
		agent             string
		positions, rounds int
	}{
		{"mcts:visits=12", 100, 4},
		{"mcts:visits=60,leaves=7", 20, 2},
		{"uct-bitsquares:sims=60", 20, 2},
		{"uct-oddeven:sims=60,leaves=3", 20, 2},
		{"uct:sims=60,seed=3", 20, 2},
		{"mcts:model=stub,visits=60", 20, 2},
		{"mcts:visits=60,time=1h", 20, 2},
		{"mcts:model=stub,visits=60,leaves=3,exact=300", 40, 2},
		{"uct:sims=60,exact", 20, 2},
		{"policy:model=stub,exact", 40, 2},
		{"human:model=stub,ahead=3,threats=0.2,diagonals=0.3,temperature=2", 40, 2},
	} {
		if gametest.Soak() {
			c.positions, c.rounds = 10*c.positions, 5*c.rounds
		}
		positions := games(random, b, c.positions)
		want := make([]thought, len(positions))
		for i, p := range positions {
			want[i] = newThinker(t, c.agent).think(t, b, p)
		}
		for range c.rounds {
			runtime.GOMAXPROCS(1 + random.IntN(8))
			order := random.Perm(len(positions))
			if random.IntN(2) == 0 { // as the games went
				for i := range order {
					order[i] = i
				}
			}
			var wait sync.WaitGroup
			for agents := 1 + random.IntN(8); agents > 0; agents-- {
				some := order[:len(order)/agents]
				order = order[len(some):]
				one := newThinker(t, c.agent)
				wait.Go(func() {
					for _, k := range some {
						if got := one.think(t, b, positions[k]); !reflect.DeepEqual(got, want[k]) {
							t.Errorf("%s, %+v (-a new agent +one in company):\n%s", c.agent, positions[k], cmp.Diff(want[k], got))
							return
						}
					}
				})
			}
			wait.Wait()
		}
	}
}

// A search has 1 leaf under way if visits are its limit, and TimedLeaves if time is, unless leaves= says otherwise.
func TestLeaves(t *testing.T) {
	for text, want := range map[string]int{
		"mcts:time=1s": agent.TimedLeaves, "mcts:time=1s,leaves=40": 40,
		"mcts:visits=300": 1, "mcts:visits=300,time=1h": 1, "mcts:visits=300,leaves=7": 7,
	} {
		network := &evaltest.Stub{Source: eval.CPU}
		models := func(string) (*eval.Evaluator, error) { return evaltest.Raw(network), nil }
		a := newAgent(t, text, agent.Shared{Models: models, Memory: 1 << 20}) // a small tree is made at once
		move(t, a, game.MustBoard(game.Connect4), game.Position{})
		if most := slices.Max(append(network.Sizes(), 0)); most != want {
			t.Errorf("%s: batches of up to %d leaves, want %d", text, most, want)
		}
	}
}
