package book_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/durable/durabletest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/engine/solver/book"
)

// minimax is the definition of the exact score, with memoization. It is fast enough for small boards only.
type minimax struct {
	board  *game.Board
	seen   map[game.Position]int
	solved int
	budget int // solve fails after this number of positions, unless it is 0
}

var errStop = errors.New("stop")

func (m *minimax) score(p game.Position) int {
	if s, ok := m.seen[p]; ok {
		return s
	}
	best := -m.board.Cells()
	switch m.board.Result(p) {
	case game.Loss:
		best = -(m.board.Cells() + 2 - p.Plies()) / 2
	case game.Draw:
		best = 0
	default:
		for a := range m.board.Actions() {
			if m.board.CanPlay(p, a) {
				best = max(best, -m.score(m.board.Play(p, a)))
			}
		}
	}
	m.seen[p] = best
	return best
}

func (m *minimax) solve(ctx context.Context, p game.Position) (int, error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if m.budget > 0 && m.solved == m.budget {
		return 0, errStop
	}
	m.solved++
	return m.score(p), nil
}

func newMinimax(board *game.Board) *minimax {
	return &minimax{board: board, seen: map[game.Position]int{}}
}

func build(t *testing.T, path string, board *game.Board, plies int, m ...*minimax) (*book.Book, error) {
	t.Helper()
	var workers []book.Solve
	for _, m := range m {
		workers = append(workers, m.solve)
	}
	return book.Build(t.Context(), path, board, plies, false, workers, nil)
}

var boards = []*game.Board{
	game.MustBoard(game.Rules{Rows: 4, Columns: 4, InARow: 3, Gravity: true}),
	game.MustBoard(game.Rules{Rows: 3, Columns: 5, InARow: 4, Gravity: true}),
	game.MustBoard(game.Rules{Rows: 3, Columns: 3, InARow: 3, Gravity: true}),
}

// A book has every position of its plies, and minimax's score for each or its sign.
func TestBuild(t *testing.T) {
	for _, board := range boards {
		path := filepath.Join(t.TempDir(), "book")
		plies := min(5, board.Cells()/3)
		scores := gametest.Must(build(t, path, board, plies, newMinimax(board), newMinimax(board)))(t)
		read := gametest.Must(book.Load(path))(t)
		if _, err := os.Stat(path + ".parts"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the unfinished book was left: %v", err)
		}
		m := newMinimax(board)
		gametest.Must(book.Build(t.Context(), path, board, plies, true, []book.Solve{m.solve}, nil))(t)
		results := gametest.Must(book.Read(bytes.NewReader(gametest.Must(os.ReadFile(path))(t))))(t)
		if _, err := book.Load(path); err == nil || !strings.Contains(err.Error(), "no scores") {
			t.Errorf("a book of results was loaded as one of scores: %v", err)
		}
		r := gametest.Rand(1)
		found := map[game.Position]bool{}
		for range 5000 {
			p := gametest.Position(r, board, r.IntN(8), false)
			want := board.Result(p) == game.Ongoing && p.Plies() <= plies
			for _, b := range []*book.Book{scores, read} {
				got, ok := b.Score(p)
				if ok != want || ok && got != m.score(p) {
					t.Fatalf("%v: position %+v has score %d, %v; want %d, %v", board.Rules(), p, got, ok, m.score(p), want)
				}
			}
			result := game.Ongoing
			if want {
				result = game.ResultOf(m.score(p))
			}
			for _, b := range []*book.Book{read, results} {
				if got := b.Result(p); got != result {
					t.Fatalf("%v: position %+v is a %v, want %v", board.Rules(), p, got, result)
				}
			}
			if _, ok := results.Score(p); ok {
				t.Fatal("a book of results has a score")
			}
			if c, _ := board.Canonical(p); want {
				found[c] = true
			}
		}
		if read.Plies() != plies || read.Positions() < len(found) || read.Positions() != results.Positions() || read.Rules() != board.Rules() {
			t.Errorf("%v: %d plies, %d and %d positions, %d of them met", read.Rules(), read.Plies(), read.Positions(), results.Positions(), len(found))
		}
	}
	for _, rules := range []game.Rules{game.TicTacToe, {Rows: 8, Columns: 8, InARow: 4, Gravity: true}} {
		if _, err := build(t, filepath.Join(t.TempDir(), "book"), game.MustBoard(rules), 1); err == nil || !strings.Contains(err.Error(), "has no books") {
			t.Errorf("%v: error %v", rules, err)
		}
	}
}

// A board whose keys need all 64 bits.
func TestLargestBoard(t *testing.T) {
	board := game.MustBoard(game.Rules{Rows: 7, Columns: 8, InARow: 4, Gravity: true})
	const plies = 4
	byStones := func(_ context.Context, p game.Position) (int, error) { return 3, nil }
	b := gametest.Must(book.Build(t.Context(), filepath.Join(t.TempDir(), "book"), board, plies, false, []book.Solve{byStones}, nil))(t)
	r := gametest.Rand(1)
	for range 2000 {
		p := gametest.Position(r, board, r.IntN(plies+2), true)
		want := 3 - 6*((plies-p.Plies())%2) // each child has the same score
		if got, ok := b.Score(p); ok != (p.Plies() <= plies) || ok && got != want {
			t.Fatalf("%+v has score %d, %v; want %d", p, got, ok, want)
		}
	}
}

// The 11,094 positions of up to six stones.
func TestEnumeration(t *testing.T) {
	board := game.MustBoard(game.Connect4)
	lines := gametest.DataLines(t, "book6_7x6x4")
	path := filepath.Join(t.TempDir(), "book")
	known := map[game.Position]int{}
	for _, line := range lines {
		var moves string
		var score int
		gametest.Must(fmt.Sscan(line, &moves, &score))(t)
		p, _, err := board.ParseMoves(moves)
		gametest.OK(t, err)
		c, _ := board.Canonical(p)
		known[c] = score
	}
	// The scores of six plies are given; those of fewer must follow.
	lookUp := func(_ context.Context, p game.Position) (int, error) {
		c, _ := board.Canonical(p)
		score, ok := known[c]
		if !ok {
			return 0, fmt.Errorf("%+v is not among the known positions", p)
		}
		return score, nil
	}
	b := gametest.Must(book.Build(t.Context(), path, board, 6, false, []book.Solve{lookUp}, nil))(t)
	if b.Positions() != len(known) || len(known) != 11094 {
		t.Errorf("%d positions, want %d", b.Positions(), len(known))
	}
	for p, want := range known {
		if got, ok := b.Score(p); !ok || got != want {
			t.Fatalf("%+v: score %d, %v; want %d", p, got, ok, want)
		}
		if got, ok := b.Score(board.Mirror(p)); !ok || got != want {
			t.Fatalf("%+v mirrored: score %d, %v; want %d", p, got, ok, want)
		}
	}
}

// Progress starts at the number of positions that an earlier build has solved, and is then called once for each position.
func TestProgress(t *testing.T) {
	board := boards[0]
	path := filepath.Join(t.TempDir(), "book")
	m := newMinimax(board)
	m.budget = 100
	if _, err := build(t, path, board, 6, m); !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	var told []int
	total := 0
	workers := []book.Solve{newMinimax(board).solve, newMinimax(board).solve}
	gametest.Must(book.Build(t.Context(), path, board, 6, false, workers, func(done, of int) { told, total = append(told, done), of }))(t)
	if told[0] != 64 || len(told) != 1+total-64 { // a part of 64 was kept
		t.Errorf("told %d times, first %d, of %d", len(told), told[0], total)
	}
	for i, done := range told {
		if done != 64+i {
			t.Fatalf("told %d after %d more", done, i)
		}
	}
}

// However a build ends, the next one continues from that point, and the finished book is the same.
func TestResume(t *testing.T) {
	board := boards[0]
	dir := t.TempDir()
	whole, path := filepath.Join(dir, "whole"), filepath.Join(dir, "resumed")
	all := newMinimax(board)
	gametest.Must(build(t, whole, board, 6, all))(t)
	want := gametest.Must(os.ReadFile(whole))(t)
	solved := 0
	for try := 0; ; try++ {
		m := newMinimax(board)
		m.budget = 200
		_, err := build(t, path, board, 6, m)
		solved += m.solved
		if err == nil {
			break
		}
		if !errors.Is(err, errStop) || !strings.Contains(err.Error(), "resumed.parts") {
			t.Fatalf("error %v, want %v and where the work is kept", err, errStop)
		}
		// A part that is cut off, or has garbage at its end, is solved again.
		name := filepath.Join(path+".parts", "000")
		part := gametest.Must(os.ReadFile(name))(t)
		part = [][]byte{part[:max(16, len(part)-5)], append(part, 1, 2, 3, 4, 5, 6, 7), part}[try%3]
		gametest.OK(t, os.WriteFile(name, part, 0o644))
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the resumed book differs (%v)", err)
	}
	if solved <= all.solved || solved > 3*all.solved {
		t.Errorf("%d positions solved in parts, %d at once", solved, all.solved)
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "book")
	gametest.Must(build(t, path, boards[2], 3, newMinimax(boards[2])))(t)
	good := gametest.Must(os.ReadFile(path))(t)
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":   {nil, "is not a book of exact scores"},
		"other":   {[]byte(strings.Repeat("x", 100)), "is not a book of exact scores"},
		"short":   {good[:20], "is truncated"},
		"longer":  {append(slices.Clone(good), 0), "is damaged: its checksum does not fit"},
		"header":  {slices.Concat(good[:13], []byte{1}, good[14:]), "has a damaged header"},
		"no such": {slices.Concat(good[:8], []byte{0}, good[9:]), `rows "0": must be 1 or more`},
	} {
		gametest.OK(t, os.WriteFile(path, c.file, 0o644))
		if _, err := book.Load(path); err == nil || err.Error() != "book "+path+": "+c.want {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
	if _, err := build(t, path, boards[2], 9, newMinimax(boards[2])); err == nil || !strings.Contains(err.Error(), "0 to 8") {
		t.Errorf("a book of nine plies of 3x3x3: error %v", err)
	}
}

func FuzzRead(f *testing.F) {
	path := filepath.Join(f.TempDir(), "book")
	m := newMinimax(boards[2])
	gametest.Must(book.Build(f.Context(), path, boards[2], 2, false, []book.Solve{m.solve}, nil))(f)
	good := gametest.Must(os.ReadFile(path))(f)
	f.Add(good)
	f.Fuzz(func(t *testing.T, file []byte) {
		b, err := book.Read(bytes.NewReader(file))
		if err == nil && b.Positions()+16+4+32 != len(file) {
			t.Fatalf("%d bytes were read as %d positions", len(file), b.Positions())
		}
	})
}

// A lazy book has the same scores as one that is read at once. A question about a position with more plies does not read it.
func TestLazy(t *testing.T) {
	board := boards[0]
	path := filepath.Join(t.TempDir(), "book")
	want := gametest.Must(build(t, path, board, 4, newMinimax(board)))(t)
	file := gametest.Must(os.ReadFile(path))(t)
	got, err := book.NewLazy(file)
	if err != nil || got.Rules() != board.Rules() || got.Plies() != 4 {
		t.Fatalf("%+v, %v", got, err)
	}
	r := gametest.Rand(3)
	for range 500 {
		p := gametest.Position(r, board, r.IntN(7), false)
		score, ok := got.Score(p)
		if wanted, known := want.Score(p); score != wanted || ok != known {
			t.Fatalf("%+v: score %d, %v; want %d, %v", p, score, ok, wanted, known)
		}
	}
	if _, err := book.NewLazy(file[:len(file)-1]); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a damaged file: error %v", err)
	}
	if _, err := book.NewLazy(file[:10]); err == nil || err.Error() != "book: is not a book of exact scores" {
		t.Errorf("error %v", err)
	}
}

// A build that finds a damaged byte in a part still ends with the same book. A book with a damaged byte is refused.
func TestDamaged(t *testing.T) {
	b := game.MustBoard(game.Rules{Columns: 4, Rows: 4, InARow: 4, Gravity: true})
	dir := t.TempDir()
	path := filepath.Join(dir, "x.book")
	m := newMinimax(b)
	m.budget = 150
	if _, err := book.Build(t.Context(), path, b, 5, false, []book.Solve{m.solve}, nil); !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	m.budget = 0
	part := gametest.Must(os.ReadFile(filepath.Join(path+".parts", "001")))(t)
	build := func(dir string) (string, error) {
		path := filepath.Join(dir, "x.book")
		if _, err := book.Load(path); err == nil || !os.IsNotExist(errors.Unwrap(err)) {
			return "", err // if there is a book, it is read
		}
		_, err := book.Build(t.Context(), path, b, 5, false, []book.Solve{m.solve}, nil)
		if err != nil {
			return "", err
		}
		text, err := os.ReadFile(path)
		return string(text), err
	}
	finished := t.TempDir()
	kept := m.solved - m.solved%64
	m.solved = 0
	want := gametest.Must(build(dir))(t)
	all := m.solved + kept
	gametest.OK(t, os.WriteFile(filepath.Join(finished, "x.book"), []byte(want), 0o644))
	durabletest.Damage(t, finished, 1, nil, func(dir string) (string, error) {
		_, err := book.Load(filepath.Join(dir, "x.book"))
		return "", err
	})
	for at := range part {
		damaged := t.TempDir()
		text := bytes.Clone(part)
		text[at] ^= 0x11
		gametest.OK(t, os.Mkdir(filepath.Join(damaged, "x.book.parts"), 0o755))
		gametest.OK(t, os.WriteFile(filepath.Join(damaged, "x.book.parts", "001"), text, 0o644))
		m.solved = 0
		if got, err := build(damaged); err != nil || got != want || m.solved != all {
			t.Fatalf("byte %d of a part: another book, or %d positions solved, want %d; %v", at, m.solved, all, err)
		}
	}
}

// A solver that keeps its table from position to position, as the command's does, writes minimax's book.
func TestSolver(t *testing.T) {
	board := game.MustBoard(game.Rules{Rows: 4, Columns: 4, InARow: 4, Gravity: true})
	dir := t.TempDir()
	plain, path := filepath.Join(dir, "minimax"), filepath.Join(dir, "solver")
	m := newMinimax(board)
	gametest.Must(build(t, plain, board, 7, m))(t)
	var workers []book.Solve
	for range 2 {
		s := gametest.Must(solver.New(board, solver.Options{TableMiB: 1}))(t)
		workers = append(workers, func(ctx context.Context, p game.Position) (int, error) {
			r, err := s.Score(ctx, p)
			return r.Score, err
		})
	}
	gametest.Must(book.Build(t.Context(), path, board, 7, false, workers, nil))(t)
	if !bytes.Equal(gametest.Must(os.ReadFile(path))(t), gametest.Must(os.ReadFile(plain))(t)) {
		t.Error("the books differ")
	}
	if m.solved < 1000 {
		t.Errorf("only %d positions", m.solved)
	}
}

// Two programs build one book together: each solves parts that the other has not claimed, and the last to end writes the book.
func TestTogether(t *testing.T) {
	board := boards[0]
	dir := t.TempDir()
	whole, path := filepath.Join(dir, "whole"), filepath.Join(dir, "together")
	alone := newMinimax(board)
	gametest.Must(build(t, whole, board, 6, alone))(t)
	first, second := newMinimax(board), newMinimax(board)
	solve := func(ctx context.Context, p game.Position) (int, error) {
		if first.solved == 10 { // the first part is in use
			_, err := build(t, path, board, 6, second)
			if err == nil || !strings.Contains(err.Error(), "other programs are solving the last parts (1)") || !strings.Contains(err.Error(), path) {
				t.Errorf("the second program ends with error %v", err)
			}
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the second program wrote the book: %v", err)
			}
		}
		return first.solve(ctx, p)
	}
	gametest.Must(book.Build(t.Context(), path, board, 6, false, []book.Solve{solve}, nil))(t)
	if first.solved != 64 || second.solved != alone.solved-64 {
		t.Errorf("%d and %d positions solved, want 64 and %d", first.solved, second.solved, alone.solved-64)
	}
	if !bytes.Equal(gametest.Must(os.ReadFile(path))(t), gametest.Must(os.ReadFile(whole))(t)) {
		t.Error("the books differ")
	}
}

// The shipped books agree with scores published by others.
func TestScores(t *testing.T) {
	if book.Scores(game.TicTacToe) != nil || book.Results(game.TicTacToe) != nil {
		t.Error("there is a book of tic-tac-toe")
	}
	scores, results, board := book.Scores(game.Connect4), book.Results(game.Connect4), game.MustBoard(game.Connect4)
	if score, ok := scores.Score(game.Position{}); !ok || score != 1 {
		t.Errorf("the empty board has score %d (%v), want 1: won with the last stone but one", score, ok)
	}
	known := 0
	for _, line := range gametest.DataLines(t, "book6_7x6x4") {
		var moves string
		var want int
		if _, err := fmt.Sscan(line, &moves, &want); err != nil {
			t.Fatal(err)
		}
		p, _, err := board.ParseMoves(moves)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := scores.Score(p); ok {
			known++
			if result := results.Result(p); got != want || result.Value() != float32(min(max(want, -1), 1)) {
				t.Errorf("%s: score %d, a %v, want %d", moves, got, result, want)
			}
		}
	}
	if known < 500 {
		t.Errorf("the book has %d of these positions", known)
	}
}

// The positions that go on and those that the last stone won are as many as others count (OEIS A212693). The book has one of two mirror
// images.
func TestCounts(t *testing.T) {
	results, board := book.Results(game.Connect4), game.MustBoard(game.Connect4)
	images := func(p game.Position) int {
		if board.Mirror(p) == p {
			return 1
		}
		return 2
	}
	var won map[game.Position]bool // canonical, by the last stone
	for n, want := range []int{1, 7, 49, 238, 1120, 4263, 16422, 54859, 184275, 558186} {
		got, next := 0, map[game.Position]bool{}
		for p := range won {
			got += images(p)
		}
		for p := range results.Positions(n) {
			got += images(p)
			for l := board.Wins(p); !l.IsZero(); l = l.WithoutFirst() {
				c, _ := board.Canonical(board.PlayCell(p, l.LowBit()))
				next[c] = true
			}
		}
		if got != want {
			t.Errorf("%d positions with %d stones, want %d", got, n, want)
		}
		won = next
	}
}

// The shipped results are the signs of the shipped scores, and beyond these what a solver without a book finds.
func TestResults(t *testing.T) {
	gametest.OneGoroutine(t)
	board, r := game.MustBoard(game.Connect4), gametest.Rand(1)
	scores, results, full := book.Scores(board.Rules()), book.Results(board.Rules()), gametest.Must(solver.New(board, solver.Options{}))(t)
	for range 20_000 {
		p := gametest.Position(r, board, r.IntN(scores.Plies()+1), true)
		if score, ok := scores.Score(p); !ok || results.Result(p) != game.ResultOf(score) {
			t.Fatalf("%+v: score %d, a %v", p, score, results.Result(p))
		}
	}
	for range 30 {
		p := gametest.Position(r, board, results.Plies()-r.IntN(2), true)
		if want := gametest.Must(full.WDL(t.Context(), p))(t).Score; results.Result(p) != game.ResultOf(want) {
			t.Errorf("%+v is a %v, the solver says %d", p, results.Result(p), want)
		}
	}
	if p := gametest.Position(r, board, results.Plies()+1, true); results.Result(p) != game.Ongoing {
		t.Errorf("there is a result of %d stones", results.Plies()+1)
	}
}
