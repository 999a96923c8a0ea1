// Package puzzle has puzzles: positions in which exactly one move keeps the result, a win or a draw. It makes them from self-play, rates
// them by the amount of search that finds the move, classifies them, and reads and writes their file. The file that ships is embedded.
//
//	puzzle.go   Puzzle, and excluded positions
//	theme.go    the theme of a puzzle
//	rate.go     the difficulty of a puzzle
//	make.go     Make: from the seed to puzzles
//	file.go     the file's format, and the file that ships
//
// # Excluded positions
//
// If the side to move wins with its next stone, or must block the other side's next stone, or all moves but one let the other side win with
// its next stone, the rules decide, and there is nothing to find. A lost position has no move to find either.
//
// # Ratings
//
// A search without probes, with the bitsquares heuristic, searches the position. The rating is derived from the number of visits after
// which the search plays the right move for good, up to MostVisits: Least + PerDoubling for each doubling. So a puzzle whose move is found
// at once has the rating Least. Ratings order puzzles as Elo ratings do, and visitors get a rating on the same scale, but the scale is this
// program's own: it was not fitted to people.
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
	Result game.Result // that it keeps: Win or Draw
	Rating int         // Least to Most
	Theme  Theme
}

// Position is the position to solve.
func (p *Puzzle) Position() game.Position { return p.Board.PlayMoves(p.Moves) }

// trivial reports whether the rules decide an unfinished position or its move (see "Excluded positions").
func trivial(b *game.Board, p game.Position) bool {
	threats := b.Legal(p).And(b.Completes(p.Other()))
	return !b.Wins(p).IsZero() || !threats.IsZero() || b.Safe(p).WithoutFirst().IsZero()
}
