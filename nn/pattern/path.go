package pattern

import (
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
)

// Path evaluates the positions of a line of play one after the other. It hands the accumulator on from move to move and
// changes only the rows of the table that differ: see LOG.md for what that costs beside a batch. The answers are those of
// Backend, bit for bit. It is not safe for concurrent use.
type Path struct {
	net    *kernel.Net
	levels []level
}

// level is a position of the line. The rows are seen from the side to move, which changes at each move, so a position has an
// accumulator for each side. They are computed when they are needed: the one for the other side only if the line goes on.
type level struct {
	position game.Position
	views    [2]view // of the side to move, and of the other one
}

type view struct {
	known bool
	rows  [Each]int32
	acc   []int16 // [Lanes]
	out   [kernel.Outputs]int32
}

// NewPath is a line that begins with the empty board.
func (e *Backend) NewPath() *Path {
	p := &Path{net: e.net}
	p.Start(game.Position{})
	return p
}

// Start begins anew with a position of 7x6x4. The game of no position of the line may be over.
func (p *Path) Start(position game.Position) {
	p.levels = p.levels[:0]
	p.push(position)
}

// Play goes on by a legal action.
func (p *Path) Play(action int) {
	p.push(board.Play(p.levels[len(p.levels)-1].position, action))
}

// Undo takes the last action back. There must be one.
func (p *Path) Undo() { p.levels = p.levels[:len(p.levels)-1] }

func (p *Path) push(position game.Position) {
	n := len(p.levels)
	if n == cap(p.levels) {
		p.levels = append(p.levels, level{})
	}
	p.levels = p.levels[:n+1] // a level that was in use before keeps its memory
	l := &p.levels[n]
	l.position, l.views[0].known, l.views[1].known = position, false, false
}

// Evaluate makes the position row i of a batch, and answers it.
func (p *Path) Evaluate(b *eval.Batch, i int) {
	last := len(p.levels) - 1
	b.Pos[i] = p.levels[last].position
	answer(b, i, p.view(last, 0).out[:])
}

// view computes a view of a level from that of the same side one move before.
func (p *Path) view(depth, side int) *view {
	l := &p.levels[depth]
	v := &l.views[side]
	if v.known {
		return v
	}
	v.known = true
	seen := l.position
	if side == 1 {
		seen.Own = seen.Other()
	}
	AppendRows(v.rows[:0], seen)
	if depth == 0 {
		v.acc = append(v.acc[:0], p.net.Start()...)
		p.net.Step(v.acc, nil, v.rows[:], v.out[:])
		return v
	}
	before := p.view(depth-1, 1-side)
	var taken, added [Each]int32
	n := 0
	for g, row := range v.rows {
		if old := before.rows[g]; old != row {
			taken[n], added[n] = old, row
			n++
		}
	}
	v.acc = append(v.acc[:0], before.acc...)
	p.net.Step(v.acc, taken[:n], added[:n], v.out[:])
	return v
}
