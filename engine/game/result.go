package game

// Result is the state of the game for the side to move.
type Result uint8

// The results. After a winning move the side to move sees a Loss.
const (
	Ongoing Result = iota
	Win
	Draw
	Loss
)

func (r Result) String() string { return [...]string{"ongoing", "win", "draw", "loss"}[r] }

// Flip is the result for the other side.
func (r Result) Flip() Result { return [...]Result{Ongoing, Loss, Draw, Win}[r] }

// Value is 1 for a win, -1 for a loss, and 0 for a draw or an ongoing game.
func (r Result) Value() float32 { return [...]float32{Win: 1, Loss: -1}[r] }

// ResultOf is the result of a solver's score for the side to move: above 0 a win, 0 a draw, below 0 a loss.
func ResultOf(score int) Result {
	switch {
	case score > 0:
		return Win
	case score < 0:
		return Loss
	}
	return Draw
}

// WDL is the result as probabilities 0 and 1 of win, draw and loss; all are 0 if the game is ongoing.
func (r Result) WDL() (wdl [3]float32) {
	if r != Ongoing {
		wdl[r-Win] = 1 // Win, Draw and Loss are in this order
	}
	return wdl
}

// The gameover codes are the results, for the side to move, in training records, in the service's output gameover and in a network's
// gameover head.
const (
	NotOver   = iota
	OwnWin    // the side to move has a line
	OtherWin  // the other side has a line
	Drawn     // the board is full
	GameOvers // number of codes
)

// GameOver is the gameover code of a result.
func (r Result) GameOver() uint8 {
	return [...]uint8{Ongoing: NotOver, Win: OwnWin, Draw: Drawn, Loss: OtherWin}[r]
}
