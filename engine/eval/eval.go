// Package eval is the contract between those who want positions evaluated and those who evaluate them: a Batch of
// memory that the caller owns, and an Evaluator that fills it. Ruled, Cache, Batcher, Fallback, Mirrored and Check are
// evaluators around evaluators.
package eval

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/evald/evald/engine/game"
)

// Source says who answered a row. It travels with the row into replies and training records, so that a heuristic's
// answer is never taken for the network's.
type Source uint8

// The sources. None marks a row that nobody has answered.
const (
	None       Source = iota
	GPU               // the network, on a GPU
	CPU               // the network, on the CPU
	Cached            // the network, earlier
	Terminal          // the rules: the game is over
	Bitsquares        // heuristics
	Gameovers
	OddEven
	Rollout
	Uniform
	Searched // a tree search on one of the others
	Solved   // the exact solver
	Rules    // the rules: the next stones decide the game; see Ruled
	Forced   // the rules, as far as the move goes; the value is an evaluator's, of a position some forced moves on

	sources // how many there are
)

var sourceNames = [sources]string{
	"none", "gpu", "cpu", "cache", "terminal", "bitsquares", "gameovers", "oddeven", "rollout", "uniform", "search", "solver",
	"rules", "forced",
}

func (s Source) String() string {
	if s.Known() {
		return sourceNames[s]
	}
	return fmt.Sprintf("source %d", s)
}

// ParseSource is the source that String calls so.
func ParseSource(name string) (s Source, ok bool) {
	i := slices.Index(sourceNames[:], name)
	return Source(max(i, 0)), i >= 0
}

// Known reports whether s is one of the sources above.
func (s Source) Known() bool { return s < sources }

// Network reports whether the answer is a network's, now or from a cache.
func (s Source) Network() bool { return s == GPU || s == CPU || s == Cached }

// By is the name of who answered: the heuristic's own, else that of the model that was asked.
func (s Source) By(model string) string {
	if s >= Bitsquares && s <= Uniform {
		return s.String()
	}
	return model
}

// Batch is N positions of one board and room for their answers. The caller owns its memory; every slice has exactly
// the length given here. A is Board.Actions().
type Batch struct {
	Board  *game.Board
	Pos    []game.Position // [N]
	WDL    []float32       // [N,3] probabilities of win, draw and loss for the side to move; each row sums to 1
	Policy []float32       // [N,A] probabilities of moves; 0 where illegal; each row sums to 1, or is all 0 where the game is over
	Source []Source        // [N] who answered
}

// Evaluator answers batches.
type Evaluator interface {
	// Evaluate fills WDL, Policy and Source for every Pos. A row's answer is bitwise the same whatever batch it travels
	// in. A finished game is answered by the rules (Source Terminal). Evaluate does not retain b. It is safe for
	// concurrent use. After an error the contents of WDL, Policy and Source are unspecified; a cancelled context is
	// an error that wraps ctx.Err().
	Evaluate(ctx context.Context, b *Batch) error
}

// NewBatch has room for n rows.
func NewBatch(board *game.Board, n int) *Batch {
	b := &Batch{}
	b.Reset(board, n)
	return b
}

// Reset makes the batch one of n rows on board. Memory is reused where it is large enough; contents are unspecified.
func (b *Batch) Reset(board *game.Board, n int) {
	b.Board = board
	b.Pos = resize(b.Pos, n)
	b.WDL = resize(b.WDL, 3*n)
	b.Policy = resize(b.Policy, board.Actions()*n)
	b.Source = resize(b.Source, n)
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/2)
	}
	return s[:n]
}

// Slice is a view of rows i up to j.
func (b *Batch) Slice(i, j int) Batch {
	a := b.Board.Actions()
	return Batch{b.Board, b.Pos[i:j:j], b.WDL[3*i : 3*j : 3*j], b.Policy[a*i : a*j : a*j], b.Source[i:j:j]}
}

// WDLRow and PolicyRow are the answers of row i: [3] and [A].
func (b *Batch) WDLRow(i int) []float32 { return b.WDL[3*i : 3*i+3 : 3*i+3] }

// PolicyRow is the policy of row i: [A].
func (b *Batch) PolicyRow(i int) []float32 {
	a := b.Board.Actions()
	return b.Policy[a*i : a*i+a : a*i+a]
}

// Value is win minus loss of row i, in -1..1 for the side to move.
func (b *Batch) Value(i int) float32 { return b.WDL[3*i] - b.WDL[3*i+2] }

// CopyRow copies the answer of row j of src into row i.
func (b *Batch) CopyRow(i int, src *Batch, j int) {
	copy(b.WDLRow(i), src.WDLRow(j))
	copy(b.PolicyRow(i), src.PolicyRow(j))
	b.Source[i] = src.Source[j]
}

// Ready is what every Evaluator asks first: is the context alive, and does every slice of the batch have its length?
func (b *Batch) Ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("evaluate: %w", err)
	}
	if b.Board == nil {
		return fmt.Errorf("evaluate: batch has no board")
	}
	n, a := len(b.Pos), b.Board.Actions()
	for _, f := range [...]struct {
		name      string
		got, want int
	}{{"WDL", len(b.WDL), 3 * n}, {"Policy", len(b.Policy), a * n}, {"Source", len(b.Source), n}} {
		if f.got != f.want {
			return fmt.Errorf("evaluate: batch of %d positions has %d values of %s, want %d", n, f.got, f.name, f.want)
		}
	}
	return nil
}

// AnswerTerminal answers row i by the rules where its game is over, and reports whether it is.
func (b *Batch) AnswerTerminal(i int) bool {
	result := b.Board.Result(b.Pos[i])
	if result == game.Ongoing {
		return false
	}
	b.setResult(i, result)
	clear(b.PolicyRow(i))
	b.Source[i] = Terminal
	return true
}

// setResult writes a certain result into the WDL of row i.
func (b *Batch) setResult(i int, result game.Result) {
	wdl := result.WDL()
	copy(b.WDLRow(i), wdl[:])
}

// Finite reports the first row with an answer that is not a finite number, or ok.
func (b *Batch) Finite() (row int, ok bool) {
	for i, x := range b.WDL {
		if !finite(x) {
			return i / 3, false
		}
	}
	for i, x := range b.Policy {
		if !finite(x) {
			return i / b.Board.Actions(), false
		}
	}
	return 0, true
}

func finite(x float32) bool { return math.Float32bits(x)&0x7f800000 != 0x7f800000 }

// Draw is the action of a policy row [A] that x, 0 to 1, falls on: each as likely as its probability where x is uniform.
// It is -1 where all probabilities are 0.
func Draw(policy []float32, x float64) int {
	last := -1
	for a, p := range policy {
		if p == 0 {
			continue
		}
		if last = a; x < float64(p) {
			break
		}
		x -= float64(p)
	}
	return last
}
