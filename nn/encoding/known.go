package encoding

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
)

// known is a position with a proved result, a win or a loss.
type known struct {
	position game.Position
	won      bool
	good     game.Bits // landing cells of the moves that keep the result
}

// Sizes of the set of known positions.
const (
	perClass    = 64   // of each class: mover and result
	minKnown    = 64   // with fewer, no conclusion is possible
	lateCells   = 32   // maximum number of empty cells on boards of more than 42, so that the nodes suffice
	probeNodes  = 1000 // of the solver: for the result, and for each move
	maxAttempts = 60 * perClass
)

// findKnown returns positions from random play whose results the solver proves, the same ones at each call. Half of each player's positions
// are won, so that a network that can only tell the players apart is right in half of them.
func findKnown(ctx context.Context, b *game.Board) ([]known, error) {
	prober, err := solver.NewProber(b, probeNodes)
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(uint64(b.Cells()), 1))
	var found [2][2][]known // by mover, by won
	seen := map[game.Position]bool{}
	full := func(mover int) bool { return len(found[mover][0]) >= perClass && len(found[mover][1]) >= perClass }
	for range maxAttempts {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("check the description: %w", err)
		}
		if full(0) && full(1) {
			break
		}
		least, most := max(b.Cells()/4, b.Cells()-lateCells), b.Cells()*7/8
		p := play(random, b, least+random.IntN(most-least+1))
		key, _ := b.Canonical(p)
		if mover := p.Mover() - 1; full(mover) || seen[key] {
			continue
		}
		seen[key] = true
		result, moves := prober.Moves(p, true)
		if won := result == game.Win; won && !moves.IsZero() || result == game.Loss {
			class := 0
			if won {
				class = 1
			}
			if of := &found[p.Mover()-1][class]; len(*of) < perClass {
				*of = append(*of, known{p, won, moves})
			}
		}
	}
	var all []known
	for _, classes := range found {
		n := min(len(classes[0]), len(classes[1]))
		all = append(append(all, classes[0][:n]...), classes[1][:n]...)
	}
	return all, nil
}

// play returns the position after the given number of random moves, or after fewer if nearly all moves end the game.
func play(random *rand.Rand, b *game.Board, plies int) (p game.Position) {
	for range plies {
		legal := b.Legal(p)
		next, tries := p, 0
		for next == p || b.Result(next) != game.Ongoing {
			if tries++; tries > 10 {
				return p
			}
			next = b.PlayCell(p, legal.Nth(random.IntN(legal.OnesCount())))
		}
		p = next
	}
	return p
}
