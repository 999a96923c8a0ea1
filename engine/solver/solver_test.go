package solver

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"testing"
	"time"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

func mustNew(t testing.TB, b *game.Board, o Options) *Solver {
	t.Helper()
	return gametest.Must(New(b, o))(t)
}

// nearEnd returns a random position that is not over and has at most left empty cells, if it finds one. It plays no winning
// move while there is another.
func nearEnd(seed uint64, b *game.Board, left int) game.Position {
	r := gametest.Rand(seed)
	goal := b.Cells() - 1 - r.IntN(left)
	var p game.Position
	for range 50 {
		p = game.Position{}
		for p.Plies() < goal {
			before := p
			for range 30 {
				legal := b.Legal(p)
				for range r.IntN(legal.OnesCount()) {
					legal = legal.WithoutFirst()
				}
				if cell := legal.LowBit(); !b.Won(p.Own.Or(cell)) {
					p = b.PlayCell(p, cell)
					break
				}
			}
			if p == before {
				break
			}
		}
		if p.Plies() == goal {
			return p
		}
	}
	return p
}

// TestMinimax compares the solver with plain minimax on every kind of board.
func TestMinimax(t *testing.T) {
	gametest.OneGoroutine(t)
	boards := gametest.Boards()
	for _, r := range []game.Rules{
		{Rows: 3, Columns: 3, InARow: 3, Gravity: true},
		{Rows: 3, Columns: 4, InARow: 3, Gravity: true},
		{Rows: 4, Columns: 3, InARow: 2, Gravity: true},
		{Rows: 5, Columns: 4, InARow: 3, Gravity: true},
		{Rows: 4, Columns: 4, InARow: 5, Gravity: true},
		{Rows: 3, Columns: 5, InARow: 4, Gravity: true},
		{Rows: 1, Columns: 9, InARow: 3, Gravity: true},
		{Rows: 9, Columns: 1, InARow: 4, Gravity: true},
		{Rows: 6, Columns: 9, InARow: 5, Gravity: true},
		{Rows: 7, Columns: 16, InARow: 4, Gravity: true},
		{Rows: 1, Columns: 32, InARow: 3, Gravity: true},
		{Rows: 63, Columns: 1, InARow: 4, Gravity: true},
	} {
		boards = append(boards, game.MustBoard(r))
	}
	const left = 8
	for _, b := range boards {
		t.Run(b.Rules().String(), func(t *testing.T) {
			plain := mustNew(t, b, Options{TableMiB: 1})
			others := map[string]*Solver{
				"MTD":     mustNew(t, b, Options{TableMiB: 1, MTD: true}),
				"threads": mustNew(t, b, Options{TableMiB: 1, Threads: 2}),
			}
			compared := 0
			for i := range uint64(250) {
				p := nearEnd(i, b, left)
				if b.Cells()-p.Plies() > left+1 {
					continue
				}
				compared++
				compareMinimax(t, plain, p)
				if i%5 == 0 {
					want := minimax(b, p)
					for name, s := range others {
						if r, err := s.Solve(t.Context(), p); err != nil || r.Score != want {
							t.Fatalf("%s: %+v scores %d (%v), want %d", name, p, r.Score, err, want)
						}
					}
				}
			}
			if compared < 100 {
				t.Errorf("only %d positions were near enough to the end", compared)
			}
		})
	}
}

// compareMinimax checks p's score, best action, sign and the scores of all actions.
func compareMinimax(t *testing.T, s *Solver, p game.Position) {
	t.Helper()
	b := s.Board()
	want := minimax(b, p)
	r, err := s.Solve(t.Context(), p)
	if err != nil || r.Score != want {
		t.Fatalf("%+v scores %d (%v), want %d", p, r.Score, err, want)
	}
	if ab := alphaBeta(b, p, -b.Cells(), b.Cells()); ab != want {
		t.Fatalf("%+v by alpha-beta %d, want %d", p, ab, want)
	}
	w, err := s.WDL(t.Context(), p)
	if err != nil || w.Score != min(max(want, -1), 1) {
		t.Fatalf("%+v: sign %d (%v) of %d", p, w.Score, err, want)
	}
	over := b.Result(p) != game.Ongoing
	if over != (r.Best < 0) || over != (w.Best < 0) {
		t.Fatalf("%+v: over %v, best %d, %d", p, over, r.Best, w.Best)
	}
	scores, best, err := s.Scores(t.Context(), p)
	if err != nil || !over && best.Score != want {
		t.Fatalf("%+v: best of scores %d (%v), want %d", p, best.Score, err, want)
	}
	for a, score := range scores {
		switch {
		case over || !b.CanPlay(p, a):
			if score != NoMove {
				t.Fatalf("%+v: action %d scores %d, want none", p, a, score)
			}
		case score != -minimax(b, b.Play(p, a)):
			t.Fatalf("%+v: action %d scores %d, want %d", p, a, score, -minimax(b, b.Play(p, a)))
		}
	}
	if !over && (scores[r.Best] != want || min(max(scores[w.Best], -1), 1) != w.Score) {
		t.Fatalf("%+v: best %d and %d of %v", p, r.Best, w.Best, scores)
	}
}

// TestEmpty: with one in a row the first move wins, and tic-tac-toe is a draw.
func TestEmpty(t *testing.T) {
	for _, r := range []game.Rules{{Rows: 2, Columns: 5, InARow: 1, Gravity: true}, game.TicTacToe} {
		s := mustNew(t, game.MustBoard(r), Options{TableMiB: 1})
		compareMinimax(t, s, game.Position{})
		compareMinimax(t, s, s.Board().Play(game.Position{}, 3))
	}
}

func TestOptions(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	for _, o := range []Options{{TableMiB: -1}, {Threads: -2}} {
		if _, err := New(b, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// mapBook is a Book for tests.
type mapBook map[game.Position]int

func (m mapBook) Score(p game.Position) (int, bool) {
	s, ok := m[p]
	return s, ok
}

// countingBook counts the questions.
type countingBook struct {
	Book
	asked int
}

func (c *countingBook) Score(p game.Position) (int, bool) {
	c.asked++
	return c.Book.Score(p)
}

// A book may know a position, its moves, or both. If only scores are asked for, positions at its end need no search.
func TestBook(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	p := nearEnd(3, b, 12)
	want := alphaBeta(b, p, -50, 50)
	moves := mapBook{}
	for a := range b.Actions() {
		if b.CanPlay(p, a) {
			moves[b.Play(p, a)] = alphaBeta(b, b.Play(p, a), -50, 50)
		}
	}
	s := mustNew(t, b, Options{TableMiB: 1, Book: moves})
	scores, r, err := s.Scores(t.Context(), p)
	if err != nil || r.Nodes != 0 {
		t.Errorf("%+v, %v: want no search", r, err)
	}
	for q, want := range moves {
		if r, err := s.Score(t.Context(), q); err != nil || r.Score != want || r.Nodes != 0 {
			t.Errorf("%+v, %v; want %d without a search", r, err, want)
		}
	}
	for a, score := range scores {
		if b.CanPlay(p, a) && score != -moves[b.Play(p, a)] {
			t.Errorf("move %d has score %d, want %d", a, score, -moves[b.Play(p, a)])
		}
	}
	both := maps.Clone(moves)
	both[p] = want
	open := game.Position{} // nothing is decided at once
	counting := &countingBook{Book: mapBook{open: 1}}
	if r, err := mustNew(t, b, Options{TableMiB: 1, Book: counting}).Score(t.Context(), open); err != nil || r.Score != 1 || !r.Booked || counting.asked != 1 {
		t.Errorf("%+v, %v, after %d questions to the book; want score 1 after one", r, err, counting.asked)
	}
	for _, book := range []mapBook{{p: want}, both} {
		r, err := mustNew(t, b, Options{TableMiB: 1, Book: book}).Solve(t.Context(), p)
		if err != nil || r.Score != want || moves[b.Play(p, r.Best)] != -want {
			t.Fatalf("%+v, %v; want %d", r, err, want)
		}
	}
}

// TestCancel stops long searches from within their progress function, so that nothing waits for a clock.
func TestCancel(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, r := range []game.Rules{game.Connect4, {Rows: 10, Columns: 10, InARow: 4, Gravity: true}} {
		for _, threads := range []int{1, 2} {
			ctx, cancel := context.WithCancel(t.Context())
			seen := 0
			s := mustNew(t, game.MustBoard(r), Options{TableMiB: 1, Threads: threads, Progress: func(p Progress) {
				seen++
				if p.Nodes == 0 || p.Lower > p.Window || p.Window >= p.Upper || p.Fill < 0 || p.Fill > 1 || p.Elapsed <= 0 {
					t.Errorf("progress %+v", p)
				}
				cancel()
			}})
			res, err := s.Solve(ctx, game.Position{})
			if !errors.Is(err, context.Canceled) || seen == 0 || res.Best != -1 {
				t.Errorf("%v: %+v, %v after %d reports", r, res, err, seen)
			}
			if _, err := s.Solve(ctx, game.Position{}); err == nil {
				t.Error("a cancelled context is searched under")
			}
		}
	}
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// TestNoAllocation checks that a call's allocations do not grow with its nodes.
func TestNoAllocation(t *testing.T) {
	if gametest.Race {
		t.Skip("the race detector allocates")
	}
	b := game.MustBoard(game.Connect4)
	s := mustNew(t, b, Options{TableMiB: 1})
	p, _, _ := b.ParseMoves("274552224131661")
	var nodes uint64
	n := testing.AllocsPerRun(3, func() {
		s.Reset()
		r, _ := s.Solve(context.Background(), p)
		nodes = r.Nodes
	})
	if nodes < 1000 || n > 40 {
		t.Errorf("%v allocations for %d nodes", n, nodes)
	}
}

// TestSignature pins the number of nodes, so that every change of the search shows its effect and updates the number on purpose.
func TestSignature(t *testing.T) {
	gametest.OneGoroutine(t)
	const want = 234463
	b := game.MustBoard(game.Connect4)
	s := mustNew(t, b, Options{TableMiB: 4})
	r := gametest.Rand(42)
	var nodes uint64
	for range 100 {
		s.Reset()
		res := gametest.Must(s.Solve(t.Context(), gametest.Position(r, b, 12+r.IntN(16), true)))(t)
		nodes += res.Nodes
	}
	if nodes != want {
		t.Errorf("%d nodes, want %d", nodes, want)
	}
}
