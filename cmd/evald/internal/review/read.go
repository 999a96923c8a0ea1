package review

import (
	"fmt"
	"strings"

	"github.com/evald/evald/cmd/evald/internal/gamefile"
	"github.com/evald/evald/engine/game"
)

// MaxText is the maximum length of a game's text in bytes. The longest replay on a board of 128 bits is shorter, unless it has superfluous
// spaces.
const MaxText = 128 << 10

// Read reads a game in any of four forms: its moves (4455, or with the rules of another game 9x5x4:4455), a link to the page that contains
// them, a replay of Kaggle, or the file of a game (package gamefile). An error about an illegal move names the move. Errors are of type
// *game.ParseError.
func Read(text string) (*game.Board, []int, error) {
	if len(text) > MaxText {
		return nil, nil, &game.ParseError{Field: "game", Value: text, Reason: fmt.Sprintf("is longer than %d bytes", MaxText)}
	}
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "{") {
		return readReplay([]byte(text))
	}
	if strings.HasPrefix(text, "# ") {
		g, err := gamefile.Read(strings.NewReader(text))
		if err != nil {
			return nil, nil, &game.ParseError{Field: "game", Value: text, Reason: err.Error()}
		}
		return g.Board, g.Moves, nil
	}
	if _, after, link := strings.Cut(text, "#"); link {
		text = after
	}
	text = strings.TrimPrefix(text, "review=")
	text, _, _ = strings.Cut(text, "&") // in a link the players follow
	rules, moves, err := game.CutRules(strings.ReplaceAll(strings.TrimSpace(text), "%3A", ":"))
	if err != nil {
		return nil, nil, err
	}
	b, err := game.NewBoard(rules)
	if err != nil {
		return nil, nil, err
	}
	_, actions, err := b.ParseMoves(moves)
	if err != nil {
		return nil, nil, err
	}
	return b, actions, nil
}
