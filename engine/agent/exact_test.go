package agent_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/engine/solver/book"
)

// exactGame is the moves of a game between two solvers that choose at random, from the empty board.
func exactGame(t *testing.T, b *game.Board, seed uint64, shared agent.Shared, more agent.Spec) (moves []int) {
	t.Helper()
	var sides []agent.Agent
	for k := range uint64(2) {
		more.Name, more.Random, more.Seed = "solver", true, 2*seed+k
		a := gametest.Must(agent.New(more, shared))(t)
		sides = append(sides, a)
	}
	for p := (game.Position{}); b.Result(p) == game.Ongoing; {
		moves = append(moves, move(t, sides[len(moves)%2], b, p))
		p = b.Play(p, moves[len(moves)-1])
	}
	return moves
}

// Moves drawn by a seed are best ones, the same each time whatever the agents share, and others by another seed; in time
// all best ones are played.
func TestSolverRandom(t *testing.T) {
	b := game.MustBoard(game.Rules{Columns: 5, Rows: 4, InARow: 4, Gravity: true})
	s := gametest.Must(solver.New(b, solver.Options{TableMiB: 1}))(t)
	shared := agent.Shared{Solved: &agent.Solved{}}
	different := map[string]bool{}
	first := map[int]bool{}
	var best []int // of the empty board
	for seed := range uint64(30) {
		moves := exactGame(t, b, seed, shared, agent.Spec{})
		if again := exactGame(t, b, seed, agent.Shared{}, agent.Spec{}); !slices.Equal(moves, again) {
			t.Fatalf("seed %d: %v, and a second time %v", seed, moves, again)
		}
		different[game.FormatMoves(b.Rules(), moves)], first[moves[0]] = true, true
		var p game.Position
		for i, a := range moves {
			moves, _, err := s.Best(t.Context(), p)
			if err != nil || !slices.Contains(moves, a) {
				t.Fatalf("seed %d, ply %d: move %d is not one of %v; %v", seed, i, a, moves, err)
			}
			if i == 0 {
				best = moves
			}
			p = b.Play(p, a)
		}
	}
	if len(different) < 25 {
		t.Errorf("30 seeds play %d different games", len(different))
	}
	for _, a := range best {
		if !first[a] {
			t.Errorf("move %d is as good as any in %v, and was never played first", a, best)
		}
	}
}

// Without a time and random moves the solver's move depends on the position alone, not on those that it solved before.
func TestSolverOrder(t *testing.T) {
	b := game.MustBoard(game.Rules{Columns: 3, Rows: 3, InARow: 3})
	several := 0
	for seed := range uint64(20) {
		after := newAgent(t, "solver", agent.Shared{})
		for _, p := range gametest.Positions(gametest.Rand(seed), b, 20, true) {
			if b.Result(p) != game.Ongoing {
				continue
			}
			want := move(t, newAgent(t, "solver", agent.Shared{}), b, p)
			if got := move(t, after, b, p); got != want {
				t.Fatalf("seed %d, %v: move %d after other positions, and %d alone", seed, p, got, want)
			}
			if want != b.FromCentre()[0] {
				several++
			}
		}
	}
	if several == 0 {
		t.Error("all moves are the same")
	}
}

// A book of exact scores is used, and changes nothing but the time; one of another game is not looked at.
func TestSolverBook(t *testing.T) {
	b := game.MustBoard(game.Rules{Columns: 4, Rows: 4, InARow: 4, Gravity: true})
	path := filepath.Join(t.TempDir(), "book")
	one, err := solver.New(b, solver.Options{TableMiB: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = book.Build(t.Context(), path, b, 5, false, []book.Solve{func(ctx context.Context, p game.Position) (int, error) {
		r, err := one.Solve(ctx, p)
		return r.Score, err
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	loaded := 0
	shared := agent.Shared{Exact: func(path string) (*book.Book, error) {
		loaded++
		return book.Load(path)
	}}
	for seed := range uint64(5) {
		with := exactGame(t, b, seed, shared, agent.Spec{Book: path})
		if diff := cmp.Diff(exactGame(t, b, seed, agent.Shared{}, agent.Spec{}), with); diff != "" {
			t.Errorf("seed %d: with a book other moves are played (-without +with):\n%s", seed, diff)
		}
	}
	if loaded != 10 {
		t.Errorf("the book was loaded %d times by 10 agents", loaded)
	}
	asked := map[game.Rules]int{}
	ships := agent.Shared{Ships: func(r game.Rules) solver.Book {
		asked[r]++
		b, err := book.Load(path)
		if err != nil {
			t.Error(err)
		}
		return b
	}}
	if diff := cmp.Diff(exactGame(t, b, 7, agent.Shared{}, agent.Spec{}), exactGame(t, b, 7, ships, agent.Spec{})); diff != "" || asked[b.Rules()] != 2 {
		t.Errorf("with the book that ships, asked for %v, other moves are played (-without +with):\n%s", asked, diff)
	}
	other := game.MustBoard(game.TicTacToe)
	move(t, newAgent(t, "solver:book="+path, shared), other, gametest.Position(gametest.Rand(1), other, 2, true))
	if _, err := agent.New(agent.Spec{Name: "solver", Book: path}, agent.Shared{}); err == nil || !strings.Contains(err.Error(), "no books of exact scores here") {
		t.Errorf("where there are no books: error %v", err)
	}
	if _, err := agent.New(agent.Spec{Name: "solver", Book: "none"}, shared); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("a book that is not there: error %v", err)
	}
}

// If half of its time is not enough, solver uses the other half for mcts with its network. Without a limit of time it loads no network.
func TestSolverSharesTime(t *testing.T) {
	b := game.MustBoard(game.Rules{Columns: 10, Rows: 10, InARow: 5, Gravity: true})
	var asked []string
	var network evaltest.Stub
	shared := agent.Shared{Memory: 16 << 20, FastModel: "fast", FastBelow: 100 * time.Millisecond, Models: func(name string) (*eval.Evaluator, error) {
		asked = append(asked, name)
		return evaltest.Raw(&network), nil
	}}
	var last agent.Agent
	for _, text := range []string{"solver", "solver:time=150ms", "solver:time=250ms", "solver:time=2s,model=own"} {
		last = newAgent(t, text, shared)
	}
	if want := []string{"fast", "", "own"}; !slices.Equal(asked, want) {
		t.Errorf("the agents ask for the networks %q, want %q", asked, want)
	}
	move(t, last, b, game.Position{})
	if network.Rows.Load() == 0 {
		t.Error("the network was not asked for a move")
	}
}

// With more than 42 empty cells the search has all of the time: no solver is made, which would ask for a book.
func TestSolverTooEarly(t *testing.T) {
	b, asked := game.MustBoard(game.Rules{Columns: 8, Rows: 8, InARow: 4, Gravity: true}), 0
	shared := agent.Shared{Memory: 16 << 20, Ships: func(game.Rules) solver.Book { asked++; return nil }}
	for plies, want := range map[int]int{0: 0, 21: 0, 22: 1, 30: 1} {
		asked = 0
		var p game.Position
		for seed := uint64(1); p.Plies() != plies; seed++ { // most random games end earlier
			p = gametest.Position(gametest.Rand(seed), b, plies, true)
		}
		move(t, newAgent(t, "solver:time=20ms,model=bitsquares", shared), b, p)
		if asked != want {
			t.Errorf("after %d plies %d solvers were made, want %d", plies, asked, want)
		}
	}
}
