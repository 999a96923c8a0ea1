package review

import "github.com/evald/evald/engine/game"

// Kind says what a move gives away.
type Kind string

// Kinds of moves. The last three are for moves about which not everything is proved.
const (
	Best      Kind = "best"      // nothing is given away
	WinDraw   Kind = "win-draw"  // a win becomes a draw
	WinLoss   Kind = "win-loss"  // a win becomes a loss
	DrawLoss  Kind = "draw-loss" // a draw becomes a loss
	Slower    Kind = "slower"    // the winner needs Mark.By more moves
	Sooner    Kind = "sooner"    // the winner needs Mark.By fewer moves
	Worse     Kind = "worse"     // something is given away, but it is not proved what
	Kept      Kind = "kept"      // the result is kept, but it is not proved whether time is lost
	NotProved Kind = "unproved"  // it is not proved whether the result is kept
)

// Mark says what a move gives away, and how much.
type Mark struct {
	Kind    Kind
	By      int  // by how many of the winner's moves the game becomes longer (Slower) or shorter (Sooner); else 0
	AtLeast bool // By is a lower bound
}

// Mistake reports whether the move is proved to give something away.
func (m Mark) Mistake() bool {
	return m.Kind != Best && m.Kind != Kept && m.Kind != NotProved
}

// Lost reports whether the move is proved to give the result away.
func (m Mark) Lost() bool {
	return m.Kind == WinDraw || m.Kind == WinLoss || m.Kind == DrawLoss
}

// markOf compares the score of a position with the score after the move, both for the side that made the move.
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
	least, most := best.Low-made.High, best.High-made.Low // a point of the score is one move of the winner
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
