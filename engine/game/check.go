package game

// Strictness says how much Check asks of a position. Each level asks for everything that the levels before it ask for.
type Strictness int

// The levels.
const (
	// Placed: own stones are among all stones, every stone is in a cell of the board, and with gravity no stone floats.
	Placed Strictness = iota
	// Paired: neither side has two stones more than the other. Either side may be to move: the mark of an observation is
	// believed even if it disagrees with the stones.
	Paired
	// InTurn: the side to move has as many stones as the other side, or one less.
	InTurn
)

// StonesError is all that is wrong with a position, as far as Check was asked.
type StonesError struct {
	Alone    Bits // own stones that are not among all stones
	Outside  Bits // stones in no cell of the board
	Floating Bits // stones on the board with an empty cell below them; none without gravity
	Uneven   bool // the numbers of stones are not those of the level
}

func (e *StonesError) Error() string {
	switch {
	case !e.Alone.IsZero():
		return "own has a stone that all has not"
	case !e.Outside.IsZero():
		return "a stone is off the board"
	case !e.Floating.IsZero():
		return "a stone has nothing below it"
	}
	return "the sides' numbers of stones cannot come of moves in turn"
}

// Check says what is wrong with the stones of a position, as a *StonesError, or returns nil. It does not ask whether a
// line was completed before the last stone: Result looks at lines.
func (b *Board) Check(p Position, s Strictness) error {
	e := StonesError{Alone: p.Own.AndNot(p.All), Outside: p.All.AndNot(b.full)}
	if b.rules.Gravity {
		e.Floating = p.All.And(b.full).AndNot(p.All.Shl(1)).AndNot(b.bottom)
	}
	if s >= Paired {
		more := p.Own.OnesCount() - p.Other().OnesCount()
		e.Uneven = more < -1 || more > 1 || s == InTurn && more == 1
	}
	if e.Alone.Or(e.Outside).Or(e.Floating).IsZero() && !e.Uneven {
		return nil
	}
	found := e // on the heap only if something is wrong: Check sees every row of every request
	return &found
}
