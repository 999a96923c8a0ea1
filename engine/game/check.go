package game

import (
	"fmt"
	"math/bits"
)

// Strictness is the set of conditions that Check tests. Each level includes all levels before it.
type Strictness int

// The levels.
const (
	// Placed: own stones are among all stones, every stone is in a cell of the board, and with gravity no stone floats. All evaluators can
	// evaluate such a position.
	Placed Strictness = iota
	// InTurn: the side to move has as many stones as the other side, or one less. It has no line, because the other side moved last. Check
	// does not test further whether a game can reach the position.
	InTurn
)

// StonesError lists all faults of a position that Check found at its level.
type StonesError struct {
	Alone      Bits // own stones that are not among all stones
	Outside    Bits // stones in no cell of the board
	Floating   Bits // stones on the board with an empty cell below them; none without gravity
	Own, Other int  // numbers of stones of the two sides
	Uneven     bool // the numbers are not those of sides that take turns
	Won        bool // the side to move has a line, which the level forbids
	Swapped    bool // the position is valid with the sides exchanged
}

// Placed reports whether the position is valid at level Placed.
func (e *StonesError) Placed() bool { return e.Alone.Or(e.Outside).Or(e.Floating).IsZero() }

func (e *StonesError) Error() string {
	text := ""
	switch {
	case !e.Alone.IsZero():
		return "own has a stone that all has not: all is the stones of both sides"
	case !e.Outside.IsZero():
		return "a stone is off the board"
	case !e.Floating.IsZero():
		return "a stone has nothing below it: is the board upside down?"
	case e.Uneven:
		text = fmt.Sprintf("%s of the side to move, %s of the other side: no game reaches this", stones(e.Own), stones(e.Other))
	default:
		text = "the side to move has a line already: the game was over before the last stone"
	}
	if e.Swapped {
		text += "; are the sides swapped? the side to move comes first"
	}
	return text
}

// stones is a number of stones in words.
func stones(n int) string {
	switch n {
	case 0:
		return "none"
	case 1:
		return "1 stone"
	}
	return fmt.Sprint(n, " stones")
}

// Check returns nil, or a *StonesError with the faults of a position's stones.
func (b *Board) Check(p Position, s Strictness) error {
	_, err := b.CheckAll([]Position{p}, s)
	return err
}

// CheckAll checks each position. It returns the index and the error of the first invalid one.
func (b *Board) CheckAll(pos []Position, s Strictness) (int, error) {
	full, ground, d := b.full.Lo, b.ground.Lo, b.shifts
	for i, p := range pos {
		if b.four { // inline, because every row of every request is checked
			own, all := p.Own.Lo, p.All.Lo
			bad := p.Own.Hi | p.All.Hi | own&^all | all&^(full&(all<<1|ground))
			more := bits.OnesCount64(all) - 2*bits.OnesCount64(own) // the other side's stones minus those of the side to move
			lines := line4(own, 1) | line4(own, d[1]) | line4(own, d[2]) | line4(own, d[3])
			if bad == 0 && (s < InTurn || uint(more) <= 1 && lines == 0) {
				continue
			}
		}
		if e := b.check(p, s); e != nil {
			e.Swapped = b.check(Position{Own: p.Other(), All: p.All}, s) == nil
			return i, e
		}
	}
	return 0, nil
}

func (b *Board) check(p Position, s Strictness) *StonesError {
	e := StonesError{
		Alone: p.Own.AndNot(p.All), Outside: p.All.AndNot(b.full),
		Floating: p.All.And(b.full).AndNot(p.All.Shl(1).Or(b.ground)),
		Own:      p.Own.OnesCount(), Other: p.Other().OnesCount(),
	}
	if s >= InTurn {
		e.Uneven = e.Own != e.Other && e.Own != e.Other-1
		e.Won = b.Won(p.Own.And(b.full))
	}
	if e.Placed() && !e.Uneven && !e.Won {
		return nil
	}
	found := e // allocated only if there is a fault
	return &found
}
