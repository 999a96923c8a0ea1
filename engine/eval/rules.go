package eval

import (
	"slices"

	"github.com/evald/evald/engine/game"
)

// The rules step answers the positions that the rules decide (game.Board.Outlook), and leaves the rest to the backend:
//
//   - Won with the next stone: a win, the policy shared by the moves that win. Source Rules.
//   - Lost to the other side's next stone after any move: a loss, the policy shared by all legal moves. Source Rules.
//   - Only one move keeps the other side from winning: this move gets all of the policy, and the value is the backend's answer for the
//     position after it, seen from here; and so on until there is a choice. Source Forced, or Rules if forced moves lead to a decided game.
//   - Otherwise the backend's answer, without the moves after which the other side wins at once.

// undecided holds the rows of a batch that the rules do not decide.
type undecided struct {
	memory Batch
	batch  Batch // the rows of memory in use
	open   []open

	// take and giveBack handle as many rows at a time, so that these stay in the cache.
	outlooks [64]game.Outlook
}

// open is what the rules say of a row of undecided.
type open struct {
	moves game.Bits // Moves and Plies of its game.Outlook
	row   int       // of the caller's batch
	plies uint8
	plain bool // the backend's answer is the row's answer
}

// take answers the rows of b that the rules decide, and collects the others. With ownRules it answers finished games only.
func (w *undecided) take(b *Batch, ownRules bool) {
	w.memory.Reset(b.Board, len(b.Pos))
	w.open = slices.Grow(w.open[:0], len(b.Pos))
	if ownRules {
		for i, p := range b.Pos {
			if !b.AnswerTerminal(i) {
				w.memory.Pos[len(w.open)] = p
				w.open = append(w.open, open{row: i, plain: true})
			}
		}
	} else {
		for i := 0; i < len(b.Pos); i += len(w.outlooks) {
			w.takeOutlooks(b, i, min(i+len(w.outlooks), len(b.Pos)))
		}
	}
	w.batch = w.memory.Slice(0, len(w.open))
}

// takeOutlooks is take for rows first up to last, at most as many as w has outlooks.
func (w *undecided) takeOutlooks(b *Batch, first, last int) {
	b.Board.Outlooks(w.outlooks[:], b.Pos[first:last])
	for i := first; i < last; i++ {
		o := &w.outlooks[i-first]
		if o.Result == game.Ongoing {
			w.memory.Pos[len(w.open)] = o.Next
			w.open = append(w.open, open{o.Moves, i, uint8(o.Plies), o.Moves == b.Board.Legal(b.Pos[i])})
			continue
		}
		source := Rules
		if o.Moves.IsZero() {
			source = Terminal
		}
		b.decide(i, o.Result, o.Moves, source)
	}
}

// giveBack answers the rows of b that take collected. It copies neighbours together.
func (w *undecided) giveBack(b *Batch) {
	actions := b.Board.Actions()
	for j := 0; j < len(w.open); {
		i, n := w.open[j].row, 1
		for n < len(w.outlooks) && j+n < len(w.open) && w.open[j+n].row == i+n {
			n++
		}
		copy(b.WDL[3*i:], w.batch.WDL[3*j:3*(j+n)])
		copy(b.Policy[actions*i:], w.batch.Policy[actions*j:actions*(j+n)])
		copy(b.Source[i:], w.batch.Source[j:j+n])
		for k := j; k < j+n; k++ {
			if o := &w.open[k]; !o.plain {
				b.applyRules(o)
			}
		}
		j += n
	}
}

// decide answers row i with a result known from the rules.
func (b *Batch) decide(i int, result game.Result, moves game.Bits, s Source) {
	wdl := result.WDL()
	copy(b.WDLRow(i), wdl[:])
	b.SharePolicy(i, moves)
	b.Source[i] = s
}

// applyRules changes the answer of row o.row, which is the backend's for the position after o.plies
// forced moves.
func (b *Batch) applyRules(o *open) {
	i := o.row
	if o.plies > 0 {
		if o.plies&1 == 1 {
			wdl := b.WDLRow(i)
			wdl[0], wdl[2] = wdl[2], wdl[0]
		}
		b.SharePolicy(i, o.moves)
		b.Source[i] = Forced
		return
	}
	policy := b.PolicyRow(i)
	for losing := b.Board.Legal(b.Pos[i]).AndNot(o.moves); !losing.IsZero(); losing = losing.WithoutFirst() {
		policy[b.Board.Action(losing.First())] = 0
	}
	total := float32(0)
	for _, p := range policy {
		total += p
	}
	if total == 0 { // the backend gave all probability to losing moves
		b.SharePolicy(i, o.moves)
		return
	}
	for a := range policy {
		policy[a] /= total
	}
}

// SharePolicy gives equal probabilities to the moves of row i that land in cells, and 0 to all others.
func (b *Batch) SharePolicy(i int, cells game.Bits) {
	policy := b.PolicyRow(i)
	clear(policy)
	share := 1 / float32(cells.OnesCount())
	for ; !cells.IsZero(); cells = cells.WithoutFirst() {
		policy[b.Board.Action(cells.First())] = share
	}
}
