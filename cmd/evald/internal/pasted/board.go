package pasted

import (
	"strconv"
	"strings"

	"github.com/evald/evald/engine/game"
)

// list is a list of numbers: the cells of a board, row by row from the top left, or moves.
type list struct {
	numbers []int
	rows    int // number of inner lists; 0: none
}

// readList reads numbers between commas or in brackets, also in the brackets of rows, as Python,
// numpy and JSON write them. It reports whether the text is such a list.
func readList(text string) (l list, ok bool) {
	for _, name := range []string{"np.array", "array"} {
		if inner, found := strings.CutPrefix(text, name+"("); found {
			text = strings.TrimSuffix(inner, ")")
		}
	}
	if !strings.HasPrefix(text, "[") && !strings.Contains(text, ",") {
		return list{}, false
	}
	depth := 0
	for rest := text; rest != ""; {
		switch rest[0] {
		case '[':
			if depth++; depth == 2 {
				l.rows++
			}
		case ']':
			depth--
		case ',', ' ', '\t', '\r', '\n':
		default:
			end := strings.IndexAny(rest, "[], \t\r\n")
			if end < 0 {
				end = len(rest)
			}
			n, err := strconv.Atoi(rest[:end])
			if err != nil {
				return list{}, false
			}
			l.numbers, rest = append(l.numbers, n), rest[end:]
			continue
		}
		rest = rest[1:]
		if depth < 0 || depth > 2 {
			return list{}, false
		}
	}
	return l, depth == 0
}

// isBoard reports whether the numbers are the cells of a board rather than moves. No move is 0, and
// no game on a board has as many moves as it has cells and all of them in the first two columns.
func (l list) isBoard(b *game.Board) bool {
	all := true // cells
	for _, n := range l.numbers {
		if n == 0 {
			return true
		}
		all = all && n <= 2
	}
	return l.rows > 0 || len(l.numbers) == b.Cells() && all
}

// moves returns the numbers as moves in a notation of engine/game.
func (l list) moves() string {
	var all []string
	for _, n := range l.numbers {
		all = append(all, strconv.Itoa(n))
	}
	return strings.Join(all, ",")
}

// rules returns the rules of a board that is given without any: those of Connect Four, of the size
// that its rows have.
func (l list) rules() game.Rules {
	r := game.Connect4
	if l.rows > 0 {
		r.Rows, r.Columns = l.rows, len(l.numbers)/l.rows
	}
	return r
}

// game returns moves that lead to the board, with player mark to move.
func (l list) game(rules game.Rules, mark int) (Game, error) {
	rules, err := game.ParseRules(rules.String()) // refuses rules under which neither side can win
	if err != nil {
		return Game{}, err
	}
	b, err := game.NewBoard(rules)
	if err != nil {
		return Game{}, err
	}
	s, err := b.FromKaggle(l.numbers, mark)
	if err != nil {
		return Game{}, err
	}
	if odd := s.InTurn(); odd != nil {
		return Game{}, odd
	}
	moves, err := order(s)
	return Game{Board: b, Moves: moves}, err
}

// mover returns the player to move, according to the numbers of stones.
func (l list) mover() int {
	more := 0
	for _, n := range l.numbers {
		switch n {
		case 1:
			more++
		case 2:
			more--
		}
	}
	if more > 0 {
		return 2
	}
	return 1
}
