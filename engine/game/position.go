package game

import (
	"cmp"
	"math/bits"
	"slices"
)

// Position is the stones on a board, seen from the side to move. The zero value is the empty board. It is a plain value of 32 bytes and can
// be a map key. Its Board is passed separately.
type Position struct {
	Own Bits // stones of the side to move
	All Bits // stones of both sides
}

// Other is the stones of the side that moved last.
func (p Position) Other() Bits { return p.All.Xor(p.Own) }

// Plies is the number of stones on the board, which is the number of moves so far.
func (p Position) Plies() int { return p.All.OnesCount() }

// Mover is the player to move, 1 or 2, derived from the number of stones.
func (p Position) Mover() int { return 1 + p.Plies()&1 }

// Compare orders positions by All, then by Own, as 128-bit numbers; files of positions are in this order.
func (p Position) Compare(q Position) int {
	return cmp.Or(
		cmp.Compare(p.All.Hi, q.All.Hi), cmp.Compare(p.All.Lo, q.All.Lo),
		cmp.Compare(p.Own.Hi, q.Own.Hi), cmp.Compare(p.Own.Lo, q.Own.Lo),
	)
}

// Legal is the set of cells in which the next stone can land. It does not check whether the game is over.
func (b *Board) Legal(p Position) Bits {
	if !b.rules.Gravity {
		return b.full.AndNot(p.All)
	}
	if !b.wide {
		return Bits{Lo: (p.All.Lo + b.bottom.Lo) & b.full.Lo}
	}
	return p.All.add(b.bottom).And(b.full)
}

// Cell is the cell in which the stone of action a lands, as a set of one cell. The set is empty if a is illegal.
// It panics if a is not in 0..Actions-1.
func (b *Board) Cell(p Position, a int) Bits {
	if !b.rules.Gravity {
		return b.cells[a].AndNot(p.All)
	}
	return p.All.add(b.drop[a]).And(b.cells[a])
}

// CanPlay reports whether a is an action of this board and its column or cell has room.
func (b *Board) CanPlay(p Position, a int) bool {
	return a >= 0 && a < len(b.cells) && !b.Cell(p, a).IsZero()
}

// Play returns the position after the side to move plays a, seen from the other side. It does not check that the action is legal (see
// CanPlay).
func (b *Board) Play(p Position, a int) Position {
	if b.wide {
		return Position{Own: p.All.Xor(p.Own), All: p.All.Or(b.Cell(p, a))}
	}
	all := p.All.Lo
	cell := b.cells64[a&63]
	if b.rules.Gravity {
		cell &= all + b.drop64[a&63]
	}
	return Position{Own: Bits{Lo: all ^ p.Own.Lo}, All: Bits{Lo: all | cell}}
}

// PlayMoves returns the position after legal moves from the empty board.
func (b *Board) PlayMoves(actions []int) (p Position) {
	for _, a := range actions {
		p = b.Play(p, a)
	}
	return p
}

// FromCentre lists all actions, from the middle columns outwards.
func (b *Board) FromCentre() []int {
	all := make([]int, b.Actions())
	for a := range all {
		all[a] = a
	}
	far := func(action int) int { // twice the distance of its column from the middle
		d := 2*(action%b.Columns()) - (b.Columns() - 1)
		return max(d, -d)
	}
	slices.SortStableFunc(all, func(x, y int) int { return far(x) - far(y) })
	return all
}

// PlayCell is Play for the cell in which the stone lands, one bit of Legal.
func (b *Board) PlayCell(p Position, cell Bits) Position {
	return Position{Own: p.All.Xor(p.Own), All: p.All.Or(cell)}
}

// Won reports whether the stones hold InARow in a line.
//
// After n-1 steps of stones &= stones >> d, the set bits are the cells at which a run of n begins. Doubling the shift at each step takes
// log2(n) steps instead.
func (b *Board) Won(stones Bits) bool {
	if b.four {
		return b.won4(stones.Lo)
	}
	if !b.wide {
		return b.won64(stones.Lo)
	}
	return b.won128(stones)
}

func (b *Board) won4(s uint64) bool {
	d := &b.shifts
	return line4(s, d[0])|line4(s, d[1])|line4(s, d[2])|line4(s, d[3]) != 0
}

// line4 is the set of cells of s at which a run of four begins; d is the distance in bits between neighbours.
func line4(s uint64, d uint) uint64 {
	m := s & (s >> (d & 63))
	return m & (m >> (2 * d & 63))
}

func (b *Board) won64(s uint64) bool {
	k := uint(b.rules.InARow)
	for _, step := range b.shifts {
		m, n := s, uint(1)
		for ; 2*n <= k; n *= 2 {
			m &= m >> (n * step)
		}
		if m&(m>>((k-n)*step)) != 0 {
			return true
		}
	}
	return false
}

func (b *Board) won128(s Bits) bool {
	k := uint(b.rules.InARow)
	for _, step := range b.shifts {
		m, n := s, uint(1)
		for ; 2*n <= k; n *= 2 {
			m = m.And(m.Shr(n * step))
		}
		if n < k {
			m = m.And(m.Shr((k - n) * step))
		}
		if !m.IsZero() {
			return true
		}
	}
	return false
}

// Wins is the set of legal cells in which the next stone wins at once.
func (b *Board) Wins(p Position) Bits { return b.Legal(p).And(b.Completes(p.Own)) }

// Safe is the set of legal cells after which the other side has no Wins. If the other side can complete a line on one legal cell, only that
// cell can be safe; if it can on two, none is. A cell below one on which it can complete a line is not safe.
func (b *Board) Safe(p Position) Bits {
	return b.SafeFrom(b.Legal(p), b.Completes(p.Other()).And(b.full))
}

// SafeFrom is Safe of a position with these legal cells. threats are the cells that complete a line of the other side; it may include
// occupied cells.
func (b *Board) SafeFrom(legal, threats Bits) Bits {
	safe := legal
	if now := safe.And(threats); !now.WithoutFirst().IsZero() {
		return Bits{}
	} else if !now.IsZero() {
		safe = now
	}
	if b.rules.Gravity {
		safe = safe.AndNot(threats.Shr(1))
	}
	return safe
}

// Completes is the set of bits that complete a line of InARow together with stones. It may include the bits of stones themselves, cells of
// the other side, and guard bits.
func (b *Board) Completes(stones Bits) Bits {
	switch {
	case b.wide:
		return completes(stones, b.rules.InARow, b.shifts[:])
	case b.rules.InARow == 4 && 3*(b.stride+1) < 64:
		cells := CompletesFour(stones.Lo, b.stride)
		if !b.rules.Gravity {
			cells |= along(stones.Lo, 1)
		}
		return Bits{Lo: cells}
	}
	return Bits{Lo: completes(stones, b.rules.InARow, b.shifts[:]).Lo}
}

// CompletesStraight is Completes for lines in columns and rows alone, without the diagonals.
func (b *Board) CompletesStraight(stones Bits) Bits {
	cells := completes(stones, b.rules.InARow, b.shifts[:2])
	if !b.wide {
		cells.Hi = 0
	}
	return cells
}

// completes is Completes for k in a row. For each j, it finds bits with j stones on one side and k-1-j on the other.
func completes(stones Bits, k int, shifts []uint) (cells Bits) {
	if k == 4 {
		for _, d := range shifts {
			up, down := stones.Shl(d), stones.Shr(d)
			above, below := up.And(stones.Shl(2*d)), down.And(stones.Shr(2*d))
			cells = cells.Or(above.And(stones.Shl(3 * d).Or(down))).Or(below.And(stones.Shr(3 * d).Or(up)))
		}
		return cells
	}
	var up [MaxBits]Bits // up[j] has the bits whose j neighbours below hold stones
	up[0] = Bits{^uint64(0), ^uint64(0)}
	for _, d := range shifts {
		for j := 1; j < k; j++ {
			up[j] = up[j-1].And(stones.Shl(uint(j) * d))
		}
		down := up[0]
		for j := range k {
			if j > 0 {
				down = down.And(stones.Shr(uint(j) * d))
			}
			cells = cells.Or(up[k-1-j].And(down))
		}
	}
	return cells
}

// CompletesFour is Completes for four in a row on a board with gravity and at most 64 bits, whose columns are stride bits apart.
// 3*(stride+1) must be less than 64. In a column, the missing stone is always the highest of the four.
func CompletesFour(s uint64, stride uint) uint64 {
	// Constant distances let the compiler use shifts by immediates: these shifts take most of the solver's time.
	switch stride {
	case 7:
		return s<<1&(s<<2)&(s<<3) | along(s, 6) | along(s, 7) | along(s, 8)
	case 6:
		return s<<1&(s<<2)&(s<<3) | along(s, 5) | along(s, 6) | along(s, 7)
	}
	return s<<1&(s<<2)&(s<<3) | along(s, stride-1) | along(s, stride) | along(s, stride+1)
}

// along is the set of bits that complete four in one direction; d is the distance in bits between neighbours in that direction. Of the
// other three stones, 3, 2, 1 or 0 are on one side of the bit, and the rest on the other.
func along(s uint64, d uint) uint64 {
	up, down := s<<(d&63), s>>(d&63)
	return up&(s<<(2*d&63))&(s<<(3*d&63)|down) | down&(s>>(2*d&63))&(s>>(3*d&63)|up)
}

// Result is the state of the game for the side to move. It tests for Loss, a line of the other side, before Win. Only a position that is
// not InTurn can be a Win.
func (b *Board) Result(p Position) Result {
	switch {
	case b.Won(p.Other()):
		return Loss
	case b.Won(p.Own):
		return Win
	case p.All == b.full:
		return Draw
	}
	return Ongoing
}

// HasMirrorWord reports whether the board's columns, rounded up to a power of two, fit 64 bits.
func (b *Board) HasMirrorWord() bool { return len(b.swaps) > 0 }

// MirrorWord reverses the columns of a word without carries between columns: stones, or the sum of two sets of stones. The board must
// satisfy HasMirrorWord.
func (b *Board) MirrorWord(x uint64) uint64 {
	if b.stride == 7 && b.rules.Columns == 7 {
		x = x>>28&0xfffffff | x&0xfffffff<<28
		x = x>>14&0x3fff0003fff | x&0x3fff0003fff<<14
		x = x>>7&0x1fc07f01fc07f | x&0x1fc07f01fc07f<<7
		return x >> 7
	}
	for _, s := range b.swaps {
		x = x>>(s.shift&63)&s.mask | x&s.mask<<(s.shift&63)
	}
	return x >> (b.mirrorPad & 63)
}

func (b *Board) mirrorBits(x Bits) Bits {
	if len(b.swaps) > 0 {
		return Bits{Lo: b.MirrorWord(x.Lo)}
	}
	var y Bits
	for range b.rules.Columns {
		y = y.Shl(b.stride).Or(x.And(b.column))
		x = x.Shr(b.stride)
	}
	return y
}

// Mirror is the position with its columns in reverse order.
func (b *Board) Mirror(p Position) Position {
	return Position{Own: b.mirrorBits(p.Own), All: b.mirrorBits(p.All)}
}

// MirrorAction is the action on the mirrored board that corresponds to a.
func (b *Board) MirrorAction(a int) int {
	c := a % b.rules.Columns
	return a - c + b.rules.Columns - 1 - c
}

// Canonical returns the smaller of p and its mirror image, so it is the same for both. mirrored reports whether that is the mirror image.
// Together with the rules, the canonical position is the key under which positions are stored.
func (b *Board) Canonical(p Position) (q Position, mirrored bool) {
	m := b.Mirror(p)
	if m.All.less(p.All) || m.All == p.All && m.Own.less(p.Own) {
		return m, true
	}
	return p, false
}

// Hash maps the position to 64 bits, each of which is set about half the time. Equal positions have equal hashes in every run and on every
// machine.
func (p Position) Hash() uint64 {
	const a, b, c = 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9
	hi, lo := bits.Mul64(p.Own.Lo^a, p.All.Lo^b)
	h := hi ^ lo
	if p.All.Hi != 0 {
		hi, lo = bits.Mul64(p.Own.Hi^h, p.All.Hi^c)
		h = hi ^ lo
	}
	h ^= h >> 32
	h *= a
	return h ^ h>>29
}
