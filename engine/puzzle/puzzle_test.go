package puzzle

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
)

// all reads the puzzles that ship.
func all(t testing.TB) []Puzzle {
	t.Helper()
	puzzles := gametest.Must(Read(bytes.NewReader(Shipped())))(t)
	if len(puzzles) < 10_000 {
		t.Fatalf("%d puzzles ship", len(puzzles))
	}
	return puzzles
}

// some returns n random puzzles of those that ship; in a soak it returns soak puzzles.
func some(t testing.TB, n, soak int, seed uint64) []Puzzle {
	t.Helper()
	puzzles := all(t)
	if gametest.Soak() {
		n = soak
	}
	gametest.Rand(seed).Shuffle(len(puzzles), func(i, j int) { puzzles[i], puzzles[j] = puzzles[j], puzzles[i] })
	return puzzles[:n]
}

// Of the puzzles that ship, exactly one move keeps the result, by a solver that is not that of Make. No next stone decides. The file is
// small, and has puzzles of each theme and of all ratings.
func TestShipped(t *testing.T) {
	if size := len(Shipped()); size > 200_000 {
		t.Errorf("the file has %d bytes", size)
	}
	s := gametest.Must(solver.New(game.MustBoard(game.Connect4), solver.Options{}))(t)
	for _, p := range some(t, 12, 500, 1) {
		scores, best, err := s.Scores(t.Context(), p.Position())
		gametest.OK(t, err)
		keep := 0
		for _, score := range scores {
			if score != solver.NoMove && game.ResultOf(score) == game.ResultOf(best.Score) {
				keep++
			}
		}
		if keep != 1 || best.Best != p.Move || game.ResultOf(best.Score) != p.Result {
			t.Errorf("%v: scores %v", &p, scores)
		}
		if trivial(p.Board, p.Position()) {
			t.Errorf("%v: is decided by the next stones", &p)
		}
	}
	themes, ratings := map[Theme]int{}, map[int]int{}
	for _, p := range all(t) {
		themes[p.Theme]++
		ratings[p.Rating/100*100]++
	}
	for _, theme := range Themes() {
		if themes[theme] < 30 {
			t.Errorf("%d puzzles have theme %s", themes[theme], theme)
		}
	}
	for rating := Least; rating < Most-100; rating += 100 {
		if ratings[rating] < 100 {
			t.Errorf("%d puzzles have a rating from %d to %d", ratings[rating], rating, rating+99)
		}
	}
}

// The file that ships is still what its command makes: it has the puzzles of the first games. Only a soak demands it, because a change of the
// search or of self-play makes other puzzles, and the old ones stay good.
func TestShippedIsMade(t *testing.T) {
	if !gametest.Soak() {
		t.Skip("only in a soak")
	}
	ships := map[string]bool{}
	for _, p := range all(t) {
		ships[p.String()] = true
	}
	m := gametest.Must(newPlayer(game.MustBoard(game.Connect4), 1))(t)
	for n := range 200 {
		for _, p := range gametest.Must(m.play(t.Context(), n))(t) {
			if !ships[p.String()] {
				t.Errorf("game %d: %v does not ship: make the file again", n, &p)
			}
		}
	}
}

// The same board, count and seed give the same puzzles with any number of threads, and when some of the games are known from before.
// Another seed gives others.
func TestMake(t *testing.T) {
	b := game.MustBoard(game.Rules{Rows: 5, Columns: 6, InARow: 4, Gravity: true})
	lines := func(puzzles []Puzzle) (lines []string) {
		for i := range puzzles {
			lines = append(lines, puzzles[i].String())
		}
		return lines
	}
	var games [][]Puzzle
	first := gametest.Must(Make(t.Context(), b, Options{Count: 25, Seed: 3, Played: func(found []Puzzle, total int) error {
		games = append(games, found)
		return nil
	}}))(t)
	if len(first) != 25 || !slices.IsSortedFunc(first, func(a, b Puzzle) int { return a.Rating - b.Rating }) {
		t.Fatalf("made %q", lines(first))
	}
	for i, o := range []Options{{Count: 25, Seed: 3, Threads: 3}, {Count: 25, Seed: 3, Threads: 2, Before: games[:len(games)/2]}, {Count: 25, Seed: 3, Before: games}} {
		if diff := cmp.Diff(lines(first), lines(gametest.Must(Make(t.Context(), b, o))(t))); diff != "" {
			t.Errorf("again %d: (-first +again)\n%s", i, diff)
		}
	}
	if other := gametest.Must(Make(t.Context(), b, Options{Count: 25, Seed: 4}))(t); cmp.Equal(lines(first), lines(other)) {
		t.Error("another seed gives the same puzzles")
	}
	read := gametest.Must(Read(bytes.NewReader(Format("test", first))))(t)
	if diff := cmp.Diff(lines(first), lines(read)); diff != "" {
		t.Errorf("read from a file (-made +read)\n%s", diff)
	}
	s := gametest.Must(solver.New(b, solver.Options{}))(t)
	for _, p := range first {
		actions, _, err := s.Best(t.Context(), p.Position())
		gametest.OK(t, err)
		if !slices.Contains(actions, p.Move) {
			t.Errorf("%v: the best moves are %v", &p, actions)
		}
	}
}

// Make ends where a small board has no more, with the error of its caller, and with its context.
func TestMakeEnds(t *testing.T) {
	tiny := game.MustBoard(game.Rules{Rows: 3, Columns: 3, InARow: 3, Gravity: true})
	if few := gametest.Must(Make(t.Context(), tiny, Options{Count: 100_000, Seed: 1}))(t); len(few) > 500 {
		t.Errorf("3x3x3 has %d puzzles", len(few))
	}
	stop := errors.New("full disk")
	b := game.MustBoard(game.Connect4)
	if _, err := Make(t.Context(), b, Options{Count: 100, Played: func([]Puzzle, int) error { return stop }}); !errors.Is(err, stop) {
		t.Errorf("the caller's error became %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Make(ctx, b, Options{Count: 100}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended became %v", err)
	}
}

// Files that are wrong are refused with the line and what is wrong.
func TestReadWrong(t *testing.T) {
	const good = "5x5x4:12 3 win 700 plan\n"
	for text, says := range map[string]string{
		"44455":                          "line 1: \"44455\": has 1 words, want 5",
		good + "4 8 win 700 plan":        `line 2: move "8": cannot be played`,
		"444444 4 win 700 plan":          `move "4": cannot be played`,
		"1212121 4 win 700 plan":         "the game is over",
		"4x 4 win 700 plan":              `move 2 is "x"`,
		"9x9:4 4 win 700 plan":           `rules "9x9"`,
		"4 4 loss 700 plan":              `result "loss": want win or draw`,
		"4 4 win 99 plan":                `rating "99": want a number from 600`,
		"4 4 win 700 luck":               `theme "luck": want one of`,
		good + "# so\n4 4 win 600 plan":  "line 3: rating 600 is less",
		good + good:                      "line 2: the position, or its mirror image, is a duplicate",
		good + "5x5x4:54 3 win 700 plan": "line 2: the position, or its mirror image, is a duplicate",
		"\x1f\x8bxx":                     "puzzles: ",
		strings.Repeat("4", 2*mostLine):  "line 1: bufio.Scanner: token too long",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40q: %v, want %s", text, err, says)
		}
	}
}

// What a file says is read, or refused with an error; what is read is written the same.
func FuzzRead(f *testing.F) {
	f.Add([]byte("# 1 puzzles\n44455 3 win 1240 zugzwang\n"))
	f.Add([]byte("3x3x3free:51 3 draw 600 hold\n6x5x4:12 1 draw 700 plan"))
	f.Add([]byte("44 4 win 1900 attack\n\n"))
	packed, err := Compress([]byte("44455 3 win 1240 zugzwang\n"))
	gametest.OK(f, err)
	f.Add(packed)
	f.Fuzz(func(t *testing.T, text []byte) {
		puzzles, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		again := gametest.Must(Read(bytes.NewReader(Format("again", puzzles))))(t)
		for i := range puzzles {
			if puzzles[i].String() != again[i].String() {
				t.Errorf("%v became %v", &puzzles[i], &again[i])
			}
		}
	})
}
