package score

import (
	"errors"
	"fmt"
	"strings"

	"github.com/evald/evald/engine/short"
)

// LeftOut is a comment line in a file of positions. It tells how many of the positions drawn with a given number of stones are missing,
// because their scores would take more nodes than the solver's limit.
type LeftOut struct{ Stones, Drawn, Left int }

// leftOutWords is the text that identifies such a line.
const leftOutWords = "take more nodes and are left out"

func (l LeftOut) String() string {
	return fmt.Sprintf("# of %d positions of %d stones, %d "+leftOutWords, l.Drawn, l.Stones, l.Left)
}

// comment parses a blank line or a comment.
func (r *Reader) comment(text string) error {
	if !strings.Contains(text, leftOutWords) {
		return nil
	}
	var l LeftOut
	_, err := fmt.Sscanf(text, "# of %d positions of %d stones, %d", &l.Drawn, &l.Stones, &l.Left)
	if err != nil || l.String() != text || l.Stones < 0 || l.Left < 1 || l.Left > l.Drawn {
		return fmt.Errorf("%s is damaged: want # of N positions of N stones, N %s", short.Quote(text), leftOutWords)
	}
	for _, other := range r.LeftOut {
		if other.Stones == l.Stones {
			return fmt.Errorf("%s: a line before it is of %d stones, too", short.Quote(text), l.Stones)
		}
	}
	r.LeftOut = append(r.LeftOut, l)
	return nil
}

// Solved is the number of drawn positions within a range of stones, and the number of these that have scores.
type Solved struct {
	Stones string `json:"stones"` // "0-13"
	Drawn  int    `json:"drawn"`
	Solved int    `json:"solved"`
}

// AddSolved counts a file's positions, which are of one game, and its LeftOut lines, by thirds of the number of stones, and adds the counts
// to to (nil for the first file of a game). It returns an error if LeftOut lines contradict the positions.
func AddSolved(to []Solved, positions []Position, left []LeftOut) ([]Solved, error) {
	if len(positions) == 0 {
		return to, errors.New("no positions")
	}
	board := positions[0].State.Board
	cells := board.Cells()
	third := func(stones int) int { return min(2, 3*stones/cells) }
	if to == nil {
		// begin is the lowest number of stones that third maps to i.
		begin := func(i int) int { return (i*cells + 2) / 3 }
		for i := range 3 {
			to = append(to, Solved{Stones: fmt.Sprintf("%d-%d", begin(i), begin(i+1)-1)})
		}
	}
	there := make([]int, cells+1) // number of positions by number of stones
	for _, p := range positions {
		if p.State.Board.Rules() != board.Rules() {
			return nil, fmt.Errorf("line %d is of %v, and others are of %v", p.Line, p.State.Board.Rules(), board.Rules())
		}
		there[p.State.Plies()]++
	}
	for _, l := range left {
		if l.Stones > cells || there[l.Stones] != l.Drawn-l.Left {
			n := 0
			if l.Stones <= cells {
				n = there[l.Stones]
			}
			return nil, fmt.Errorf("is damaged: it has %d positions of %d stones, but says that of %d, %d are left out", n, l.Stones, l.Drawn, l.Left)
		}
		to[third(l.Stones)].Drawn += l.Left
	}
	for stones, n := range there {
		to[third(stones)].Drawn += n
		to[third(stones)].Solved += n
	}
	return to, nil
}
