package solver

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/evald/evald/engine/game"
)

// general is the search for boards of more than 64 bits and for boards without gravity: plain alpha-beta with null windows
// over game.Board, a table that holds whole positions, and a look one move ahead for wins.
type general struct {
	board  *game.Board
	cells  int
	centre [game.MaxBits]int16 // number of lines through each cell
	table  []generalEntry      // its length is a power of two
	gen    uint32
	used   int
	count  uint64
	next   uint64          // count at which to poll
	frames [][]generalMove // by depth

	run     *run
	stopped bool
}

type generalEntry struct {
	key          game.Position
	lower, upper int16
	move         int16 // action on the key's board, or -1
	gen          uint32
}

type generalMove struct {
	cell   game.Bits
	action int
	order  int
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
	return g.search(p, alpha, 0)
}

// search is the same as worker.search, and also returns the action that failed high, or -1.
func (g *general) search(p game.Position, alpha, ply int) (value, action int) {
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
	moves, value, done := g.moves(p, alpha, left, g.frames[ply])
	if done {
		return value, -1
	}
	key, mirrored := g.board.Canonical(p)
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
	for i := range moves {
		if moves[i].action == hint {
			moves[i].order = 1 << 30
		}
	}
	slices.SortFunc(moves, func(a, b generalMove) int { return cmp.Compare(b.order, a.order) })
	best, action := -g.cells, -1
	for _, m := range moves {
		v, _ := g.search(g.board.PlayCell(p, m.cell), -alpha-1, ply+1)
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

// moves collects in dst the moves after which the opponent cannot win at once, unless the value is settled without search:
// the mover wins, the opponent has two winning cells, or a bound from the lines still open and the cells left lies on one
// side of alpha.
func (g *general) moves(p game.Position, alpha, left int, dst []generalMove) (moves []generalMove, value int, done bool) {
	b := g.board
	legal, other := b.Legal(p), p.Other()
	if !legal.And(b.Completes(p.Own)).IsZero() {
		return nil, (left + 1) / 2, true
	}
	switch forced := legal.And(b.Completes(other)); forced.OnesCount() {
	case 0:
	case 1:
		legal = forced
	default:
		return nil, -left / 2, true
	}
	empty := b.Full().AndNot(p.All)
	upper, lower := (left-1)/2, -left/2
	if upper > 0 && !b.Won(p.Own.Or(empty)) {
		upper = 0
	}
	if lower < 0 && !b.Won(other.Or(empty)) {
		lower = 0
	}
	if upper <= alpha {
		return nil, upper, true
	}
	if lower > alpha {
		return nil, lower, true
	}
	for l := legal; !l.IsZero(); l = l.WithoutFirst() {
		cell := l.LowBit()
		i := cell.First()
		dst = append(dst, generalMove{cell: cell, action: b.Action(i), order: int(g.centre[i])})
	}
	return dst, 0, false
}

// turn converts an action between the position's board and the key's: it mirrors a if mirrored is true. -1 stays -1.
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
