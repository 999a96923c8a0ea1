// Package pasted reads games and positions in the forms in which people have them, for the fields
// of the page.
//
// Read the files in this order:
//
//	read.go    Read; moves and links
//	object.go  JSON objects: observations, answers of evald, and replays of Kaggle (replay.go)
//	board.go   boards as lists of numbers
//	order.go   an order of moves that leads to a board
package pasted

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/evald/evald/cmd/evald/internal/gamefile"
	"github.com/evald/evald/engine/game"
)

// MaxText is the maximum length of a game's text in bytes. The longest replay on a board of 128
// bits is shorter, unless it has superfluous spaces.
const MaxText = 128 << 10

// Game is a game, or a position with moves that lead to it.
type Game struct {
	Board   *game.Board
	Moves   []int // legal
	Ordered bool  // whether the text has the order of the moves; a board has none, and Moves is an order that leads to it
}

// Read reads a game in any of these forms:
//
//   - its moves, 4455 or 4,4,5,5, or with the rules of another game 9x5x4:4455
//   - a link to the page or to a picture, or the part of it from its # on
//   - an observation of Kaggle as JSON or as Python prints it, or its board alone, as a list of numbers with or without rows
//   - a line of evald's answers, which has the position as a field
//   - a replay of Kaggle
//   - the file of a game (package gamefile)
//
// If a move is illegal, Read returns the game up to that move beside the error. Errors are of type
// *game.ParseError.
func Read(text string) (Game, error) {
	if len(text) > MaxText {
		return Game{}, &game.ParseError{Field: "game", Value: text, Reason: fmt.Sprintf("is longer than %d bytes", MaxText)}
	}
	text = strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(text, "{"), strings.HasPrefix(text, "[{"):
		return readObject(text)
	case strings.HasPrefix(text, "# "):
		g, err := gamefile.Read(strings.NewReader(text))
		if err != nil {
			return Game{}, &game.ParseError{Field: "game", Value: text, Reason: err.Error()}
		}
		return Game{g.Board, g.Moves, true}, nil
	}
	place, err := cutLink(text)
	if err != nil {
		return Game{}, err
	}
	if strings.HasPrefix(place, "{") || strings.HasPrefix(place, "[{") {
		return readObject(place)
	}
	return readMoves(place)
}

// cutLink returns the position of a link: #7x6x4:4455&red=person&yellow=strong, the same with a
// view (#explore=7x6x4:4455) or after an address, or the address of a picture
// (/ui/position.svg?position=7x6x4:4455). It returns other texts unchanged.
func cutLink(text string) (string, error) {
	address, place, link := strings.Cut(text, "#")
	if !link {
		if _, query, found := strings.Cut(address, "?"); found {
			if values, err := url.ParseQuery(query); err == nil && values.Has("position") {
				return strings.TrimSpace(values.Get("position")), nil
			}
		}
		place = text
	}
	place, _, _ = strings.Cut(place, "&") // the players follow
	if plain, err := url.PathUnescape(place); err == nil {
		place = plain
	}
	if view, after, found := strings.Cut(place, "="); found && letters(view) {
		place = after
	}
	place = strings.TrimSpace(place)
	if link && letters(place) {
		return "", wrong("link", text, "names no position")
	}
	return place, nil
}

// letters reports whether a text consists of small letters, as the names of the page's views do. It
// may be empty.
func letters(text string) bool {
	return strings.Trim(text, "abcdefghijklmnopqrstuvwxyz") == ""
}

// beside matches a comma with the blanks beside it.
var beside = regexp.MustCompile(`\s*,\s*`)

// readMoves reads moves or a list of numbers, with or without rules before them.
func readMoves(text string) (Game, error) {
	rules, moves, err := game.CutRules(text)
	if err != nil {
		return Game{}, err
	}
	b, err := game.NewBoard(rules)
	if err != nil {
		return Game{}, err
	}
	switch list, ok := readList(moves); {
	case ok && list.isBoard(b):
		if moves == text { // no rules are given
			rules = list.rules()
		}
		return list.game(rules, list.mover())
	case ok && strings.HasPrefix(moves, "["):
		moves = list.moves()
	default:
		moves = beside.ReplaceAllString(moves, ",")
	}
	_, actions, err := b.ParseMoves(moves)
	return Game{b, actions, true}, err
}
