package review

import "github.com/evald/evald/engine/game"

// How says how a line is decided.
type How string

// Values of How.
const (
	Open     How = "open"     // the line is not proved to its end
	Drawn    How = "draw"     // the board is full
	AtOnce   How = "at-once"  // the first stone of the line completes a line
	Double   How = "double"   // the winner threatens two playable cells, and the other side can take only one
	Stacked  How = "stacked"  // the other side must take a cell below another cell in which the winner completes a line
	Zugzwang How = "zugzwang" // every move of the other side is below a cell in which the winner completes a line
)

// Ending says how and where a line is decided. Cells are bits of the board.
type Ending struct {
	How   How
	Side  int       // the winner; 0 moved first
	At    int       // number of moves of the line after which it is decided, with the loser to move; 0 for AtOnce
	Cells game.Bits // cells in which the winner then threatens to complete a line; for Zugzwang only those just above the loser's moves
	Last  int       // the cell in which the winner completes the line
}

// ending finds how a line of legal moves is decided.
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
	p := line[n-2] // before the loser's last move
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

// Threats returns for each side, 0 moved first, the empty cells in which its stone would complete a line.
func Threats(b *game.Board, p game.Position) (cells [2]game.Bits) {
	empty := b.Full().AndNot(p.All)
	side := p.Plies() % 2
	cells[side] = b.Completes(p.Own).And(empty)
	cells[1-side] = b.Completes(p.Other()).And(empty)
	return cells
}
