package solver

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/evald/evald/engine/internal/prefetch"
)

// node is a position of the fast search, seen from the side to move (the mover). After advance it is quiet: the mover cannot win at once,
// the opponent has no threat that must be blocked, and there are at least two moves.
type node struct {
	own, all  uint64
	win, lose uint64 // empty cells that complete a line: win for the mover, lose for the opponent
	moves     uint64 // moves after which the opponent cannot win at once
	mixed     uint64 // table key
	stones    int32
	mirrored  bool  // the key is that of the mirror image
	flip      bool  // the mover is not the mover of the parent
	cell      uint8 // the move that led here, and its column
	column    uint8
	order     int32 // see rank
}

type worker struct {
	*geometry
	table    *table
	nodes    uint64
	next     uint64       // number of nodes at which to poll
	frames   []node       // for each ply, one node per column
	mirrored bool         // keys are the smaller of the key and the mirror image's key
	history  [2][64]int32 // [stones&1][cell]: rises when the cell refutes a position, falls when it fails to
	rootMove int          // cell of the move that failed high at ply 0; -1 if none did

	busy   *busy
	shared bool // more than one worker
	leader bool // this worker reports progress

	run     *run
	fast    *fast
	flushed atomic.Uint64 // node count that other threads may read
	stopped bool          // the search is unwinding: values are meaningless
}

// pollEvery is the number of nodes between two polls of stop and done. They take well under a millisecond in all.
const pollEvery = 1024

func (w *worker) poll() {
	w.flushed.Store(w.nodes)
	w.stopped = w.run.poll() || w.fast.done.Load()
	w.next = w.run.pollAt(w.nodes)
	if w.leader {
		w.run.report(w.fast.nodes())
	}
}

// key returns the mixed table key, and whether it is that of the mirror image. own+all is unique: in a column of n stones it is between
// 2^n-1 and 2^(n+1)-2, so it determines n, and then which stones are own (compare the keys of Tromp and Pons).
func (w *worker) key(own, all uint64) (mixed uint64, mirrored bool) {
	k := own + all
	if w.mirrored {
		if m := w.board.MirrorWord(k); m < k {
			return w.table.mix(m), true
		}
	}
	return w.table.mix(k), false
}

// stored converts a column from the position to the table's key, or back: it mirrors the column if the key is that of the mirror image.
func (w *worker) stored(n *node, column int) int {
	if n.mirrored && column < int(w.columns) {
		return int(w.columns) - 1 - column
	}
	return column
}

// quiet returns the moves after which the other side cannot win at once; it is empty if every move loses. lose is the set of cells that
// complete a line of the other side.
func quiet(landing, lose uint64) uint64 {
	if forced := landing & lose; forced != 0 {
		if forced&(forced-1) != 0 {
			return 0
		}
		landing = forced
	}
	return landing &^ (lose >> 1)
}

// advance plays cell from n and then forced replies, until the game is over or the mover has a choice. If done is true, value is the game's
// value for n's mover; otherwise c is the quiet position.
//
// At each forced reply, the mover cannot win at once, so a mover without a safe move loses at the next ply.
func (w *worker) advance(n, c *node, cell uint64) (value int, done bool) {
	own, all := n.own|cell, n.all|cell
	win, lose := w.threats(own)&^all&w.full, n.lose&^cell
	stones := int(n.stones) + 1
	flip := true
	for {
		// own belongs to the side that has just played; the other side is to move.
		landing := w.landing(all)
		moves := quiet(landing, win)
		if moves&(moves-1) != 0 {
			c.own, c.all = all^own, all
			c.win, c.lose = lose, win
			c.moves = moves
			c.stones, c.flip = int32(stones), flip
			return 0, false
		}
		if moves == 0 {
			if stones == w.cells {
				return 0, true
			}
			value = (w.cells - stones) / 2 // own wins on its next move: (cells+1 - (stones+1)) / 2
			if !flip {
				value = -value
			}
			return value, true
		}
		own, all = all^own|moves, all|moves
		win, lose = w.threats(own)&^all&w.full, win&^moves
		stones++
		flip = !flip
	}
}

// search decides whether n's value for its mover exceeds alpha. It returns a lower bound on the value if it does, otherwise an upper bound.
//
// n must be quiet, except that the root may have a single move. ply is the depth of the recursion. hint is a column to try first; a number
// that is not a column means none.
func (w *worker) search(n *node, alpha, ply, hint int) int {
	if w.nodes++; w.nodes >= w.next {
		w.poll()
	}
	frame := w.frames[ply*int(w.columns):][:w.columns]
	count := 0
	best := -w.cells
	for moves := n.moves; moves != 0; moves &= moves - 1 {
		c := &frame[count]
		cell := moves & -moves
		i := bits.TrailingZeros64(cell)
		value, done := w.advance(n, c, cell)
		if !done {
			value, done = w.bound(c, alpha)
		}
		if done {
			if value > alpha {
				w.failHigh(ply, i)
				return value
			}
			best = max(best, value)
			continue
		}
		c.cell = uint8(i)
		c.column = uint8(uint(i) / w.stride)
		c.mixed, c.mirrored = w.key(c.own, c.all)
		b, _ := w.table.at(c.mixed)
		prefetch.Line(unsafe.Pointer(b))
		c.order = w.rank(n, c, i)
		if int(c.column) == hint {
			c.order += 1 << 20
		}
		count++
	}
	var sorted [32]uint32
	left := 0
	for k := range count {
		c := &frame[k]
		if word := w.table.probe(c.mixed); word != 0 {
			value, done := w.probed(c, word, alpha)
			if done {
				if value > alpha {
					w.failHigh(ply, int(c.cell))
					return value
				}
				best = max(best, value)
				continue
			}
		}
		// Insertion sort in descending order; equal moves keep their order.
		v := uint32(c.order+1<<22)<<8 | uint32(k)
		j := left
		for ; j > 0 && sorted[(j-1)&31]>>8 < v>>8; j-- {
			sorted[j&31] = sorted[(j-1)&31]
		}
		sorted[j&31] = v
		left++
	}
	before := w.nodes
	move := int(w.table.moveMask) // no move
	best, k := w.try(frame, sorted[:left], alpha, best, ply)
	if w.stopped {
		return 0
	}
	if best > alpha {
		c := &frame[sorted[k&31]&0xff]
		w.failHigh(ply, int(c.cell))
		w.learn(n, frame, sorted[:k+1])
		move = w.stored(n, int(c.column))
	}
	best = min(max(best, -w.table.bias), w.table.bias)
	lower, upper := -w.table.bias, w.table.bias
	if best > alpha {
		lower = best
	} else {
		upper = best
	}
	w.table.store(n.mixed, lower, upper, move, w.nodes-before)
	return best
}

// try searches the moves in order until one fails high. It returns the bound, which is at least best, and that move's index.
func (w *worker) try(frame []node, order []uint32, alpha, best, ply int) (value, k int) {
	deferred := uint32(0)
	for pass := range 2 {
		for k, o := range order {
			if pass == 1 && deferred>>(k&31)&1 == 0 {
				continue
			}
			c := &frame[o&0xff]
			mark := w.shared && w.cells-int(c.stones) >= busyLeft
			if mark && pass == 0 && k > 0 && w.busy.has(c.mixed) {
				deferred |= 1 << (k & 31)
				continue
			}
			value := w.descend(c, alpha, ply, mark)
			if w.stopped {
				return 0, 0
			}
			best = max(best, value)
			if value > alpha {
				return best, k
			}
		}
		if deferred == 0 {
			break
		}
	}
	return best, 0
}

// descend returns the value of the child c for the parent's mover, from the table if that suffices.
func (w *worker) descend(c *node, alpha, ply int, mark bool) int {
	hint := -1
	if word := w.table.probe(c.mixed); word != 0 {
		if value, done := w.probed(c, word, alpha); done {
			return value
		}
		hint = w.stored(c, w.table.move(word))
	}
	if mark {
		w.busy.enter(c.mixed)
		defer w.busy.leave(c.mixed)
	}
	if c.flip {
		return -w.search(c, -alpha-1, ply+1, hint)
	}
	return w.search(c, alpha, ply+1, hint)
}

// learn raises the history of the last tried move, which failed high, and lowers that of the others.
func (w *worker) learn(n *node, frame []node, tried []uint32) {
	if len(tried) == 1 {
		return
	}
	h := &w.history[n.stones&1]
	for k, o := range tried {
		x := &h[frame[o&0xff].cell&63]
		if k == len(tried)-1 {
			*x += historyStep - *x>>historyDecay
		} else {
			*x -= historyStep + *x>>historyDecay
		}
	}
}

// A history value stays within ±(historyStep << historyDecay).
const (
	historyStep  = 4096
	historyDecay = 6
	historyLeft  = 24 // with more empty cells, the history misleads
)

// failHigh stores the root's move.
func (w *worker) failHigh(ply, cell int) {
	if ply == 0 {
		w.rootMove = cell
	}
}

// probed returns the bound that a table word contains on c's value for the parent's mover, and whether it settles the window.
func (w *worker) probed(c *node, word uint64, alpha int) (value int, done bool) {
	lower, upper := w.table.lower(word), w.table.upper(word)
	if c.flip {
		lower, upper = -upper, -lower
	}
	if lower > alpha {
		return lower, true
	}
	return upper, upper <= alpha
}

// rank orders moves; a higher rank is tried earlier. Its parts, in descending weight: the lines with one stone missing, doubled if the
// mover gets that cell by parity (the low cells of the pairs if the number of empty cells is even, else the top ones); the number of the
// opponent's safe replies, fewer being better, and none if the reply was forced; the number of lines through the cell; and how often the
// cell has refuted other positions or, where the history misleads, how much better the mover's open lines are than the opponent's.
func (w *worker) rank(n, c *node, cell int) int32 {
	mine, stones := c.lose, c.all^c.own
	if !c.flip {
		mine, stones = c.win, c.own
	}
	left := w.cells - int(n.stones)
	class := w.top
	if left&1 == 0 {
		class = w.low
	}
	threats := bits.OnesCount64(mine) + bits.OnesCount64(mine&class)
	order := threats<<8 + int(w.centre[cell&63])*10
	if c.flip {
		order -= bits.OnesCount64(c.moves) * 50
	}
	if left <= historyLeft {
		order += int(w.history[n.stones&1][cell&63] >> 13)
	} else if w.four {
		empty := w.full &^ c.all
		order += w.openLines(stones, empty) - w.openLines(c.all^stones, empty)
	}
	return int32(order)
}
