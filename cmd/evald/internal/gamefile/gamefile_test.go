package gamefile

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/cmd/evald/internal/stream"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

const whole = `# A game of evald. Every command that reads positions reads it, and the page at /#POSITION.
# first: you
# second: strong
# result: first wins
# date: 2026-11-26
7x6x4:4151617
`

func TestFormat(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	_, moves, err := b.ParseMoves("4151617")
	gametest.OK(t, err)
	g := Game{Board: b, Moves: moves, First: "you", Second: "strong", Date: time.Date(2026, 11, 26, 23, 0, 0, 0, time.UTC)}
	if diff := cmp.Diff(whole, string(gametest.Must(g.Format())(t))); diff != "" {
		t.Error(diff)
	}
	g.First = "a\n7x6x4:1"
	if _, err := g.Format(); err == nil {
		t.Error("a name of two lines is written")
	}
}

func TestRead(t *testing.T) {
	g := gametest.Must(Read(strings.NewReader(whole)))(t)
	if again := string(gametest.Must(g.Format())(t)); again != whole || g.First != "you" || g.Second != "strong" {
		t.Errorf("read and written again:\n%s", again)
	}
	g = gametest.Must(Read(strings.NewReader("\ufeff# by hand\r\n\r\n 445 \r\n# result: unfinished\r\n")))(t)
	if got := game.FormatNotation(g.Board.Rules(), g.Moves); got != "445" || !g.Date.IsZero() || g.First != "" {
		t.Errorf("%+v", g)
	}
	for text, want := range map[string]string{
		"":                           "no line has a game",
		"# first: a":                 "no line has a game",
		"44\n55":                     `line 2: "55" follows the game`,
		"448":                        `move 3 is "8"`,
		"0x6x4:1":                    "line 1: ",
		"44 55":                      "line 1: ",
		"# result: draw\n44":         `the result is "draw", but by the moves it is unfinished`,
		"# date: yesterday\n44":      `line 1: date "yesterday": want a day`,
		"# first: a\x07\n44":         "line 1: a player's name",
		strings.Repeat("#\n", 40000): "more than 65536 bytes",
		"# second: " + strings.Repeat("x", 201) + "\n44": "must be at most 200",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

func TestResult(t *testing.T) {
	for moves, want := range map[string]string{"4151617": "first wins", "415161": "unfinished", "71414151": "second wins", "3x3x3free:519": "unfinished", "3x3x3free:513746289": "draw", "-": "unfinished"} {
		g, err := Read(strings.NewReader(moves))
		if err != nil || g.Result() != want {
			t.Errorf("%s: %v, want %s", moves, err, want)
		}
	}
}

// All commands that read positions read the file as one position.
func TestReadByCommands(t *testing.T) {
	lines, more, err := stream.NewReader(context.Background(), strings.NewReader(whole)).Next(nil, 10)
	if err != nil || more && len(lines) > 1 || len(lines) != 1 || lines[0].Text != "7x6x4:4151617" {
		t.Errorf("%+v, %v", lines, err)
	}
}

// Whatever is read can be written, and is then read as the same.
func FuzzRead(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("3x3x3free:51\n#first:\u00e9"))
	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		first := gametest.Must(g.Format())(t)
		if again := gametest.Must(gametest.Must(Read(bytes.NewReader(first)))(t).Format())(t); !bytes.Equal(first, again) {
			t.Fatalf("%s\nand again\n%s", first, again)
		}
	})
}
