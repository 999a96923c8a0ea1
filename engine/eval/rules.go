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

// undecided holds the rows of a call that the rules do not decide.
type undecided struct {
	memory Batch
	batch  Batch // the rows of memory in use
	open   []open

	// take and giveBack handle at most 64 rows at a time, so that these stay in the cache.
	outlooks [64]game.Outlook
}

// open is what the rules say of a row of undecided.
type open struct {
	moves game.Bits // Moves and Plies of its game.Outlook
	row   int       // of the caller
	plies uint8
	plain bool // the answer in undecided.batch is the row's answer
}

// decider answers row i of the caller with a result known from the rules, by equally good moves. There
// are no moves if the game is over.
type decider func(i int, result game.Result, moves game.Bits, s Source)

// take passes the positions that the rules decide to decide, and collects the others. With ownRules the
// rules decide finished games only.
func (w *undecided) take(b *game.Board, all []game.Position, ownRules bool, decide decider) {
	w.memory.Reset(b, len(all))
	w.open = slices.Grow(w.open[:0], len(all))
	if ownRules {
		for i, p := range all {
			if result := b.Result(p); result != game.Ongoing {
				decide(i, result, game.Bits{}, Terminal)
				continue
			}
			w.memory.Pos[len(w.open)] = p
			w.open = append(w.open, open{row: i, plain: true})
		}
	} else {
		for i := 0; i < len(all); i += len(w.outlooks) {
			w.takeOutlooks(b, all, i, min(i+len(w.outlooks), len(all)), decide)
		}
	}
	w.batch = w.memory.Slice(0, len(w.open))
}

// takeOutlooks is take for rows first up to last, at most 64.
func (w *undecided) takeOutlooks(b *game.Board, all []game.Position, first, last int, decide decider) {
	b.Outlooks(w.outlooks[:], all[first:last])
	for i := first; i < last; i++ {
		o := &w.outlooks[i-first]
		if o.Result == game.Ongoing {
			w.memory.Pos[len(w.open)] = o.Next
			w.open = append(w.open, open{o.Moves, i, uint8(o.Plies), o.Moves == b.Legal(all[i])})
			continue
		}
		source := Rules
		if o.Moves.IsZero() {
			source = Terminal
		}
		decide(i, o.Result, o.Moves, source)
	}
}

// giveBack copies rows first up to last of w to their rows of b, neighbours together.
func (w *undecided) giveBack(b *Batch, first, last int) {
	actions := b.Board.Actions()
	for j := first; j < last; {
		i, n := w.open[j].row, 1
		for n < len(w.outlooks) && j+n < last && w.open[j+n].row == i+n {
			n++
		}
		w.applyRules(j, j+n)
		copy(b.WDL[3*i:], w.batch.WDL[3*j:3*(j+n)])
		copy(b.Policy[actions*i:], w.batch.Policy[actions*j:actions*(j+n)])
		copy(b.Source[i:], w.batch.Source[j:j+n])
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

// applyRules turns rows first up to last, the backend's answers for positions after forced moves, into
// the answers of the caller's rows. Later calls do nothing.
func (w *undecided) applyRules(first, last int) {
	for j := first; j < last; j++ {
		if o := &w.open[j]; !o.plain {
			o.plain = true
			w.batch.applyRules(j, o)
		}
	}
}

// applyRules changes the answer of row i, which is the backend's for the position after o.plies forced
// moves.
func (b *Batch) applyRules(i int, o *open) {
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
