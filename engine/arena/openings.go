package arena

import (
	"fmt"
	"math/rand/v2"

	"github.com/evald/evald/engine/game"
)

// DefaultPlies is the default length of random openings: 4 on 7x6, 0 on the smallest boards.
func DefaultPlies(b *game.Board) int { return min(8, b.Cells()/10) }

// RandomOpenings draws n openings of random legal moves. After each, the game is not over, neither side can win at once, and neither side
// wins by force within a few plies. No two openings are equal or mirror images. If there are fewer than n, the list repeats from its
// beginning; distinct is the number of different ones. A shorter list is the beginning of a longer one.
func RandomOpenings(b *game.Board, plies, n int, seed uint64) (openings [][]int, distinct int, err error) {
	if plies < 0 || plies >= b.Cells() {
		return nil, 0, fmt.Errorf("openings of %d plies: want 0 to %d on %v", plies, b.Cells()-1, b.Rules())
	}
	r := rand.New(rand.NewPCG(seed, 0x6f70656e696e67))
	seen := map[game.Position]bool{}
	const enough = 10000 // after this many draws without a new opening, there are no more, or they are very rare
	for misses := 0; len(openings) < n && misses < enough; misses++ {
		p, moves := randomMoves(r, b, plies)
		key, _ := b.Canonical(p)
		if seen[key] {
			continue
		}
		seen[key] = true
		if plies == 0 || len(moves) == plies && quiet(b, p) {
			openings = append(openings, moves)
			misses = 0
		}
	}
	distinct = len(openings)
	if distinct == 0 && n > 0 {
		return nil, 0, fmt.Errorf("openings of %d plies: none on %v leaves the game open; ask for fewer plies, or 0", plies, b.Rules())
	}
	for i := distinct; i < n; i++ {
		openings = append(openings, openings[i%distinct])
	}
	return openings, distinct, nil
}

// randomMoves plays random moves, fewer if the game ends.
func randomMoves(r *rand.Rand, b *game.Board, plies int) (p game.Position, moves []int) {
	for len(moves) < plies && b.Result(p) == game.Ongoing {
		legal := b.Legal(p)
		cell := legal.Nth(r.IntN(legal.OnesCount()))
		moves = append(moves, b.Action(cell.First()))
		p = b.PlayCell(p, cell)
	}
	return p, moves
}

// quiet reports whether the game is not over, neither side can win with the next stone, and neither wins by force soon.
func quiet(b *game.Board, p game.Position) bool {
	if b.Result(p) != game.Ongoing || !b.Legal(p).And(b.Completes(p.Own).Or(b.Completes(p.Other()))).IsZero() {
		return false
	}
	// The depth is chosen so that a search visits at most about 100 000 positions without pruning: 6 plies on 7 columns.
	depth := 1
	for size := 1; size*b.Actions() <= 150_000 && depth < b.Cells(); depth++ {
		size *= max(2, b.Actions())
	}
	return forced(b, p, depth-1) == 0
}

// forced is 1 if the side to move wins by force within the given number of plies, -1 if it loses, and 0 otherwise. The game must not be
// over.
func forced(b *game.Board, p game.Position, plies int) int {
	if plies == 0 {
		return 0
	}
	if !b.Wins(p).IsZero() {
		return 1
	}
	best := -1
	for l := b.Legal(p); !l.IsZero() && best < 1; l = l.WithoutFirst() {
		value := 0
		if child := b.PlayCell(p, l.LowBit()); child.All != b.Full() {
			value = -forced(b, child, plies-1)
		}
		best = max(best, value)
	}
	return best
}

// ParseOpening parses an opening: moves from the empty board, after the rules unless these are 7x6x4. The game must not be over after the
// moves.
func ParseOpening(b *game.Board, text string) ([]int, error) {
	rules, moves, err := game.CutRules(text)
	if err != nil {
		return nil, err
	}
	if rules != b.Rules() {
		return nil, fmt.Errorf("opening %s is of %v, the match of %v: write %v:%s", text, rules, b.Rules(), b.Rules(), moves)
	}
	p, actions, err := b.ParseMoves(moves)
	if err != nil {
		return nil, err
	}
	if b.Result(p) != game.Ongoing {
		return nil, fmt.Errorf("opening %s: the game is over", text)
	}
	return actions, nil
}
