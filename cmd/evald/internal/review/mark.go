package review

import "github.com/evald/evald/engine/game"

// Kind is what a move gives away.
type Kind string

// The kinds of moves. The last three are those that are not wholly known.
const (
	Best      Kind = "best"      // nothing is given away
	WinDraw   Kind = "win-draw"  // a win becomes a draw
	WinLoss   Kind = "win-loss"  // a win becomes a loss
	DrawLoss  Kind = "draw-loss" // a draw becomes a loss
	Slower    Kind = "slower"    // a win takes Mark.By more moves of the winner's
	Sooner    Kind = "sooner"    // the loss comes earlier, by Mark.By moves of the winner
	Worse     Kind = "worse"     // something is given away, and it is not proved what
	Kept      Kind = "kept"      // the result is kept, and it is not proved whether a move is lost
	NotProved Kind = "unproved"  // it is not proved whether the result is kept
)

// Mark is what a move gives away.
type Mark struct {
	Kind    Kind
	By      int  // moves, of Slower and Sooner; else 0
	AtLeast bool // By is a bound
}

// Mistake reports whether the move is proved to give something away.
func (m Mark) Mistake() bool {
	return m.Kind != Best && m.Kind != Kept && m.Kind != NotProved
}

// Lost reports whether the move is proved to give the result away.
func (m Mark) Lost() bool {
	return m.Kind == WinDraw || m.Kind == WinLoss || m.Kind == DrawLoss
}

// markOf compares the score of a position with that of the move that was made there, both for the side that made it.
func markOf(best, made Bounds) Mark {
	before, after := best.Result(), made.Result()
	switch {
	case before == game.Ongoing || after == game.Ongoing:
		if best.Low > made.High {
			return Mark{Kind: Worse}
		}
		return Mark{Kind: NotProved}
	case before == game.Win && after == game.Draw:
		return Mark{Kind: WinDraw}
	case before == game.Win && after == game.Loss:
		return Mark{Kind: WinLoss}
	case before == game.Draw && after == game.Loss:
		return Mark{Kind: DrawLoss}
	}
	least, most := best.Low-made.High, best.High-made.Low // a move of the winner's is a point of the score
	switch {
	case before == game.Draw || most <= 0:
		return Mark{Kind: Best}
	case least <= 0:
		return Mark{Kind: Kept}
	case before == game.Win:
		return Mark{Kind: Slower, By: least, AtLeast: least < most}
	}
	return Mark{Kind: Sooner, By: least, AtLeast: least < most}
}
