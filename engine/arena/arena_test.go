package arena_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/arena"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// untimed compares games without their times.
var untimed = cmpopts.IgnoreFields(arena.Game{}, "FirstSeconds", "SecondSeconds", "FirstLongest", "SecondLongest")

// newMatch returns a match on 7x6x4 from random openings.
func newMatch(t testing.TB, openings, concurrency int, specs ...string) *arena.Match {
	t.Helper()
	var parsed []agent.Spec
	for _, text := range specs {
		s := gametest.Must(agent.Parse(text))(t)
		parsed = append(parsed, s)
	}
	m := &arena.Match{Board: game.MustBoard(game.Connect4), Players: arena.Players(parsed, agent.Shared{}), Seed: 3, Concurrency: concurrency}
	var err error
	if m.Openings, _, err = arena.RandomOpenings(m.Board, 4, openings, 3); err != nil {
		t.Fatal(err)
	}
	return m
}

// play returns all games of a match that are not in have, in the order of their numbers.
func play(t testing.TB, m *arena.Match, have []arena.Game) []arena.Game {
	t.Helper()
	var games []arena.Game
	gametest.OK(t, m.Run(t.Context(), have, func(g arena.Game) error { games = append(games, g); return nil }))
	slices.SortFunc(games, func(a, b arena.Game) int { return cmp.Compare(a.Number, b.Number) })
	return games
}

// script is an agent that calls a function for each move.
type script func(ctx context.Context, b *game.Board, p game.Position) (int, error)

func (s script) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	return s(ctx, b, p)
}

func player(name string, s script) arena.Player {
	return arena.Player{Name: name, New: func(uint64) (agent.Agent, error) { return s, nil }}
}

// first plays the first legal action.
func first(_ context.Context, b *game.Board, p game.Position) (int, error) {
	return b.Action(b.Legal(p).First()), nil
}

// Every pair plays every opening with both colours, and the records say what happened. Nothing depends on how many games are
// played at once.
func TestMatch(t *testing.T) {
	specs := []string{"uct:sims=20", "random", "random", "negamax"}
	m := newMatch(t, 6, 3, specs...)
	games := play(t, m, nil)
	if len(games) != m.Games() || m.Games() != 2*6*6 {
		t.Fatalf("%d games of %d, want 72", len(games), m.Games())
	}
	if names := m.Names(); names[1] != "random" || names[2] != "random#2" {
		t.Errorf("names %v", names)
	}
	seen := map[string]bool{}
	for i, g := range games {
		if int(g.Number) != i+1 {
			t.Fatalf("game %d in place %d", g.Number, i+1)
		}
		key := fmt.Sprint(g.First, " ", g.Second, " ", g.Opening)
		if seen[key] || g.First == g.Second {
			t.Errorf("%s is played twice", key)
		}
		seen[key] = true
		checkGame(t, m, g)
	}
	m.Concurrency = 1
	again := play(t, m, nil)
	if diff := gocmp.Diff(games, again, untimed); diff != "" {
		t.Errorf("one game at once, another match:\n%s", diff)
	}
	// Another seed gives other games.
	m.Seed++
	if again := play(t, m, nil); gocmp.Equal(games, again, untimed) {
		t.Error("another seed, the same match")
	}
}

// checkGame replays a game between agents that do not forfeit.
func checkGame(t *testing.T, m *arena.Match, g arena.Game) {
	t.Helper()
	if opening := game.FormatNotation(m.Board.Rules(), m.Openings[g.Opening-1]); g.OpeningMoves != opening || !strings.HasPrefix(g.Moves, opening) {
		t.Errorf("game %d: %s from %s, want opening %s", g.Number, g.Moves, g.OpeningMoves, opening)
	}
	p, moves, err := m.Board.ParseMoves(g.Moves)
	gametest.OK(t, err)
	points, reason := 0.5, "draw"
	if m.Board.Result(p) == game.Loss {
		points, reason = float64(len(moves)%2), "4 in a row"
	}
	opening := len(m.Openings[g.Opening-1])
	asked := g.FirstMoves + g.SecondMoves
	if m.Board.Result(p) == game.Ongoing || g.Points != points || g.Reason != reason || int(g.Plies) != len(moves) ||
		int(asked) != len(moves)-opening || int(g.SecondMoves) != len(moves)/2-opening/2 {
		t.Errorf("%+v: want %v points, %s, %d plies", g, points, reason, len(moves))
	}
	if g.FirstLongest > g.FirstSeconds || g.SecondLongest > g.SecondSeconds || g.FirstSeconds < 0 {
		t.Errorf("%+v: times are wrong", g)
	}
}

// An agent that fails loses, and the reason is kept.
func TestForfeit(t *testing.T) {
	full := func(_ context.Context, b *game.Board, p game.Position) (int, error) {
		for a := range b.Actions() {
			if !b.CanPlay(p, a) {
				return a, nil
			}
		}
		return b.Action(b.Legal(p).First()), nil
	}
	for _, c := range []struct {
		bad  script
		want string
	}{
		{func(context.Context, *game.Board, game.Position) (int, error) { return 0, errors.New("no\nidea") }, "forfeit: no idea"},
		{func(context.Context, *game.Board, game.Position) (int, error) { return -1, nil }, "forfeit: played 0, which is no legal move"},
		{full, "forfeit: played 1, which is no legal move"},
		// An agent's own deadline is not the end of the match.
		{func(context.Context, *game.Board, game.Position) (int, error) { return 0, context.DeadlineExceeded }, "forfeit: context deadline exceeded"},
	} {
		b := game.MustBoard(game.Rules{Rows: 2, Columns: 7, InARow: 4, Gravity: true})
		m := &arena.Match{Board: b, Players: []arena.Player{player("bad", c.bad), player("good", first)}, Openings: [][]int{{1}, {1, 0}}, Concurrency: 2}
		games := play(t, m, nil)
		for _, g := range games {
			if g.Reason != c.want || g.First == "bad" && g.Points != 0 || g.First == "good" && g.Points != 1 {
				t.Errorf("%+v: want %s", g, c.want)
			}
		}
		table := arena.NewTable(m.Names(), games)
		if s := table.Standings[1]; s.Player != "bad" || s.Forfeits != 4 || s.Losses != 4 || s.Why != c.want {
			t.Errorf("standing %+v, want four forfeits", s)
		}
	}
}

// Moves over the limit are counted for a player that has a limit.
func TestLate(t *testing.T) {
	m := newMatch(t, 1, 1, "policy", "negamax")
	m.Players[0].Limit = 1
	for _, g := range play(t, m, nil) {
		late, asked, other := g.FirstLate, g.FirstMoves, g.SecondLate
		if g.First != m.Players[0].Name {
			late, asked, other = g.SecondLate, g.SecondMoves, g.FirstLate
		}
		if late != asked || other != 0 || late == 0 {
			t.Errorf("%d of %d moves late, %d of the other's", late, asked, other)
		}
	}
}

// An interrupt abandons the games under way, forfeits none, and keeps the finished ones.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	moves := 0
	stuck := func(ctx context.Context, b *game.Board, p game.Position) (int, error) {
		mu.Lock()
		moves++
		last := moves > 40
		mu.Unlock()
		if last {
			cancel()
			<-ctx.Done()
			return 0, ctx.Err()
		}
		return first(ctx, b, p)
	}
	m := newMatch(t, 50, 3, "random", "random")
	m.Players[0] = player("stuck", stuck)
	var games []arena.Game
	err := m.Run(ctx, nil, func(g arena.Game) error { games = append(games, g); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want context.Canceled", err)
	}
	if len(games) == 0 || len(games) > 30 {
		t.Errorf("%d games finished", len(games))
	}
	for _, g := range games {
		if strings.HasPrefix(g.Reason, "forfeit") {
			t.Errorf("%+v", g)
		}
	}
}

// An error of done ends the match, and so does an agent that cannot be made.
func TestEnd(t *testing.T) {
	enough := errors.New("enough")
	m := newMatch(t, 50, 4, "random", "random")
	n := 0
	err := m.Run(t.Context(), nil, func(arena.Game) error {
		if n++; n == 5 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || n != 5 {
		t.Errorf("%d games, error %v; want 5 and %v", n, err, enough)
	}
	m.Players[1].New = func(uint64) (agent.Agent, error) { return nil, enough }
	if err := m.Run(t.Context(), nil, func(arena.Game) error { return nil }); !errors.Is(err, enough) || !strings.Contains(err.Error(), "player random#2") {
		t.Errorf("error %v, want player random#2 and %v", err, enough)
	}
}

// Openings leave the game open, are distinct up to mirror images, and a longer list begins with the shorter one.
func TestRandomOpenings(t *testing.T) {
	boards := gametest.Boards()
	if testing.Short() {
		boards = boards[:3]
	}
	for _, b := range boards {
		plies := arena.DefaultPlies(b)
		openings, distinct, err := arena.RandomOpenings(b, plies, 40, 1)
		if err != nil || len(openings) != 40 {
			t.Fatalf("%v: %d openings, %v", b.Rules(), len(openings), err)
		}
		seen := map[game.Position]bool{}
		for _, moves := range openings[:distinct] {
			p, _, err := b.ParseMoves(game.FormatMoves(b.Rules(), moves))
			if err != nil || len(moves) != plies || b.Result(p) != game.Ongoing {
				t.Fatalf("%v: opening %v: %v", b.Rules(), moves, err)
			}
			key, _ := b.Canonical(p)
			if seen[key] {
				t.Errorf("%v: opening %v is there twice", b.Rules(), moves)
			}
			seen[key] = true
			for l := b.Legal(p); plies > 0 && !l.IsZero(); l = l.WithoutFirst() {
				if b.Won(p.Own.Or(l.LowBit())) || b.Won(p.Other().Or(l.LowBit())) {
					t.Errorf("%v: after %v a move wins at once", b.Rules(), moves)
				}
			}
		}
		shorter, _, err := arena.RandomOpenings(b, plies, 7, 1)
		if diff := gocmp.Diff(openings[:7], shorter); err != nil || diff != "" {
			t.Errorf("%v: 7 openings are not the first of 40: %v %s", b.Rules(), err, diff)
		}
		other, _, err := arena.RandomOpenings(b, plies, 40, 2)
		if err != nil || plies > 0 && gocmp.Equal(openings, other) {
			t.Errorf("%v: another seed, the same openings (%v)", b.Rules(), err)
		}
	}
	b := game.MustBoard(game.Connect4)
	openings, distinct, err := arena.RandomOpenings(b, 1, 10, 1)
	if err != nil || distinct != 4 || !slices.Equal(openings[0], openings[4]) {
		t.Errorf("%d distinct openings of one ply, %v; want 4, then the first again", distinct, err)
	}
	if _, _, err := arena.RandomOpenings(b, 42, 1, 1); err == nil || !strings.Contains(err.Error(), "want 0 to 41") {
		t.Errorf("42 plies: %v", err)
	}
	if _, _, err := arena.RandomOpenings(game.MustBoard(game.Rules{Rows: 2, Columns: 2, InARow: 2, Gravity: true}), 2, 1, 1); err == nil || !strings.Contains(err.Error(), "none on 2x2x2") {
		t.Errorf("no opening at all: %v", err)
	}
}

// RandomOpenings finds exactly the positions in which, according to the solver, neither side has a forced win soon. On 5x4 it looks
// seven plies ahead.
func TestQuiet(t *testing.T) {
	b := game.MustBoard(game.Rules{Rows: 4, Columns: 5, InARow: 4, Gravity: true})
	const plies, ahead = 6, 7
	if testing.Short() {
		t.Skip("seconds under the race detector, and one goroutine")
	}
	exact, err := solver.New(b, solver.Options{TableMiB: 8})
	gametest.OK(t, err)
	quiet := map[game.Position]bool{}
	var walk func(p game.Position)
	walk = func(p game.Position) {
		key, _ := b.Canonical(p)
		if _, known := quiet[key]; known || b.Result(p) != game.Ongoing {
			return
		}
		if p.Plies() < plies {
			for l := b.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
				walk(b.PlayCell(p, l.LowBit()))
			}
			return
		}
		r := gametest.Must(exact.Solve(t.Context(), p))(t)
		// The score of a win with stone n is (cells + 1 - stones before it) / 2. The side to move sets stones 7, 9, ..
		score := func(n int) int { return (b.Cells() + 2 - n) / 2 }
		open := r.Score < score(plies+ahead) && -r.Score < score(plies+ahead-1)
		for l := b.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
			open = open && !b.Won(p.Own.Or(l.LowBit())) && !b.Won(p.Other().Or(l.LowBit()))
		}
		quiet[key] = open
	}
	walk(game.Position{})
	all := 0
	for _, open := range quiet {
		if open {
			all++
		}
	}
	openings, distinct, err := arena.RandomOpenings(b, plies, len(quiet), 1)
	gametest.OK(t, err)
	for _, moves := range openings[:distinct] {
		p, _, err := b.ParseMoves(game.FormatMoves(b.Rules(), moves))
		gametest.OK(t, err)
		if key, _ := b.Canonical(p); !quiet[key] {
			t.Errorf("opening %v is decided", moves)
		}
	}
	t.Logf("%d openings of %d, of %d positions", distinct, all, len(quiet))
	if distinct < all*95/100 || all == len(quiet) {
		t.Errorf("%d openings found of %d", distinct, all)
	}
}

func TestParseOpening(t *testing.T) {
	b, free := game.MustBoard(game.Connect4), game.MustBoard(game.TicTacToe)
	for _, c := range []struct {
		board *game.Board
		text  string
		want  []int
	}{{b, "44554", []int{3, 3, 4, 4, 3}}, {b, "7x6x4:44", []int{3, 3}}, {b, "-", nil}, {free, "3x3x3free:51", []int{4, 0}}} {
		if got, err := arena.ParseOpening(c.board, c.text); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", c.text, got, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"1212121":               "the game is over",
		"448":                   "move 3",
		"9x5x4:44":              "is of 9x5x4, the match of 7x6x4",
		"nonsense:44":           "rules",
		"":                      "is empty",
		`{"board":[],"mark":1}`: "moves",
	} {
		if _, err := arena.ParseOpening(b, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Text that is accepted as an opening can be played, and survives formatting and parsing.
func FuzzParseOpening(f *testing.F) {
	for _, seed := range []string{"44554", "-", "7x6x4:44", "9x5x4:4455", "1212121", "x:"} {
		f.Add(seed)
	}
	b := game.MustBoard(game.Connect4)
	f.Fuzz(func(t *testing.T, text string) {
		moves, err := arena.ParseOpening(b, text)
		if err != nil {
			return
		}
		again, err := arena.ParseOpening(b, game.FormatNotation(b.Rules(), moves))
		if err != nil || !slices.Equal(moves, again) {
			t.Errorf("%q is %v, and read again %v (%v)", text, moves, again, err)
		}
	})
}
