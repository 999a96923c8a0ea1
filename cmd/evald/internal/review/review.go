// Package review finds the mistakes in a game and explains them, by exact scores as far as time allows.
//
// Read the files in this order:
//
//	review.go    Reviewer, Review and its bounds on scores
//	scores.go    how the bounds are found
//	mark.go      kinds of mistakes
//	accuracy.go  the accuracy of each side in each phase
//	line.go      best play from a position; end.go: how it ends, and the threats on the board
//
// # Decisions
//
// Only the positions of the game are solved, not all moves of each: a move gives away the difference between the scores of two successive
// positions. The last position is solved first, because its entries in the table speed up the one before it. One null-window search at a
// move's own value proves that the move gives nothing away.
//
// The limit on nodes grows from pass to pass, so that a hard position does not delay the others. Each pass looks for the winner before the
// distance. A score that is still not exact at the end is reported as bounds.
package review

import (
	"context"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
)

// Bounds are bounds on a position's exact score, for the side to move. If they are equal, the score is known.
type Bounds struct{ Low, High int }

// Exact reports whether the score is known.
func (b Bounds) Exact() bool { return b.Low == b.High }

// Result returns the result for the side to move, or Ongoing if it is not proved.
func (b Bounds) Result() game.Result {
	switch {
	case b.Low > 0:
		return game.Win
	case b.High < 0:
		return game.Loss
	case b.Low == 0 && b.High == 0:
		return game.Draw
	}
	return game.Ongoing
}

// flip returns the bounds for the other side.
func (b Bounds) flip() Bounds { return Bounds{-b.High, -b.Low} }

// Options of a Reviewer.
type Options struct {
	Book     solver.Book // exact scores of first plies; nil for none
	Threads  int         // of the solver; 0 means 1
	TableMiB int         // size of the solver's table in MiB; 0 means 16

	// Nodes limits the search of each call, to within a few thousand nodes; 0 is no limit. With Nodes, one thread and a context that does
	// not end, the result of a new Reviewer's first call depends only on the game.
	Nodes uint64
}

// Reviewer reviews games on one board. It is not safe for concurrent use.
type Reviewer struct {
	board   *game.Board
	solver  *solver.Solver
	results *solver.Prober // knows the results of the first plies
	nodes   uint64
}

// New returns a Reviewer. The error names an option that is out of range.
func New(b *game.Board, o Options) (*Reviewer, error) {
	if o.TableMiB == 0 {
		o.TableMiB = 16
	}
	s, err := solver.New(b, solver.Options{Book: o.Book, Threads: o.Threads, TableMiB: o.TableMiB, Bounded: true})
	if err != nil {
		return nil, err
	}
	return &Reviewer{board: b, solver: s, results: solver.Nodes(solver.ProbeNodes).For(b), nodes: o.Nodes}, nil
}

// Review is the review of a game of n moves.
type Review struct {
	Positions []game.Position // n+1, from the empty board
	Scores    []Bounds        // n+1, each for the side to move
	Marks     []Mark          // n, of each move
	Critical  []Critical      // n, whether some move of the position gives the result away
	Limit     uint64          // nodes of one search in the last pass that was completed, 0 for none
}

// Earlier is what an earlier review of a game found, for one that continues it. The caller is trusted.
type Earlier struct {
	Scores []Bounds // as in Review; nil for none
	Limit  uint64   // as in Review
}

// Game reviews a game of legal moves from the empty board, until all scores are exact, ctx ends, or Options.Nodes are used up.
func (r *Reviewer) Game(ctx context.Context, moves []int) *Review {
	return r.Continue(ctx, moves, Earlier{})
}

// Continue is Game from what an earlier review of the same game found: it begins with the first pass that was not completed.
func (r *Reviewer) Continue(ctx context.Context, moves []int, from Earlier) *Review {
	g := &Review{
		Positions: make([]game.Position, len(moves)+1), Scores: make([]Bounds, len(moves)+1),
		Marks: make([]Mark, len(moves)), Critical: make([]Critical, len(moves)),
	}
	for i, a := range moves {
		g.Positions[i+1] = r.board.Play(g.Positions[i], a)
	}
	r.score(ctx, g, from)
	for i := range moves {
		g.Marks[i] = markOf(g.Scores[i], g.Scores[i+1].flip())
	}
	return g
}
