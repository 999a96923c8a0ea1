// Package solver finds the exact value of ConnectX positions by alpha-beta search.
//
// Read the files in this order:
//
//	solver.go                 New, Solve and Options
//	windows.go, best.go       one call of the solver, and its windows of scores; the best moves
//	bounds.go                 bounds of all moves within a number of nodes; narrow.go: bounds of one position within a window
//	probe.go                  the result, within a number of nodes, as a function of the position
//	fast.go, search64.go      the search for boards of at most 64 bits
//	geometry.go, bounds64.go  its masks, and bounds without search
//	table.go                  its table; huge_linux.go, huge_other.go: large pages
//	general.go                all other boards
//
// # Scores
//
// A score is exact, for the side to move. s > 0 is a win, and s = (cells + 1 - stones on the board before the winning stone) / 2, rounded
// down, so faster wins have higher scores. 0 is a draw. Losses are negative.
//
// Boards of at most 64 bits with gravity use a fast search (search64.go), all others a general one (general.go). Both only decide whether a
// position's score exceeds a given number; windows.go chooses these numbers.
//
// # Decisions
//
// The fast search has its own masks beside those of game.Board (geometry.go). Its table is small by default: on 7x6 a table of 16 MiB stays
// in the processor's cache, and is faster than a larger one that saves nodes. MTD(f) is an option (evald solve --method mtdf): it needs
// 0.86 of the nodes for the empty board of 7x6 and the first 12 positions of Pons' set L1_R3, as many for 60 of L1_R2, and nine times as many
// for 500 of L1_R1. The order of moves (worker.rank) was chosen by the number of nodes. The log of evald bench has the figures, and the attempts
// without gain.
package solver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver/book"
)

// NoMove is the score of an action that cannot be played, also in files of positions (package score).
const NoMove = -1000

// ErrNodes is wrapped by errors of calls for which Options.Nodes did not suffice.
var ErrNodes = errors.New("the nodes do not suffice")

// Options of a solver. The zero value is ready for use.
type Options struct {
	TableMiB int  // memory of the transposition table; 0 means 16, or 256 on boards of more than 42 cells
	Bounded  bool // the table never exceeds TableMiB; if the fast search needs a larger one, the general search is used
	Threads  int  // threads that search one position; 0 means 1. The general search uses one
	MTD      bool // choose windows by MTD(f) (Plaat et al., 1996) from a first guess of 0; see Decisions

	// Nodes, if not 0, is the maximum number of nodes of each call of Solve, Score, WDL and Scores, within about 1,000. With one thread,
	// and Reset before the call, success depends only on the position, the book and the size of the table.
	Nodes uint64

	// Book, if not nil, is consulted before a search.
	Book Book

	// Progress, if not nil, is called a few times per second by the goroutine that called Solve.
	Progress func(Progress)
}

// Book contains some positions' exact scores.
type Book interface {
	// Score is the exact score of p for the side to move, if the book has it.
	Score(p game.Position) (score int, ok bool)
}

// ShippedBook returns the exact scores of a game's first plies that ship with the program, or nil.
func ShippedBook(r game.Rules) Book {
	if b := book.Scores(r); b != nil {
		return b
	}
	return nil
}

// Progress of a running search. During Scores it describes the current position.
type Progress struct {
	Lower, Upper int           // bounds of the score so far
	Window       int           // the search now decides whether the score exceeds this number
	Nodes        uint64        // calls of the recursive search since the call began, of all threads
	Elapsed      time.Duration // since the call began
	Fill         float64       // fraction of the table in use, 0 to 1
}

// Result of a search.
type Result struct {
	Score   int           // for the side to move; from WDL only its sign, -1, 0 or 1
	Best    int           // an action that reaches Score; -1 if the game is over
	Nodes   uint64        // calls of the recursive search, of all threads
	Elapsed time.Duration // wall clock
	Booked  bool          // the score came from the book
}

// Solver solves positions of one board. It is not safe for concurrent use.
type Solver struct {
	board   *game.Board
	options Options
	prover  prover
}

// prover decides whether a position's score exceeds a number. The game must not be over, the mover must not win at once, and at least one
// move must not lose at once.
type prover interface {
	// prove returns a bound on p's score. If the bound exceeds alpha, it is a lower bound, and action reaches it; action is -1 if every
	// move that does not lose at once reaches it. Otherwise it is an upper bound, and action is -1. After run.stop the answer is
	// meaningless.
	prove(run *run, p game.Position, alpha int) (value, action int)
	// nodes is the number of calls of the recursive search since the last reset.
	nodes() uint64
	fill() float64
	reset()
}

// New returns a solver with all of its memory allocated. The error names an option that is out of range.
func New(board *game.Board, o Options) (*Solver, error) {
	switch {
	case o.TableMiB < 0:
		return nil, fmt.Errorf("solver: TableMiB is %d; it must not be negative", o.TableMiB)
	case o.Threads < 0:
		return nil, fmt.Errorf("solver: Threads is %d; it must not be negative", o.Threads)
	}
	if o.TableMiB == 0 {
		if o.TableMiB = 256; board.Cells() <= 42 {
			o.TableMiB = 16 // see Decisions
		}
	}
	o.Threads = max(o.Threads, 1)
	s := &Solver{board: board, options: o}
	if board.Wide() || !board.Rules().Gravity || o.Bounded && fastMiB(board) > o.TableMiB {
		s.prover = newGeneral(board, o.TableMiB<<20)
	} else {
		s.prover = newFast(board, o.TableMiB<<20, o.Threads, maxScore(board))
	}
	return s, nil
}

// Board is the board that the solver was made for.
func (s *Solver) Board() *game.Board { return s.board }

// Reset discards the results of earlier positions. It costs almost nothing.
func (s *Solver) Reset() { s.prover.reset() }

// Solve finds the exact score and an action that reaches it. If ctx ends first, the error wraps its cause, and the result has only the
// nodes and the time.
func (s *Solver) Solve(ctx context.Context, p game.Position) (Result, error) {
	return s.call(ctx, func(r *run) Result { return s.solve(r, p) })
}

// Score is Solve without the search for a best action: Best may be -1.
func (s *Solver) Score(ctx context.Context, p game.Position) (Result, error) {
	return s.call(ctx, func(r *run) Result {
		r.bare = true
		return s.solve(r, p)
	})
}

// WDL finds only the result: Score is the sign of the exact score, and Best is an action that keeps the result. It is cheaper than Solve.
func (s *Solver) WDL(ctx context.Context, p game.Position) (Result, error) {
	return s.call(ctx, func(r *run) Result {
		r.wdl = true
		res := s.solve(r, p)
		res.Score = min(max(res.Score, -1), 1)
		return res
	})
}

// Scores finds the exact score of every action for the side to move, and the best action. Actions that cannot be played have NoMove; if the
// game is over, all have. scores is nil on error.
func (s *Solver) Scores(ctx context.Context, p game.Position) (scores []int, result Result, err error) {
	result, err = s.call(ctx, func(r *run) Result {
		if s.board.Result(p) != game.Ongoing {
			scores = make([]int, s.board.Actions())
			for a := range scores {
				scores[a] = NoMove
			}
			return s.solve(r, p)
		}
		r.bare = true
		best := Result{Score: NoMove, Best: -1, Booked: true}
		for a := range s.board.Actions() {
			scores = append(scores, NoMove)
			if !s.board.CanPlay(p, a) || r.ended() {
				continue
			}
			res := s.solve(r, s.board.Play(p, a))
			scores[a] = -res.Score
			best.Booked = best.Booked && res.Booked
			if scores[a] > best.Score {
				best.Score, best.Best = scores[a], a
			}
		}
		return best
	})
	if err != nil {
		scores = nil
	}
	return scores, result, err
}

// call runs work under ctx and fills in its nodes and time.
func (s *Solver) call(ctx context.Context, work func(*run) Result) (Result, error) {
	r := &run{solver: s, ctx: ctx, start: time.Now(), before: s.prover.nodes()}
	if s.options.Nodes > 0 {
		r.limit, r.least, r.most = r.before+s.options.Nodes, math.MinInt, math.MaxInt
	}
	var res Result
	if ctx.Err() == nil {
		res = work(r)
	}
	res.Nodes, res.Elapsed = s.prover.nodes()-r.before, time.Since(r.start)
	if ctx.Err() != nil {
		return Result{Best: -1, Nodes: res.Nodes, Elapsed: res.Elapsed}, fmt.Errorf("solver: stopped: %w", context.Cause(ctx))
	}
	if s.options.Nodes > 0 && r.spent.Load() {
		return Result{Best: -1, Nodes: res.Nodes, Elapsed: res.Elapsed}, fmt.Errorf("solver: limit of %d nodes: %w", s.options.Nodes, ErrNodes)
	}
	return res, nil
}
