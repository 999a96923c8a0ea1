// Package puzzle makes, rates and classifies puzzles: positions in which exactly one move keeps the result, a win or a draw. It finds them
// in games of package sample, rates them by the amount of search that finds the move, and reads and writes files of them. The file that
// ships is embedded.
//
//	puzzle.go   Puzzle, and excluded positions
//	theme.go    the theme of a puzzle
//	rate.go     the difficulty of a puzzle
//	make.go     Make: from the seed to puzzles
//	file.go     the file's format, and the file that ships
//
// # Excluded positions
//
// The rules decide the move if the side to move wins with its next stone, must block the other side's next stone, or has only one move
// after which the other side cannot win with its next stone. Then there is nothing to find. In a lost position there is no result to keep.
//
// # Ratings
//
// A search without probes, with the bitsquares heuristic, searches the position with up to MostVisits visits. The rating depends on the
// number of visits from which on the search always plays the correct move: Least + PerDoubling for each doubling of that number. So a
// puzzle whose move is found at once has the rating Least. Ratings order puzzles as Elo ratings do, and visitors get a rating on the same
// scale, but the scale is this program's own: it was not fitted to people.
//
// # The file that ships
//
// This command makes shipped.txt.gz:
//
//	evald puzzles -o engine/puzzle/shipped.txt.gz --rules 7x6x4 --count 10000 --seed 1
package puzzle

import (
	"github.com/evald/evald/engine/game"
)

// Puzzle is a position and the only move that keeps its result.
type Puzzle struct {
	Board  *game.Board
	Moves  []int       // from the empty board to the position
	Move   int         // the action to find
	Result game.Result // that the move keeps: Win or Draw
	Rating int         // from Least to Most
	Theme  Theme
}

// Position is the position to solve.
func (p *Puzzle) Position() game.Position { return p.Board.PlayMoves(p.Moves) }

// trivial reports whether the rules decide an unfinished position or its move (see "Excluded positions").
func trivial(b *game.Board, p game.Position) bool {
	threats := b.Legal(p).And(b.Completes(p.Other()))
	return !b.Wins(p).IsZero() || !threats.IsZero() || b.Safe(p).WithoutFirst().IsZero()
}
