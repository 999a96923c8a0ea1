// Package heuristic evaluates positions without a network: by counting lines (bitsquares, gameovers, odd-even), by
// random games, or not at all. Each is an eval.Evaluator; bitsquares is the answer of last resort everywhere.
//
// The formulas are those of games/connectx in JamesMcGuigan/ai-games. They sum over the lines that one side can still
// fill; here all lines of a direction are counted at once with shifts, and the tests compare that with a loop over
// the lines.
package heuristic

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// Heuristic scores positions whose game is not over.
type Heuristic interface {
	// Scores writes the score of each position into out, of the same length: positive where the side to move is ahead,
	// in a unit of the heuristic's own. With the sides exchanged the score of the same stones is the negative.
	Scores(b *game.Board, ps []game.Position, out []float64)
}

// Evaluator turns scores into answers:
//
//	WDL    = (w, 0, 1-w) with w = 1 / (1 + exp(-score / Width))
//	Policy = softmax over moves of -score(position after the move) / Temperature
//
// A move that wins at once takes all of the policy, shared with other winning moves.
type Evaluator struct {
	Heuristic   Heuristic
	Width       float64 // score that wins with probability 1/(1+1/e) = 0.73
	Temperature float64 // score difference that makes a move e times as likely
	Source      eval.Source
}

// WithPower is bitsquares with another power than the published one.
func WithPower(power float64) eval.Evaluator {
	return &Evaluator{NewBitsquares(power), 7, 7, eval.Bitsquares}
}

// rowsPerCheck is how many rows are answered between two looks at the context.
const rowsPerCheck = 256

// rows is the loop that all evaluators here share: finished games by the rules, the others by answer.
func rows(ctx context.Context, b *eval.Batch, source eval.Source, answer func(i int, legal game.Bits)) error {
	if err := b.Ready(ctx); err != nil {
		return err
	}
	for i, p := range b.Pos {
		if i%rowsPerCheck == rowsPerCheck-1 && ctx.Err() != nil {
			return fmt.Errorf("evaluate: %w", ctx.Err())
		}
		if b.AnswerTerminal(i) {
			continue
		}
		answer(i, b.Board.Legal(p))
		b.Source[i] = source
	}
	return nil
}

// pending holds rows whose scores are still to be computed, so that many go to the heuristic at once: of each row the
// position itself and, unless a move wins, the positions after its moves.
type pending struct {
	rows      []pendingRow
	positions []game.Position
	scores    []float64
}

type pendingRow struct {
	row      int
	first    int       // of its positions
	children game.Bits // where the moves' stones land; none where the policy is known already
}

// pendingRows is how many rows are scored at once.
const pendingRows = 32

var pendings = sync.Pool{New: func() any { return new(pending) }}

// Evaluate implements eval.Evaluator.
func (e *Evaluator) Evaluate(ctx context.Context, b *eval.Batch) error {
	w := pendings.Get().(*pending)
	defer pendings.Put(w)
	w.clear()
	err := rows(ctx, b, e.Source, func(i int, legal game.Bits) {
		if shareWins(b, i) {
			legal = game.Bits{}
		}
		w.add(b, i, legal)
		if len(w.rows) == pendingRows {
			e.answer(b, w)
		}
	})
	if err == nil {
		e.answer(b, w)
	}
	return err
}

func (w *pending) clear() { w.rows, w.positions = w.rows[:0], w.positions[:0] }

func (w *pending) add(b *eval.Batch, i int, children game.Bits) {
	w.rows = append(w.rows, pendingRow{i, len(w.positions), children})
	p := b.Pos[i]
	w.positions = append(w.positions, p)
	for ; !children.IsZero(); children = children.WithoutFirst() {
		w.positions = append(w.positions, b.Board.PlayCell(p, children.LowBit()))
	}
}

// answer scores what is pending and writes the rows.
func (e *Evaluator) answer(b *eval.Batch, w *pending) {
	if cap(w.scores) < len(w.positions) {
		w.scores = make([]float64, 2*len(w.positions))
	}
	scores := w.scores[:len(w.positions)]
	e.Heuristic.Scores(b.Board, w.positions, scores)
	for _, r := range w.rows {
		win := 1 / (1 + math.Exp(-scores[r.first]/e.Width))
		setWDL(b.WDLRow(r.row), win, 0, 1-win)
		if n := r.children.OnesCount(); n > 0 {
			e.policy(b, r, scores[r.first+1:r.first+1+n])
		}
	}
	w.clear()
}

// policy is the softmax over the scores of the positions after each move, which are the other side's.
func (e *Evaluator) policy(b *eval.Batch, r pendingRow, scores []float64) {
	lowest := slices.Min(scores)
	total := 0.0
	for i, s := range scores {
		scores[i] = math.Exp((lowest - s) / e.Temperature)
		total += scores[i]
	}
	policy := b.PolicyRow(r.row)
	for i, l := 0, r.children; !l.IsZero(); i, l = i+1, l.WithoutFirst() {
		policy[b.Board.Action(l.First())] = float32(scores[i] / total)
	}
}

// shareWins clears the policy of row i and, where moves win at once, gives it to them.
func shareWins(b *eval.Batch, i int) bool {
	policy := b.PolicyRow(i)
	clear(policy)
	wins := b.Board.Wins(b.Pos[i])
	share := 1 / float32(wins.OnesCount())
	for l := wins; !l.IsZero(); l = l.WithoutFirst() {
		policy[b.Board.Action(l.First())] = share
	}
	return !wins.IsZero()
}

func setWDL(row []float32, w, d, l float64) {
	row[0], row[1], row[2] = float32(w), float32(d), float32(l)
}

// Uniform knows nothing: every legal move alike, win and loss alike.
type Uniform struct{}

// Evaluate implements eval.Evaluator.
func (Uniform) Evaluate(ctx context.Context, b *eval.Batch) error {
	return rows(ctx, b, eval.Uniform, func(i int, legal game.Bits) {
		setWDL(b.WDLRow(i), 0.5, 0, 0.5)
		policy := b.PolicyRow(i)
		clear(policy)
		share := 1 / float32(legal.OnesCount())
		for ; !legal.IsZero(); legal = legal.WithoutFirst() {
			policy[b.Board.Action(legal.First())] = share
		}
	})
}
