// Package heuristic evaluates positions without a network: by counting lines (bitsquares, gameovers, odd-even), by random games (rollout),
// or not at all (uniform). Each is an eval.Backend; catalog.go lists them. Bitsquares replaces a network that is missing or fails.
//
// The formulas are those of games/connectx in JamesMcGuigan/ai-games. They are sums over the lines that one side can still fill. This
// package uses shifts to count all lines of a direction at once; its tests compare the counts with a loop over the lines.
//
// Read the files in this order:
//
//	catalog.go                            the only list of heuristics
//	name.go                               their names, with parameters
//	heuristic.go                          a heuristic as a Backend: New
//	lines.go                              masks of lines
//	bitsquares.go                         bitsquares; bitsquares_*.go: several positions at once
//	gameovers.go, oddeven.go, rollout.go  the others
//
// # Decisions
//
// A heuristic answers only win and loss: WDL = (p, 0, 1-p). The odd-even heuristic follows its original, which treats the side to move as
// the first player; seven published test cases require this. Vector code lies beside its scalar form: bitsquares_amd64.s is used if the CPU
// has the instructions, bitsquares_arm64.s on every arm64.
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

// Heuristic scores unfinished positions.
type Heuristic interface {
	// Scores writes the score of each position into out, which has the same length. A positive score means that the side to move is ahead;
	// each heuristic has its own unit. Exchanging the sides negates the score.
	Scores(b *game.Board, ps []game.Position, out []float64)
}

// Scored is a backend that converts scores to answers:
//
//	WDL    = (w, 0, 1-w) with w = 1 / (1 + exp(-score / Width))
//	Policy = softmax over moves of -score(position after the move) / Temperature
//
// Moves that win at once share all of the policy.
type Scored struct {
	Heuristic   Heuristic
	Width       float64 // a score of Width means a win with probability 1/(1+1/e) = 0.73
	Temperature float64 // a move is e times as likely as one whose score is lower by Temperature
	Source      eval.Source
}

func scored(h Heuristic, width float64, source eval.Source) *Scored {
	return &Scored{h, width, width, source}
}

// rowsPerCheck is the number of rows between two checks of the context.
const rowsPerCheck = 256

// attributes are common to all heuristics: a row costs the same in any batch.
var attributes = eval.Attributes{Rows: 1, Invariant: true}

// rows is the loop that all backends of this package share.
func rows(ctx context.Context, b *eval.Batch, source eval.Source, answer func(i int, legal game.Bits)) error {
	for i, p := range b.Pos {
		if i%rowsPerCheck == 0 && ctx.Err() != nil {
			return fmt.Errorf("evaluate: %w", ctx.Err())
		}
		answer(i, b.Board.Legal(p))
		b.Source[i] = source
	}
	return nil
}

// pending collects rows, so that the heuristic scores many positions in one call. For each row it holds the position and, unless a move
// wins at once, the positions after the moves.
type pending struct {
	rows      []pendingRow
	positions []game.Position
	scores    []float64
}

type pendingRow struct {
	row      int
	first    int       // index of its own position in pending.positions; its children follow
	children game.Bits // cells of the moves to score; empty if the policy is already known
}

// pendingRows is the number of rows scored at once.
const pendingRows = 32

var pendings = sync.Pool{New: func() any { return new(pending) }}

// Attributes implements eval.Backend.
func (*Scored) Attributes() eval.Attributes { return attributes }

// Compute implements eval.Backend.
func (e *Scored) Compute(ctx context.Context, b *eval.Batch) error {
	w := pendings.Get().(*pending)
	defer pendings.Put(w)
	w.clear()
	err := rows(ctx, b, e.Source, func(i int, legal game.Bits) {
		if shareWins(b, i) {
			legal = game.Bits{}
		}
		p := b.Pos[i]
		w.rows = append(w.rows, pendingRow{i, len(w.positions), legal})
		w.positions = append(w.positions, p)
		for ; !legal.IsZero(); legal = legal.WithoutFirst() {
			w.positions = append(w.positions, b.Board.PlayCell(p, legal.LowBit()))
		}
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

// answer scores the pending positions and writes the rows.
func (e *Scored) answer(b *eval.Batch, w *pending) {
	w.scores = slices.Grow(w.scores[:0], len(w.positions))
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

// policy is the softmax of the negated scores of the positions after each move: these scores are for the other side.
func (e *Scored) policy(b *eval.Batch, r pendingRow, scores []float64) {
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

// shareWins clears the policy of row i. If moves win at once, it shares the policy among them and returns true.
func shareWins(b *eval.Batch, i int) bool {
	wins := b.Board.Wins(b.Pos[i])
	b.SharePolicy(i, wins)
	return !wins.IsZero()
}

func setWDL(row []float32, w, d, l float64) {
	row[0], row[1], row[2] = float32(w), float32(d), float32(l)
}

// Uniform gives every legal move the same probability, and win and loss 0.5 each.
type Uniform struct{}

// Attributes implements eval.Backend.
func (Uniform) Attributes() eval.Attributes { return attributes }

// Compute implements eval.Backend.
func (Uniform) Compute(ctx context.Context, b *eval.Batch) error {
	return rows(ctx, b, eval.Uniform, func(i int, legal game.Bits) {
		setWDL(b.WDLRow(i), 0.5, 0, 0.5)
		b.SharePolicy(i, legal)
	})
}
