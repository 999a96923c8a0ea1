package solver

import "math/bits"

// bound tries to settle the parent's window (alpha, alpha+1) for a quiet position c without search. It returns a bound on the value for the
// parent's mover, and whether the bound settles the window.
func (w *worker) bound(c *node, alpha int) (value int, done bool) {
	if c.flip {
		alpha = -alpha - 1
	}
	// From here on alpha and value are for c's mover.
	left := w.cells - int(c.stones)
	value = (left - 1) / 2 // at best, the mover wins with its second stone from now
	if value > alpha {
		value, done = w.staticUpper(c, alpha, value)
	} else {
		done = true
	}
	if !done {
		value = -(left - 2) / 2 // at worst, the opponent wins with its second stone from now
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

// staticUpper returns an upper bound on the mover's value, proved by the opponent's follow-up strategy, and whether the bound is at most
// alpha.
//
// The strategy: the opponent answers in the column in which the mover played. If every column has an even number of empty cells, the
// opponent gets the upper cell of each pair (claimeven: Allis, A Knowledge-Based Approach of Connect-Four, 1988), and the mover can build
// lines only from the lower cells. Two columns with an odd number of empty cells are joined: the opponent answers a stone in the lowest
// cell of one in the lowest cell of the other. So the mover may get either of these two cells; the cells above them are pairs again.
//
// If the opponent has a threat at cell x, the part of the column above x does not count: the column ends with the mover's stone below x and
// the opponent's win on x. With pairs counted from x down, the strategy works if the number of remaining cells, including x, is even. A
// mover without a line then runs out of other moves and loses.
func (w *worker) staticUpper(c *node, alpha, upper int) (value int, done bool) {
	left := w.cells - int(c.stones)
	empty := w.full &^ c.all
	landing := w.landing(c.all)
	class, other := w.top, w.low
	if left&1 != 0 {
		class, other = w.low, w.top
	}
	others := empty&w.low | landing // cells that the mover can get in columns that are paired from the top
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
