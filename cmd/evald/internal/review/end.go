package review

import "github.com/evald/evald/engine/game"

// How is the way in which a line is decided.
type How string

// The ways in which lines end.
const (
	Open     How = "open"     // it is not proved to its end
	Drawn    How = "draw"     // the board is full
	AtOnce   How = "at-once"  // the first stone of the line completes a line
	Double   How = "double"   // the winner threatens two cells, of which the other side can take one
	Stacked  How = "stacked"  // the cell that must be taken lies below another one that completes a line
	Zugzwang How = "zugzwang" // every move that the other side has lies below a cell where the winner completes a line
)

// Ending says what decides a line. Cells are bits of the board.
type Ending struct {
	How   How
	Side  int       // the winner: 0 moved first
	At    int       // the number of moves of the line after which it is decided, with the other side to move; 0 of AtOnce
	Cells game.Bits // where the winner threatens to complete a line then; of Zugzwang those just above the moves that are left
	Last  int       // the cell in which the winner completes the line
}

// ending looks for what decides a line of legal moves.
func ending(b *game.Board, start game.Position, moves []int) Ending {
	line := []game.Position{start}
	last := -1
	for _, a := range moves {
		p := line[len(line)-1]
		last = b.Cell(p, a).First()
		line = append(line, b.Play(p, a))
	}
	n := len(moves)
	switch b.Result(line[n]) {
	case game.Ongoing:
		return Ending{How: Open, Last: -1}
	case game.Draw:
		return Ending{How: Drawn, Last: -1}
	}
	end := Ending{Side: (line[n].Plies() + 1) % 2, Last: last}
	if n < 2 {
		end.How = AtOnce
		return end
	}
	p := line[n-2] // the loser is to move for the last time
	end.At = n - 2
	empty := b.Full().AndNot(p.All)
	threats := b.Completes(p.Other()).And(empty)
	legal := b.Legal(p)
	now := threats.And(legal)
	switch {
	case !now.WithoutFirst().IsZero():
		end.How, end.Cells = Double, now
	case !now.IsZero():
		end.How, end.Cells = Stacked, now.Or(now.Shl(1).And(threats))
	default:
		end.How, end.Cells = Zugzwang, legal.Shl(1).And(threats)
	}
	return end
}

// Threats returns the empty cells in which each side, 0 moved first, would complete a line.
func Threats(b *game.Board, p game.Position) (cells [2]game.Bits) {
	empty := b.Full().AndNot(p.All)
	side := p.Plies() % 2
	cells[side] = b.Completes(p.Own).And(empty)
	cells[1-side] = b.Completes(p.Other()).And(empty)
	return cells
}
