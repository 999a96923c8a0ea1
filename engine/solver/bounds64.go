package solver

import "math/bits"

// bound tries to settle a quiet position c for the parent's window (alpha, alpha+1) without search. It returns a bound
// for the parent's mover and whether it settles the window.
func (w *worker) bound(c *node, alpha int) (value int, done bool) {
	if c.flip {
		alpha = -alpha - 1
	}
	// From here on alpha and value are for c's mover.
	left := w.cells - int(c.stones)
	value = (left - 1) / 2 // the mover wins with the next stone but one, at best
	if value > alpha {
		value, done = w.staticUpper(c, alpha, value)
	} else {
		done = true
	}
	if !done {
		value = -(left - 2) / 2 // the opponent wins with the second stone after this one, at best
		if alpha < 0 && value <= alpha && !w.won((w.full&^c.all)|(c.all^c.own)) {
			value = 0
		}
		done = value > alpha
	}
	if c.flip {
		value = -value
	}
	return value, done
}

// staticUpper is an upper bound that the follow-up strategy proves, and whether it is not above alpha.
//
// The opponent answers in the column where the mover played. If every column has an even number of empty cells, the
// opponent so gets the upper cell of each pair (claimeven: Allis, A Knowledge-Based Approach of Connect-Four, 1988)
// and the mover's lines must do with the lower ones. Two columns of odd height are joined: the stone at the foot of one
// is answered at the foot of the other, so that the mover may get either, and the rest are pairs again.
//
// Where the opponent holds a threat at cell x, the part of the column above x does not count: the column ends with
// the mover under x and the opponent winning on x. With pairs counted from x down the strategy works if the cells that
// are left, x included, are even in number. The mover, who has no line, runs out of other moves and loses.
func (w *worker) staticUpper(c *node, alpha, upper int) (value int, done bool) {
	left := w.cells - int(c.stones)
	empty := w.full &^ c.all
	landing := w.landing(c.all)
	class, other := w.top, w.low
	if left&1 != 0 {
		class, other = w.low, w.top
	}
	others := empty&w.low | landing // what the mover can get in columns that are paired from the top
	for threats := c.lose & class; threats != 0; threats &= threats - 1 {
		i := bits.TrailingZeros64(threats)
		value := -(int(w.above[i&63]) + 2) / 2
		if value > alpha {
			continue
		}
		mine := others&^w.column[i&63] | w.below[i&63]&empty&(other|landing)
		if !w.won(c.own | mine) {
			return value, true
		}
	}
	if alpha < 0 {
		return upper, false
	}
	if left&1 == 0 {
		if !w.won(c.own | others) {
			return 0, true
		}
	} else if !w.won(c.own | empty) {
		return 0, true
	}
	return upper, false
}
