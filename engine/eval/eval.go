// Package eval connects callers that need positions evaluated with the backends that evaluate them. A Batch is memory that the caller owns.
// A Backend computes raw answers. An Evaluator wraps a Backend in a fixed order of steps; all callers use an Evaluator. Fallback and
// Mirrored are backends that wrap backends.
//
// Read eval.go (Batch, Backend), evaluator.go (the steps), rules.go, exact.go, best.go (Choices),
// cache.go, fallback.go (with Mirrored), source.go.
package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
)

// Batch is N positions of one board and memory for their answers. The caller owns it. Every slice has exactly the given length; A is
// Board.Actions().
type Batch struct {
	Board  *game.Board
	Pos    []game.Position // [N]
	WDL    []float32       // [N,3] probabilities of win, draw and loss for the side to move; each row sums to 1
	Policy []float32       // [N,A] probabilities of moves; an illegal one has 0; each row sums to 1, or is all 0 if the game is over
	Source []Source        // [N] names of the evaluators that answered
}

// Backend computes raw answers. It checks nothing, because the Evaluator that wraps it makes all checks.
type Backend interface {
	// Compute fills WDL, Policy and Source for every Pos. The slices have the right lengths, there is at least one row, and no game is
	// over. Compute masks illegal moves and applies no other rules. It does not retain b, and is safe for concurrent use. After an error
	// the contents of WDL, Policy and Source are unspecified. If ctx ends, the error wraps ctx.Err().
	Compute(ctx context.Context, b *Batch) error

	// Attributes returns the same values at every call.
	Attributes() Attributes
}

// Attributes describe a Backend for batchers and searches.
type Attributes struct {
	Rows      int     // preferred rows per call; 1: the cost per row does not depend on their number
	Invariant bool    // a row's answer is bit for bit the same in every batch
	Search    *Search // nil: searches use the default constants of their selection rule

	// Plain means that searches judge the network by itself, unless their caller chooses otherwise:
	// without lookahead, solver, flat priors and transpositions. It is set for networks that are not
	// in evald's formats.
	Plain bool

	// Supports returns nil for a board that the backend answers, and otherwise an
	// *UnsupportedError. If it is nil, the backend answers every board.
	Supports func(*game.Board) error
}

// UnsupportedError means that a network does not support a board, and that no other evaluator may
// answer in its place.
type UnsupportedError struct {
	Model   string     // the network's name
	Rules   game.Rules // of the board
	Games   string     // what the network supports, such as "7x6x4"
	Instead string     // what the user can do
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("model %s does not know %v: it knows %s; %s", short.Text(e.Model), e.Rules, e.Games, e.Instead)
}

// ErrUnavailable means that nothing evaluates batches now, because no device works. The same batch may be answered later, or elsewhere.
var ErrUnavailable = errors.New("no device works")

// Search is the constants with which PUCT searches are strongest with a network. They depend on how certain its policy is and on how much
// its values differ, so every network may need its own.
type Search struct {
	CPUCT float64 `json:"cpuct"` // exploration, mcts.Config.C
	FPU   float64 `json:"fpu"`   // first play urgency: how much less moves without visits are worth, mcts.Config.FPU
}

// Tuned is a backend with its own search constants.
type Tuned struct {
	Backend
	Search Search
}

// Attributes are those of the wrapped backend, with these constants.
func (t Tuned) Attributes() Attributes {
	a := t.Backend.Attributes()
	a.Search = &t.Search
	return a
}

// Foreign is a backend of a network that is not in evald's formats.
type Foreign struct{ Backend }

// Attributes are those of the wrapped backend, with Plain set.
func (f Foreign) Attributes() Attributes {
	a := f.Backend.Attributes()
	a.Plain = true
	return a
}

// NewBatch returns a batch with memory for n rows.
func NewBatch(board *game.Board, n int) *Batch {
	b := &Batch{}
	b.Reset(board, n)
	return b
}

// Reset resizes the batch to n rows on board. It reuses memory that is large enough. The first n positions keep their values; all other
// contents are unspecified.
func (b *Batch) Reset(board *game.Board, n int) {
	b.Board = board
	old := b.Pos
	b.Pos = resize(b.Pos, n)
	copy(b.Pos, old)
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

// Value is the probability of a win minus that of a loss in row i, -1..1 for the side to move.
func (b *Batch) Value(i int) float32 { return b.WDL[3*i] - b.WDL[3*i+2] }

// Ready returns an error if the context has ended or a slice of the batch has a wrong length.
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

// AnswerTerminal reports whether the game of row i is over, and if so answers it by the rules.
func (b *Batch) AnswerTerminal(i int) bool {
	result := b.Board.Result(b.Pos[i])
	if result == game.Ongoing {
		return false
	}
	b.decide(i, result, game.Bits{}, Terminal)
	return true
}

// Unfinished returns a *RowError for the first row whose game is over, or nil.
func (b *Batch) Unfinished() error {
	for i, p := range b.Pos {
		if r := b.Board.Result(p); r != game.Ongoing {
			return &RowError{i, fmt.Sprintf("the game is over (%v), and only unfinished games have raw answers", r)}
		}
	}
	return nil
}

// RowError is the reason why a row cannot be answered.
type RowError struct {
	Row    int
	Reason string
}

func (e *RowError) Error() string { return fmt.Sprintf("row %d: %s", e.Row, e.Reason) }

// Finite returns nil if all answers are finite numbers, and otherwise an error that wraps ErrNotFinite and names the first position whose
// answer is not.
func (b *Batch) Finite() error {
	for i := range b.Pos {
		if slices.ContainsFunc(b.WDLRow(i), infinite) || slices.ContainsFunc(b.PolicyRow(i), infinite) {
			return b.NotFinite(i, "")
		}
	}
	return nil
}

// NotFinite returns an error that wraps ErrNotFinite and names the position of row i as users write
// it, and why, unless that is "".
func (b *Batch) NotFinite(i int, why string) error { return &notFinite{b.Board, b.Pos[i], why} }

func infinite(x float32) bool { return math.Float32bits(x)&0x7f800000 == 0x7f800000 }

// SampleAction returns the action of a policy row [A] whose interval of cumulative probability contains x, from 0 to 1. So a uniform x
// samples from the policy. It returns -1 if all probabilities are 0.
func SampleAction(policy []float32, x float64) int {
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
