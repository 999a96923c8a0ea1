package solver

import (
	"math/bits"

	"github.com/evald/evald/engine/game"
)

// general is the search for boards of more than 64 bits and for boards without gravity. It is plain alpha-beta with null windows on
// game.Board, with a table of whole positions and a test for wins one move ahead.
type general struct {
	board  *game.Board
	cells  int
	centre [game.MaxBits]int16 // number of lines through each cell
	table  []generalEntry      // its length is a power of two
	gen    uint32
	used   int
	count  uint64
	next   uint64          // count at which to poll
	frames [][]generalMove // indexed by depth

	columns  []game.Bits // the cells of each column; nil without gravity
	stride   int         // bits from a column to the next
	top, low game.Bits   // the upper and the lower cells of the pairs of each column, from the top; see geometry

	run      *run
	stopped  bool
	mirrored bool // a position and its mirror image share an entry
}

type generalEntry struct {
	key          game.Position
	lower, upper int16
	move         int16 // action on the key's board, or -1
	gen          uint32
}

type generalMove struct {
	cell    game.Bits
	threats game.Bits // threats of the mover after the move
	action  int
	order   int
}

func newGeneral(b *game.Board, bytes int) *general {
	const entryBytes = 48
	n := 1 << (bits.Len64(uint64(bytes)/entryBytes) - 1)
	g := &general{board: b, cells: b.Cells(), table: make([]generalEntry, n), gen: 1}
	for _, line := range b.Lines() {
		for l := line; !l.IsZero(); l = l.WithoutFirst() {
			g.centre[l.First()]++
		}
	}
	if b.Rules().Gravity {
		g.columns, g.stride = make([]game.Bits, b.Columns()), b.Rows()+1
		for l := b.Full(); !l.IsZero(); l = l.WithoutFirst() {
			i := l.First()
			pair := &g.low
			if (g.stride-2-i%g.stride)%2 == 0 {
				pair = &g.top
			}
			*pair = pair.Or(l.LowBit())
			column := &g.columns[i/g.stride]
			*column = column.Or(l.LowBit())
		}
	}
	g.frames = make([][]generalMove, g.cells+1)
	for i := range g.frames {
		g.frames[i] = make([]generalMove, 0, b.Actions())
	}
	return g
}

func (g *general) reset() {
	g.used, g.count = 0, 0
	if g.gen++; g.gen == 0 {
		clear(g.table)
		g.gen = 1
	}
}

func (g *general) nodes() uint64 { return g.count }
func (g *general) fill() float64 { return float64(g.used) / float64(len(g.table)) }

func (g *general) prove(r *run, p game.Position, alpha int) (value, action int) {
	g.run, g.stopped, g.next = r, false, r.pollAt(g.count)
	b, other := g.board, p.Other()
	empty := b.Full().AndNot(p.All)
	g.mirrored = p.Own.And(b.Mirror(game.Position{Own: other, All: other}).All).IsZero()
	return g.search(p, b.Completes(p.Own).And(empty), b.Completes(other).And(empty), alpha, 0)
}

// search is like worker.search, and also returns the action that failed high, or -1. mine and theirs are the empty cells that complete a
// line of the mover and of the opponent.
func (g *general) search(p game.Position, mine, theirs game.Bits, alpha, ply int) (value, action int) {
	g.count++
	if g.count >= g.next {
		g.stopped = g.run.poll()
		g.next = g.run.pollAt(g.count)
		g.run.report(g.count)
	}
	left := g.cells - p.Plies()
	if left == 0 {
		return 0, -1
	}
	safe, value, done := g.look(p, mine, theirs, alpha, left)
	if done {
		return value, -1
	}
	key, mirrored := p, false
	if g.mirrored {
		key, mirrored = g.board.Canonical(p)
	}
	e := &g.table[key.Hash()&uint64(len(g.table)-1)]
	hint := -1
	if e.gen == g.gen && e.key == key {
		if ply > 0 && int(e.lower) > alpha {
			return int(e.lower), -1
		}
		if int(e.upper) <= alpha {
			return int(e.upper), -1
		}
		hint = g.turn(int(e.move), mirrored)
	}
	moves := g.moves(p, safe, hint, left, g.frames[ply])
	best, action := -g.cells, -1
	for i := range moves {
		m := &moves[i]
		v, _ := g.search(g.board.PlayCell(p, m.cell), theirs.AndNot(m.cell), m.threats, -alpha-1, ply+1)
		if g.stopped {
			return 0, -1
		}
		best = max(best, -v)
		if best > alpha {
			action = m.action
			break
		}
	}
	g.store(e, key, best, alpha, g.turn(action, mirrored))
	return best, action
}

// look settles a position without search if the mover wins at once, if every move loses at once, or if bounds from the open lines and the
// remaining cells lie on one side of alpha. Otherwise it returns the moves after which the opponent cannot win at once.
func (g *general) look(p game.Position, mine, theirs game.Bits, alpha, left int) (safe game.Bits, value int, done bool) {
	b := g.board
	legal := b.Legal(p)
	if !legal.And(mine).IsZero() {
		return safe, (left + 1) / 2, true
	}
	if safe = b.SafeFrom(legal, theirs); safe.IsZero() {
		return safe, -left / 2, true
	}
	empty := b.Full().AndNot(p.All)
	upper, lower := (left-1)/2, -left/2
	if upper > alpha {
		upper = g.upper(p, theirs, empty, legal, alpha, left, upper)
	}
	if lower < 0 && alpha < 0 && !b.Won(p.Other().Or(empty)) {
		lower = 0
	}
	if upper <= alpha {
		return safe, upper, true
	}
	return safe, lower, lower > alpha
}

// upper returns an upper bound proved by the follow-up strategy (see worker.staticUpper), or most if the strategy proves none at or below
// alpha.
func (g *general) upper(p game.Position, theirs, empty, landing game.Bits, alpha, left, most int) int {
	if g.columns == nil { // no gravity
		if alpha >= 0 && !g.board.Won(p.Own.Or(empty)) {
			return 0
		}
		return most
	}
	class, other := g.top, g.low
	if left&1 != 0 {
		class, other = g.low, g.top
	}
	reach := empty.And(g.low).Or(landing)
	for threats := theirs.And(class).AndNot(landing); !threats.IsZero(); threats = threats.WithoutFirst() {
		i := threats.First()
		column, above := g.columns[i/g.stride], g.stride-2-i%g.stride
		value := -(above + 2) / 2
		if value > alpha {
			continue
		}
		below := threats.LowBit().Below().And(column)
		if !g.board.Won(p.Own.Or(reach.AndNot(column)).Or(below.And(empty).And(other.Or(landing)))) {
			return value
		}
	}
	if left&1 != 0 {
		reach = empty
	}
	if alpha >= 0 && !g.board.Won(p.Own.Or(reach)) {
		return 0
	}
	return most
}

// moves writes the safe moves to dst in the order in which to try them: first the hint. Then a move is better if it makes lines with one
// stone missing (above all on cells that the mover gets by parity), if it leaves few safe replies, and if it lies on many lines.
func (g *general) moves(p game.Position, safe game.Bits, hint, left int, dst []generalMove) []generalMove {
	b := g.board
	class := g.top
	if left&1 == 0 {
		class = g.low
	}
	for l := safe; !l.IsZero(); l = l.WithoutFirst() {
		cell := l.LowBit()
		i := cell.First()
		all := p.All.Or(cell)
		m := generalMove{cell: cell, action: b.Action(i), threats: b.Completes(p.Own.Or(cell)).And(b.Full()).AndNot(all)}
		replies := b.SafeFrom(b.Legal(game.Position{All: all}), m.threats).OnesCount()
		m.order = (m.threats.OnesCount()+m.threats.And(class).OnesCount())<<8 + int(g.centre[i])*10 - replies*50
		if m.action == hint {
			m.order += 1 << 30
		}
		j := len(dst)
		dst = append(dst, m)
		for ; j > 0 && dst[j-1].order < m.order; j-- {
			dst[j] = dst[j-1]
		}
		dst[j] = m
	}
	return dst
}

// turn converts an action from the position's board to the key's, or back: it mirrors a if mirrored is true. -1 stays -1.
func (g *general) turn(a int, mirrored bool) int {
	if a < 0 || !mirrored {
		return a
	}
	return g.board.MirrorAction(a)
}

func (g *general) store(e *generalEntry, key game.Position, best, alpha, move int) {
	if e.gen != g.gen {
		g.used++
	}
	if e.gen != g.gen || e.key != key {
		*e = generalEntry{key: key, lower: int16(-g.cells), upper: int16(g.cells), move: -1, gen: g.gen}
	}
	if best > alpha {
		e.lower, e.move = max(e.lower, int16(best)), int16(move)
	} else {
		e.upper = min(e.upper, int16(best))
	}
}
