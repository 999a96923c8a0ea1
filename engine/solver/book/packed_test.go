package book_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/engine/solver/book"
)

// packed returns the packed file of a complete book of minimax's scores.
func packed(t testing.TB, m *minimax, plies int) []byte {
	t.Helper()
	b := gametest.Must(book.Build(t.Context(), filepath.Join(t.TempDir(), "book"), m.board, plies, false, []book.Solve{m.solve}, nil))(t)
	return gametest.Must(b.Pack())(t)
}

// reached lists the positions of all games with up to this number of stones, mirror images included.
func reached(b *game.Board, plies int) map[game.Position]bool {
	all, last := map[game.Position]bool{{}: true}, map[game.Position]bool{{}: true}
	for range plies {
		next := map[game.Position]bool{}
		for p := range last {
			for l := b.Legal(p); !l.IsZero() && b.Result(p) == game.Ongoing; l = l.WithoutFirst() {
				next[b.PlayCell(p, l.LowBit())] = true
			}
		}
		maps.Copy(all, next)
		last = next
	}
	return all
}

// A packed book has minimax's score and result for each position with its number of stones and up to three fewer, and for no others.
func TestPacked(t *testing.T) {
	for i, board := range append(slices.Clone(boards), game.MustBoard(game.Rules{Rows: 4, Columns: 4, InARow: 4, Gravity: true})) {
		m := newMinimax(board)
		for _, plies := range []int{0, 5, min(7+i, board.Cells()-1)} {
			file := packed(t, m, plies)
			k := gametest.Must(book.ParsePacked(file))(t)
			if k.Plies() != plies || k.Rules() != board.Rules() {
				t.Errorf("%d plies of %v are read as %d of %v", plies, board.Rules(), k.Plies(), k.Rules())
			}
			count := 0
			for p := range reached(board, min(plies+1, board.Cells())) {
				has := board.Result(p) == game.Ongoing && p.Plies() <= plies && p.Plies() >= plies-3
				score, ok := k.Score(p)
				result := k.Result(p)
				if ok != has || (result != game.Ongoing) != has {
					t.Fatalf("%v, %d plies: %+v is found: %v, a %v", board.Rules(), plies, p, ok, result)
				}
				if has {
					count++
					if want := m.score(p); score != want || result != game.ResultOf(want) {
						t.Fatalf("%v, %d plies: %+v has score %d and is a %v, want %d", board.Rules(), plies, p, score, result, want)
					}
				}
			}
			if count == 0 {
				t.Errorf("%v: no position of %d plies", board.Rules(), plies)
			}
		}
	}
}

// Positions that no game reaches have no score, unless rules alone give it; and no position panics.
func TestPackedUnreached(t *testing.T) {
	board := game.MustBoard(game.Rules{Rows: 4, Columns: 4, InARow: 4, Gravity: true})
	const plies = 8
	m := newMinimax(board)
	k := gametest.Must(book.ParsePacked(packed(t, m, plies)))(t)
	all, r := reached(board, plies), gametest.Rand(1)
	none := 0
	for range 20000 {
		p := gametest.Position(r, board, plies, false) // its stones, in another colouring
		own := p.Own.OnesCount()
		p.Own = game.Bits{}
		for p.Own.OnesCount() < own {
			p.Own = p.Own.Or(p.All.Nth(r.IntN(p.All.OnesCount())))
		}
		score, ok := k.Score(p)
		if all[p] || p.Plies() != plies {
			continue
		}
		if none++; ok && (board.Result(p) != game.Ongoing || score != m.score(p)) {
			t.Fatalf("%+v, which no game reaches, has score %d, want %d", p, score, m.score(p))
		}
		k.Score(game.Position{Own: game.Bits{Lo: r.Uint64(), Hi: r.Uint64()}, All: game.Bits{Lo: r.Uint64() & r.Uint64(), Hi: r.Uint64()}})
	}
	if none < 100 {
		t.Errorf("only %d such positions", none)
	}
	if score, ok := k.Score(must(board.ParseMoves("11"))); ok {
		t.Errorf("two stones have score %d in a book of %d", score, plies)
	}
}

func must(p game.Position, _ []int, err error) game.Position {
	if err != nil {
		panic(err)
	}
	return p
}

// A packed book answers many goroutines at once, and allocates nothing.
func TestPackedTogether(t *testing.T) {
	board := game.MustBoard(game.Rules{Rows: 4, Columns: 4, InARow: 4, Gravity: true})
	m := newMinimax(board)
	k := gametest.Must(book.ParsePacked(packed(t, m, 8)))(t)
	positions := gametest.Positions(gametest.Rand(2), board, 500, true)
	type answer struct {
		score int
		ok    bool
		game.Result
	}
	ask := func() (all []answer) {
		for _, p := range positions {
			score, ok := k.Score(p)
			all = append(all, answer{score, ok, k.Result(p)})
		}
		return all
	}
	want := ask()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if !slices.Equal(ask(), want) {
				t.Error("other answers in company")
			}
		})
	}
	all.Wait()
	if gametest.Race {
		return // the race detector allocates
	}
	if n := testing.AllocsPerRun(1, func() {
		for _, p := range positions {
			k.Score(p)
			k.Result(p)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A book that ships answers up to the stones of its packed book.
func TestReach(t *testing.T) {
	board := game.MustBoard(game.Rules{Rows: 4, Columns: 4, InARow: 4, Gravity: true})
	m := newMinimax(board)
	k := gametest.Must(book.ParsePacked(packed(t, m, 8)))(t)
	path := filepath.Join(t.TempDir(), "book")
	for _, results := range []bool{false, true} {
		gametest.Must(book.Build(t.Context(), path, board, 5, results, []book.Solve{m.solve}, nil))(t)
		file := gametest.Must(os.ReadFile(path))(t)
		alone := gametest.Must(book.NewLazy(file))(t)
		with := gametest.Must(book.NewLazy(file))(t).WithPacked(k)
		if alone.Reach() != 5 || with.Reach() != 8 || with.Plies() != 5 || gametest.Must(book.NewLazy(file))(t).WithPacked(nil).Reach() != 5 {
			t.Errorf("reach %d alone, %d together", alone.Reach(), with.Reach())
		}
		r := gametest.Rand(4)
		for range 2000 {
			p := gametest.Position(r, board, r.IntN(11), false)
			has, want := p.Plies() <= 8 && board.Result(p) == game.Ongoing, m.score(p)
			score, ok := with.Score(p)
			if ok != (has && (!results || p.Plies() > 5)) || ok && score != want {
				t.Fatalf("%+v: score %d, %v; want %d, %v", p, score, ok, want, has)
			}
			if result := with.Result(p); has && result != game.ResultOf(want) || !has && result != game.Ongoing {
				t.Fatalf("%+v is a %v, want the sign of %d, %v", p, result, want, has)
			}
			if _, ok := alone.Score(p); ok && p.Plies() > 5 {
				t.Fatalf("%+v is in a book of 5 plies", p)
			}
		}
	}
}

// seal corrects a packed file's checksum.
func seal(file []byte) []byte {
	body := file[:max(0, len(file)-sha256.Size)]
	sum := sha256.Sum256(body)
	return slices.Concat(body, sum[:])
}

func TestPackedErrors(t *testing.T) {
	m := newMinimax(boards[2]) // 3x3x3
	file := packed(t, m, 4)
	change := func(at int, to byte) []byte {
		other := bytes.Clone(file)
		other[at] = to
		return seal(other)
	}
	models := 12
	starts := models + 2*(9*7)*7 // scores -2 to 3
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":        {nil, "is not a packed book of exact scores"},
		"another book": {[]byte(strings.Repeat("EVALDBK2", 10)), "is not a packed book of exact scores"},
		"truncated":    {file[:len(file)-1], "is damaged: its checksum does not fit"},
		"damaged":      {append(bytes.Clone(file[:len(file)-1]), file[len(file)-1]^1), "is damaged: its checksum does not fit"},
		"no rows":      {change(8, 0), `rows "0": must be 1 or more`},
		"stones":       {change(11, 9), "book of 9 plies: 3x3x3 has books of 0 to 8"},
		"other board":  {change(9, 9), "too few for"},
		"short":        {seal(file[:100]), "has 56 bytes after its header, and 3x3x3 with 4 stones needs at least"},
		"frequencies":  {change(models+1, 0x7f), "has frequencies of context 0 with the sum"},
		"starts":       {change(starts, 9), "has shape 0 at byte 9 of"},
		"lengths":      {change(starts+5, 9), "has shape 0 with blocks up to byte"},
		"rest":         {seal(append(bytes.Clone(file), 0)), "bytes after its last block"},
	} {
		if _, err := book.ParsePacked(c.file); err == nil || !strings.HasPrefix(err.Error(), "packed book: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
	for want, board := range map[string]*game.Board{
		"packed book of 17 stones: must be at most 16":                                                       boards[1],
		"packed book of 16 stones: 7x6x4 has 258468210 slots of positions or more, must be at most 67108864": game.MustBoard(game.Connect4),
	} {
		if err := book.CheckPacked(board, 16+strings.Count(want, " 17 ")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	path := filepath.Join(t.TempDir(), "book")
	gametest.Must(book.Build(t.Context(), path, boards[2], 3, true, []book.Solve{m.solve}, nil))(t)
	results := gametest.Must(book.Read(bytes.NewReader(gametest.Must(os.ReadFile(path))(t))))(t)
	if _, err := results.Pack(); err == nil || !strings.Contains(err.Error(), "has no scores") {
		t.Errorf("results: error %v", err)
	}
}

// Files with a right checksum are refused, or give some scores.
func FuzzParsePacked(f *testing.F) {
	m := newMinimax(boards[2])
	for _, plies := range []int{2, 4} {
		f.Add(packed(f, m, plies))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		k, err := book.ParsePacked(seal(file))
		if err != nil {
			return
		}
		b := gametest.Must(game.NewBoard(k.Rules()))(t)
		r := gametest.Rand(1)
		for range 50 {
			p := gametest.Position(r, b, k.Plies()-r.IntN(4), false)
			if score, ok := k.Score(p); ok && (score > b.Cells() || score < -b.Cells()) {
				t.Fatalf("%+v has score %d", p, score)
			}
		}
	})
}

// connect4 returns the packed book of 7x6 that ships, and skips the test if none does.
func connect4(t testing.TB) (scores, results *book.Lazy) {
	scores, results = book.Scores(game.Connect4), book.Results(game.Connect4)
	if scores.Reach() == scores.Plies() {
		t.Skip("7x6x4-12.packed is empty until the scores of 12 plies are complete (see the package's documentation)")
	}
	return scores, results
}

// compare solves n random positions with 12 stones in another way: by MTD(f), and a larger table.
func compare(t *testing.T, n int, next func() game.Position, score func(game.Position) (int, bool)) {
	s := gametest.Must(solver.New(game.MustBoard(game.Connect4), solver.Options{MTD: true, TableMiB: 64}))(t)
	for range n {
		p := next()
		got, ok := score(p)
		want := gametest.Must(s.Score(t.Context(), p))(t)
		if !ok || got != want.Score {
			t.Errorf("%+v has score %d, %v; want %d", p, got, ok, want.Score)
		}
	}
}

// cases returns the number of a test's cases.
func cases(usual, soak int) int {
	if gametest.Soak() {
		return soak
	}
	return usual
}

// Random positions of the shipped scores of 12 plies have the solver's scores.
func TestConnect4Solved(t *testing.T) {
	gametest.OneGoroutine(t)
	scores, _ := connect4(t)
	r, b := gametest.Rand(1), game.MustBoard(game.Connect4)
	compare(t, cases(50, 100_000), func() game.Position {
		for {
			if p := gametest.Position(r, b, 12, true); p.Plies() == 12 {
				return p
			}
		}
	}, scores.Score)
}

// While the scores of 12 plies are incomplete, those of finished parts are the solver's scores.
func TestConnect4Parts(t *testing.T) {
	gametest.OneGoroutine(t)
	if !gametest.Soak() {
		t.Skip("the parts take half a minute to read; EVALD_SOAK reads them")
	}
	k, parts := book.Connect4Packed()
	if parts == nil {
		t.Skip("the scores of 12 plies are complete, or have no parts")
	}
	r := gametest.Rand(1)
	compare(t, 2000, func() game.Position { return parts[r.IntN(len(parts))] }, k.Score)
}

// The scores of 12 plies lead to those of 8 plies, and to the results of 9 and 10, which were computed without them.
func TestConnect4Agrees(t *testing.T) {
	gametest.OneGoroutine(t)
	scores, results := connect4(t)
	b := game.MustBoard(game.Connect4)
	each := func(stones, share int, check func(game.Position)) {
		i := 0
		for p := range results.Positions(stones) {
			if i++; i%cases(share, 1) == 0 {
				check(p)
			}
		}
	}
	each(8, 2000, func(p game.Position) {
		best := -b.Cells()
		for l := b.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
			child := b.PlayCell(p, l.LowBit())
			score, ok := scores.Score(child)
			if b.Result(child) == game.Loss {
				score, ok = -(b.Cells()+1-p.Plies())/2, true
			}
			if !ok {
				t.Fatalf("%+v has no score", child)
			}
			best = max(best, -score)
		}
		if want, _ := scores.Score(p); best != want {
			t.Errorf("%+v has score %d, and its moves %d", p, want, best)
		}
	})
	for _, stones := range []int{9, 10} {
		each(stones, 5000, func(p game.Position) {
			if score, ok := scores.Score(p); !ok || game.ResultOf(score) != results.Result(p) {
				t.Errorf("%+v has score %d, %v, and is a %v", p, score, ok, results.Result(p))
			}
		})
	}
}

// Of the positions of the Connect-4 data set of UCI's repository (Tromp, 1995), with 8 stones and no move that wins or is forced (of
// mirror images one), the first player wins 44,473, draws 6,449 and loses 16,635.
func TestUCI(t *testing.T) {
	b, results := game.MustBoard(game.Connect4), book.Results(game.Connect4)
	counts := map[game.Result]int{}
	for p := range results.Positions(8) {
		if !b.Wins(p).IsZero() || !b.Legal(p).And(b.Completes(p.Other())).IsZero() {
			continue
		}
		result := results.Result(p)
		if score, ok := book.Scores(game.Connect4).Score(p); !ok || game.ResultOf(score) != result {
			t.Errorf("%+v has score %d, %v, and is a %v", p, score, ok, result)
		}
		counts[result]++
	}
	if want := (map[game.Result]int{game.Win: 44473, game.Draw: 6449, game.Loss: 16635}); !maps.Equal(counts, want) {
		t.Errorf("%v, want %v", counts, want)
	}
}

// BenchmarkPacked finds the scores of positions with 12 stones that rules alone do not decide, and of all moves of positions with fewer. If
// no packed book ships, most scores are random ones, which need more time than true ones, because alpha-beta excludes fewer moves.
func BenchmarkPacked(bench *testing.B) {
	k, parts := book.Connect4Packed()
	if k == nil {
		bench.Skip("neither a packed book ships nor parts of one")
	}
	b, r := game.MustBoard(game.Connect4), gametest.Rand(1)
	open := func(n int) (all []game.Position) {
		for len(all) < 1000 {
			p := gametest.Position(r, b, n, true)
			if n == 12 && parts != nil {
				p = parts[r.IntN(len(parts))]
			}
			if p.Plies() == n && b.Wins(p).IsZero() && !b.Safe(p).IsZero() {
				all = append(all, p)
			}
		}
		return all
	}
	bench.Run("look-up", func(bench *testing.B) {
		all := open(12)
		bench.ReportAllocs()
		for i := 0; bench.Loop(); i++ {
			k.Score(all[i%len(all)])
		}
	})
	for _, n := range []int{11, 10, 9} {
		bench.Run(fmt.Sprintf("moves-%d", n), func(bench *testing.B) {
			all := open(n)
			bench.ReportAllocs()
			for i := 0; bench.Loop(); i++ {
				p := all[i%len(all)]
				for l := b.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
					k.Score(b.PlayCell(p, l.LowBit()))
				}
			}
		})
	}
}
