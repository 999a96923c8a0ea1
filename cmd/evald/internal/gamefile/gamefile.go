// Package gamefile reads and writes the file of a game, which is plain text:
//
//	# A game of evald. Every command that reads positions reads it, and the page at /#POSITION.
//	# first: you
//	# second: strong
//	# result: first wins
//	# date: 2026-11-26
//	7x6x4:4151617
//
// The last line is the game in evald's notation: rules and moves. The lines before it are comments for all other commands of evald, so eval,
// search and solve answer the game's last position. Read also reads the comments that begin with one of the four names. Other comments are
// allowed, and any of the four may be missing. The result must fit the moves.
package gamefile

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
)

// Game is the content of a file.
type Game struct {
	Board  *game.Board
	Moves  []int     // legal
	First  string    // the name of the player who moved first; empty if unknown
	Second string    // the name of the other player
	Date   time.Time // the day of the game; zero if unknown
}

// Limits of a file and of a player's name, in bytes.
const (
	mostBytes = 64 << 10
	mostName  = 200
)

const head = "A game of evald. Every command that reads positions reads it, and the page at /#POSITION."

// Result returns "first wins", "second wins", "draw" or "unfinished".
func (g *Game) Result() string {
	var p game.Position
	for _, a := range g.Moves {
		p = g.Board.Play(p, a)
	}
	switch {
	case g.Board.Result(p) == game.Draw:
		return "draw"
	case g.Board.Result(p) == game.Ongoing:
		return "unfinished"
	case len(g.Moves)%2 == 1:
		return "first wins"
	}
	return "second wins"
}

// CheckName returns an error if a player's name is too long or is not one line without blanks around it.
func CheckName(name string) error {
	switch {
	case len(name) > mostName:
		return fmt.Errorf("a player's name has %d bytes, must be at most %d", len(name), mostName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || strings.TrimSpace(name) != name:
		return fmt.Errorf("a player's name is %s, must be one line of text without blanks around it", short.Quote(name))
	}
	return nil
}

// Format returns the file of a game. An error is about a player's name.
func (g *Game) Format() ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# %s\n", head)
	for _, player := range []struct{ side, name string }{{"first", g.First}, {"second", g.Second}} {
		if err := CheckName(player.name); err != nil {
			return nil, err
		}
		if player.name != "" {
			fmt.Fprintf(&out, "# %s: %s\n", player.side, player.name)
		}
	}
	fmt.Fprintf(&out, "# result: %s\n", g.Result())
	if !g.Date.IsZero() {
		fmt.Fprintf(&out, "# date: %s\n", g.Date.Format(time.DateOnly))
	}
	rules := g.Board.Rules()
	fmt.Fprintf(&out, "%v:%s\n", rules, game.FormatMoves(rules, g.Moves))
	return out.Bytes(), nil
}

// Read reads the file of a game. The error names the line.
func Read(in io.Reader) (*Game, error) {
	text, err := io.ReadAll(io.LimitReader(in, mostBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > mostBytes:
		return nil, fmt.Errorf("the file of a game has more than %d bytes", mostBytes)
	}
	g, result, n := &Game{}, "", 0
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		n++
		line = strings.TrimSpace(line)
		comment, isComment := strings.CutPrefix(line, "#")
		switch {
		case line == "":
			err = nil
		case isComment:
			err = g.note(comment, &result)
		case g.Board != nil:
			err = fmt.Errorf("%s follows the game; a file has one game", short.Quote(line))
		default:
			err = g.parse(line)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	switch {
	case g.Board == nil:
		return nil, fmt.Errorf("no line has a game, such as 7x6x4:4455")
	case result != "" && result != g.Result():
		return nil, fmt.Errorf("the result is %s, but by the moves it is %s", short.Quote(result), g.Result())
	}
	return g, nil
}

// note reads a comment if it begins with one of the four names.
func (g *Game) note(comment string, result *string) (err error) {
	name, value, _ := strings.Cut(comment, ":")
	value = strings.TrimSpace(value)
	switch strings.TrimSpace(name) {
	case "first":
		g.First, err = value, CheckName(value)
	case "second":
		g.Second, err = value, CheckName(value)
	case "result":
		*result = value
	case "date":
		if g.Date, err = time.Parse(time.DateOnly, value); err != nil {
			return fmt.Errorf("date %s: want a day, such as 2026-11-26", short.Quote(value))
		}
	}
	return err
}

func (g *Game) parse(line string) error {
	rules, moves, err := game.CutRules(line)
	if err != nil {
		return err
	}
	if g.Board, err = game.NewBoard(rules); err != nil {
		return err
	}
	_, g.Moves, err = g.Board.ParseMoves(moves)
	return err
}
