// Package review finds the mistakes of a game, from exact scores as far as there is time for them, and explains each of them.
//
// Read the files in this order:
//
//	review.go    Reviewer, Review and its bounds of scores
//	scores.go    how the bounds are found
//	mark.go      kinds of mistakes
//	accuracy.go  how many moves of each side and phase gave nothing away
//	line.go      best play from a position; end.go: how it ends, and the threats on the board
//	read.go      a game as text: moves, a link, or a replay of Kaggle (replay.go)
//
// # Decisions
//
// Only the positions of the game are solved, not all moves of each: what a move gives away is the difference between two
// successive positions. The last position is solved first, because the table then knows what the one before it leads to.
// A move that gives nothing away is proved by one null window at its own value.
//
// Limits on nodes grow from pass to pass, so that a hard position does not keep those after it from being solved. In each pass
// who wins comes before the distance. What is left is a bound, and is shown as one.
package review

import (
	"context"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
)

// Bounds of a position's exact score, for the side to move. The score is known if they are equal.
type Bounds struct{ Low, High int }

// Exact reports whether the score is known.
func (b Bounds) Exact() bool { return b.Low == b.High }

// Result is who wins, for the side to move, or Ongoing if that is not proved.
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

// flip is the bounds for the other side.
func (b Bounds) flip() Bounds { return Bounds{-b.High, -b.Low} }

// Options of a Reviewer.
type Options struct {
	Book     solver.Book // exact scores of first plies; nil for none
	Threads  int         // of the solver; 0 means 1
	TableMiB int         // memory of its table; 0 means 16

	// Nodes bounds the search of each call, within a few thousand; 0 leaves the bound to the context. With it, one thread and a
	// context that does not end, all that a new Reviewer's first call answers follows from the game.
	Nodes uint64
}

// Reviewer reviews games of one board, one after the other. It is not safe for concurrent use.
type Reviewer struct {
	board   *game.Board
	solver  *solver.Solver
	results *solver.Prober // knows who wins after a game's first plies
	nodes   uint64
}

// New makes a Reviewer. The error names an option that is out of range.
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
	Marks     []Mark          // n, what each move gives away
	Critical  []Critical      // n, whether a move could have given the result away there
}

// Game reviews the legal moves of a game from the empty board, until all is known, ctx ends, or the nodes are spent.
func (r *Reviewer) Game(ctx context.Context, moves []int) *Review {
	g := &Review{
		Positions: make([]game.Position, len(moves)+1), Scores: make([]Bounds, len(moves)+1),
		Marks: make([]Mark, len(moves)), Critical: make([]Critical, len(moves)),
	}
	for i, a := range moves {
		g.Positions[i+1] = r.board.Play(g.Positions[i], a)
	}
	r.score(ctx, g)
	for i := range moves {
		g.Marks[i] = markOf(g.Scores[i], g.Scores[i+1].flip())
	}
	return g
}
