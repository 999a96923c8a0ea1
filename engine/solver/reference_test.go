package solver

import "github.com/evald/evald/engine/game"

// minimax is the definition of the score (see the package comment) and nothing else: it plays every game to its end. The
// solver is tested against it. It is fast enough for a dozen empty cells.
func minimax(b *game.Board, p game.Position) int {
	left := b.Cells() - p.Plies()
	switch b.Result(p) {
	case game.Loss:
		return -(left + 2) / 2
	case game.Win:
		return (left + 2) / 2
	case game.Draw:
		return 0
	}
	best := -b.Cells()
	for legal := b.Legal(p); !legal.IsZero(); legal = legal.WithoutFirst() {
		best = max(best, -minimax(b, b.PlayCell(p, legal.LowBit())))
	}
	return best
}

// alphaBeta is minimax without the moves that cannot matter: exact within (alpha, beta), a bound outside (Knuth and Moore,
// 1975).
func alphaBeta(b *game.Board, p game.Position, alpha, beta int) int {
	if b.Result(p) != game.Ongoing {
		return minimax(b, p)
	}
	best := -b.Cells()
	for legal := b.Legal(p); !legal.IsZero() && best < beta; legal = legal.WithoutFirst() {
		best = max(best, -alphaBeta(b, b.PlayCell(p, legal.LowBit()), -beta, -max(alpha, best)))
	}
	return best
}
