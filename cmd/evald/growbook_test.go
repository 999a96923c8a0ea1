package main

import (
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts/opening"
)

// A book grows by games from a start, for a time, and the same command extends it. Its positions follow the start.
func TestGrowBook(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.book")
	// The board is too large for the games of a second to leave nothing new to search.
	args := strings.Fields("grow-book --agent uct-bitsquares:sims=100 --rules 8x7x4 --from 33 --time 1s " + path)
	last := 0
	for range 2 {
		out := must(t, "", args...)
		b := gametest.Must(opening.Load(path))(t)
		said := regexp.MustCompile(`: (\d+) positions of 8x7x4, before (\d+), after [1-9]\d* games in [12]s\n$`).FindStringSubmatch(out)
		if said == nil || said[1] != fmt.Sprint(b.Positions()) || said[2] != fmt.Sprint(last) || b.Positions() <= last {
			t.Errorf("%d positions after %d: %s", b.Positions(), last, out)
		}
		last = b.Positions()
	}
	b, board := gametest.Must(opening.Load(path))(t), gametest.Must(new(game.Boards).Parse("8x7x4"))(t)
	start, _, err := board.ParseMoves("33")
	gametest.OK(t, err)
	if _, ok := b.Move(start); !ok {
		t.Error("the book has no move at the start")
	}
	if v, ok := b.Value(game.Position{}); ok {
		t.Errorf("the empty board is not after the start, and has value %v", v)
	}
	for want, args := range map[string]string{
		"without time and book":                               "grow-book --agent uct-bitsquares:time=1s",
		"want an agent that searches a tree":                  "grow-book --agent alphabeta-bitsquares",
		`want an agent that searches a tree (mcts, gumbel, `:  "grow-book --agent solver:random=true",
		"is for 8x7x4, and this is 7x6x4":                     "grow-book --agent uct:sims=9",
		"--from 1212121: the game is over":                    "grow-book --from 1212121",
		`--from 9: moves "9": move 1 is "9", not one of 1 to`: "grow-book --from 9",
		"--time 0s: must be 1s to 8760h":                      "grow-book --time 0s",
	} {
		wrong := exitUsage
		if strings.HasPrefix(want, "is for") {
			wrong = exitBadInput
		}
		refuses(t, wrong, want, "", append(strings.Fields(args), path)...)
	}
}

// A book whose process is killed is whole, with what was found until some seconds before, and grows on.
func TestGrowBookKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.book")
	const args = "grow-book --agent uct-bitsquares:sims=100 --rules 4x4x4 --threads 1 a.book"
	program := killedProgram(dir, args+" --time 1h")
	gametest.OK(t, program.Start())
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	var there *opening.Book
	for there == nil {
		select {
		case err := <-ended:
			t.Fatalf("the program ended: %v", err)
		case <-time.After(50 * time.Millisecond): // the first save
			there, _ = opening.Load(path)
		}
	}
	gametest.OK(t, program.Process.Kill())
	if err := <-ended; err == nil {
		t.Error("the program was not killed")
	}
	killed := gametest.Must(opening.Load(path))(t).Positions()
	if killed < there.Positions() || killed < 10 {
		t.Errorf("%d positions after the kill, %d before", killed, there.Positions())
	}
	gametest.OK(t, killedProgram(dir, args+" --time 1s").Run())
	if grown := gametest.Must(opening.Load(path))(t).Positions(); grown < killed {
		t.Errorf("%d positions, before %d", grown, killed)
	}
}

// The results of games are backed up to their beginning: on a small board the start gets its exact value, which no search of a few visits finds.
func TestGrowBookBacksUp(t *testing.T) {
	t.Parallel()
	board := gametest.Must(new(game.Boards).Parse("3x3x3"))(t) // a draw
	book := opening.New(board)
	g := &bookGames{growingBook: &growingBook{Book: book, saved: time.Now().Add(time.Hour)}, board: board, progress: newProgress(io.Discard, 0)}
	a := gametest.Must(agent.New(gametest.Must(agent.Parse("uct-bitsquares:sims=5"))(t), agent.Shared{Searched: book.Add}))(t)
	first := 0.0
	for before := -1; book.Positions() > before; {
		before = book.Positions()
		gametest.OK(t, g.one(t.Context(), a, gametest.Rand(1)))
		if g.games == 1 {
			first, _ = book.Value(game.Position{})
		}
	}
	if last, ok := book.Value(game.Position{}); !ok || last != 0 || first == 0 {
		t.Errorf("the start has value %v after a game and %v (%t) after %d games, want another one and 0", first, last, ok, g.games)
	}
}
