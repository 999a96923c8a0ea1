package eval

import "github.com/evald/evald/engine/game"

// The rules step answers the positions that the rules decide (game.Board.Outlook), and leaves the rest to the backend:
//
//   - Won with the next stone: a win, the policy shared by the moves that win. Source Rules.
//   - Lost to the other side's next stone after any move: a loss, the policy shared by all legal moves. Source Rules.
//   - Only one move keeps the other side from winning: this move gets all of the policy, and the value is the backend's answer for the
//     position after it, seen from here; and so on until there is a choice. Source Forced, or Rules if forced moves lead to a decided game.
//   - Otherwise the backend's answer, without the moves after which the other side wins at once.

// undecided holds the rows of a batch that the rules do not decide.
type undecided struct {
	memory   Batch
	batch    Batch // the rows of memory in use
	rows     []int // of the caller's batch
	outlooks []game.Outlook
}

// take answers the rows of b that the rules decide, and collects the others. With ownRules it answers finished games only.
func (w *undecided) take(b *Batch, ownRules bool) {
	w.rows, w.outlooks = w.rows[:0], w.outlooks[:0]
	w.memory.Reset(b.Board, len(b.Pos))
	for i, p := range b.Pos {
		if b.AnswerTerminal(i) {
			continue
		}
		o := game.Outlook{Next: p}
		if ownRules {
			o.Moves = b.Board.Legal(p)
		} else if o = b.Board.Outlook(p); o.Result != game.Ongoing {
			b.decide(i, o.Result, o.Moves, Rules)
			continue
		}
		w.memory.Pos[len(w.rows)] = o.Next
		w.rows, w.outlooks = append(w.rows, i), append(w.outlooks, o)
	}
	w.batch = w.memory.Slice(0, len(w.rows))
}

// giveBack answers the rows of b that take collected.
func (w *undecided) giveBack(b *Batch) {
	for j, i := range w.rows {
		b.answerOpen(i, w.outlooks[j], &w.batch, j)
	}
}

// decide answers row i with a result known from the rules.
func (b *Batch) decide(i int, result game.Result, moves game.Bits, s Source) {
	wdl := result.WDL()
	copy(b.WDLRow(i), wdl[:])
	b.SharePolicy(i, moves)
	b.Source[i] = s
}

// answerOpen answers row i with row j of src, which is the answer for o.Next.
func (b *Batch) answerOpen(i int, o game.Outlook, src *Batch, j int) {
	copy(b.WDLRow(i), src.WDLRow(j))
	if o.Plies > 0 {
		if o.Plies&1 == 1 {
			wdl := b.WDLRow(i)
			wdl[0], wdl[2] = wdl[2], wdl[0]
		}
		b.SharePolicy(i, o.Moves)
		b.Source[i] = Forced
		return
	}
	policy := b.PolicyRow(i)
	copy(policy, src.PolicyRow(j))
	b.Source[i] = src.Source[j]
	losing := b.Board.Legal(b.Pos[i]).AndNot(o.Moves)
	if losing.IsZero() {
		return
	}
	for ; !losing.IsZero(); losing = losing.WithoutFirst() {
		policy[b.Board.Action(losing.First())] = 0
	}
	total := float32(0)
	for _, p := range policy {
		total += p
	}
	if total == 0 { // the backend gave all probability to losing moves
		b.SharePolicy(i, o.Moves)
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
