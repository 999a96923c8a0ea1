package eval

import (
	"context"
	"sync"

	"github.com/evald/evald/engine/game"
)

// Ruled answers a position by the rules if they decide it (game.Board.Outlook), and asks another evaluator otherwise:
//
//   - Won with the next stone: a win, the policy shared by the moves that win. Source Rules.
//   - Lost to the other side's next stone whatever is played: a loss, the policy shared by all legal moves. Source Rules.
//   - One move alone keeps the other side from winning: all of the policy, and the answer for the position after it, seen
//     from here; and so on until there is a choice. Source Forced, or Rules if forced moves lead to a decided game.
//   - Otherwise the other evaluator's answer, without the moves after which the other side wins at once.
//
// Tree searches find all of this themselves, and need no Ruled in front of their evaluator.
type Ruled struct {
	of   Evaluator
	work sync.Pool // *ruling
}

// NewRuled puts the rules before an evaluator.
func NewRuled(of Evaluator) *Ruled {
	return &Ruled{of: of, work: sync.Pool{New: func() any { return new(ruling) }}}
}

// ruling holds the rows of a batch that the rules leave open.
type ruling struct {
	memory   Batch
	batch    Batch // the rows of memory in use
	rows     []int // of the caller's batch
	outlooks []game.Outlook
}

// Evaluate asks the other evaluator once, for all rows that the rules leave open.
func (r *Ruled) Evaluate(ctx context.Context, b *Batch) error {
	if err := b.Ready(ctx); err != nil {
		return err
	}
	w := r.work.Get().(*ruling)
	defer r.work.Put(w)
	w.rows, w.outlooks = w.rows[:0], w.outlooks[:0]
	w.memory.Reset(b.Board, len(b.Pos))
	for i, p := range b.Pos {
		if b.AnswerTerminal(i) {
			continue
		}
		o := b.Board.Outlook(p)
		if o.Result != game.Ongoing {
			b.answerDecided(i, o)
			continue
		}
		w.memory.Pos[len(w.rows)] = o.Next
		w.rows, w.outlooks = append(w.rows, i), append(w.outlooks, o)
	}
	if len(w.rows) == 0 {
		return nil
	}
	w.batch = w.memory.Slice(0, len(w.rows))
	if err := r.of.Evaluate(ctx, &w.batch); err != nil {
		return err
	}
	for j, i := range w.rows {
		b.answerOpen(i, w.outlooks[j], &w.batch, j)
	}
	return nil
}

// answerDecided answers row i, whose result the rules know.
func (b *Batch) answerDecided(i int, o game.Outlook) {
	b.setResult(i, o.Result)
	b.sharePolicy(i, o.Moves)
	b.Source[i] = Rules
}

// answerOpen answers row i by row j of src, which has the answer for o.Next.
func (b *Batch) answerOpen(i int, o game.Outlook, src *Batch, j int) {
	copy(b.WDLRow(i), src.WDLRow(j))
	if o.Plies > 0 {
		if o.Plies&1 == 1 {
			wdl := b.WDLRow(i)
			wdl[0], wdl[2] = wdl[2], wdl[0]
		}
		b.sharePolicy(i, o.Moves)
		b.Source[i] = Forced
		return
	}
	policy := b.PolicyRow(i)
	copy(policy, src.PolicyRow(j))
	b.Source[i] = src.Source[j]
	unsafe := b.Board.Legal(b.Pos[i]).AndNot(o.Moves)
	if unsafe.IsZero() {
		return
	}
	for ; !unsafe.IsZero(); unsafe = unsafe.WithoutFirst() {
		policy[b.Board.Action(unsafe.First())] = 0
	}
	total := float32(0)
	for _, p := range policy {
		total += p
	}
	if total == 0 { // all of it was on moves that lose
		b.sharePolicy(i, o.Moves)
		return
	}
	for a := range policy {
		policy[a] /= total
	}
}

// sharePolicy gives each of the moves that put a stone into cells the same probability, and the others none.
func (b *Batch) sharePolicy(i int, cells game.Bits) {
	policy := b.PolicyRow(i)
	clear(policy)
	share := 1 / float32(cells.OnesCount())
	for ; !cells.IsZero(); cells = cells.WithoutFirst() {
		policy[b.Board.Action(cells.First())] = share
	}
}
