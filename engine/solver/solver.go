// Package solver finds the exact value of ConnectX positions by alpha-beta search.
//
// # Scores
//
// A score is exact and for the side to move. s > 0: it wins, and s = (cells + 1 - stones on the board when the winning
// stone falls, that one not counted) / 2 rounded down, so that faster wins score more. 0 is a draw. Losses are negative.
package solver

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/evald/evald/engine/game"
)

// NoMove is the score of an action that cannot be played.
const NoMove = math.MinInt

// Options of a solver. The zero value is ready for use.
type Options struct {
	TableMiB int  // memory of the transposition table; 0 means 256
	MTD      bool // choose windows by MTD(f) instead of bisection

	// Book, if not nil, is asked before a search.
	Book Book

	// Progress, if not nil, is called a few times a second by the thread that called Solve.
	Progress func(Progress)
}

// Book knows some positions' exact scores.
type Book interface {
	// Score is the exact score of p for the side to move, if the book has it.
	Score(p game.Position) (score int, ok bool)
}

// Progress of a search that runs.
type Progress struct {
	Lower, Upper int           // the score is known to be in this range
	Window       int           // the search now asks: is it more than this?
	Nodes        uint64        // of all threads
	Elapsed      time.Duration // since the search began
	Fill         float64       // fraction of the table in use
}

// Result of a search.
type Result struct {
	Score  int
	Best   int    // an action that reaches Score; -1 where the game is over
	Nodes  uint64 // calls of the recursive search
	Booked bool   // the book answered
}

// Solver solves positions of one board. It is not safe for concurrent use.
type Solver struct {
	board   *game.Board
	options Options
	prover  prover
}

// prover answers whether a position is worth more than alpha.
type prover interface {
	// prove returns a bound on p's score: above alpha a lower bound, and an action that reaches it; else an upper bound.
	prove(p game.Position, alpha int) (value, action int)
	reset()
}

// New prepares a solver and takes its memory.
func New(board *game.Board, o Options) (*Solver, error) {
	if o.TableMiB < 0 {
		return nil, fmt.Errorf("solver: table of %d MiB: must not be negative", o.TableMiB)
	}
	if o.TableMiB == 0 {
		o.TableMiB = 256
	}
	s := &Solver{board: board, options: o}
	s.prover = newFast(board, o)
	return s, nil
}

// Reset empties the transposition table.
func (s *Solver) Reset() { s.prover.reset() }

// Solve finds the exact score and an action that reaches it.
func (s *Solver) Solve(ctx context.Context, p game.Position) (Result, error) {
	f := s.prover.(*fast)
	f.workers[0].nodes = 0
	cells, n := s.board.Cells(), p.Plies()
	lower, upper := -(cells-n)/2, (cells+1-n)/2
	best := -1
	for lower < upper {
		alpha := lower + (upper-lower)/2
		if upper > 0 && upper > -lower {
			alpha = upper/2
		} else if lower < 0 {
			alpha = lower / 2
		}
		alpha = max(min(alpha, upper-1), lower)
		v, a := s.prover.prove(p, alpha)
		if v > alpha {
			lower, best = v, a
		} else {
			upper = v
		}
	}
	return Result{Score: lower, Best: best, Nodes: f.workers[0].nodes}, nil
}

const pollEvery = 1024

type progress struct{}

func (w *worker) poll() {}

// fast is the search for boards of at most 64 bits.
type fast struct {
	board   *game.Board
	geo     *geometry
	table   *table
	workers []*worker
}

func newFast(b *game.Board, o Options) *fast {
	g := newGeometry(b)
	t := newTable(o.TableMiB, g.stride*g.columns, int(g.columns), (g.cells+1)/2)
	w := &worker{geometry: g, table: t, frames: make([]node, g.cells*int(g.columns)), mirrored: g.hasMirror()}
	return &fast{board: b, geo: g, table: t, workers: []*worker{w}}
}

func (f *fast) reset() { f.table.reset(); clear(f.workers[0].history[:]) }

func (f *fast) prove(p game.Position, alpha int) (value, action int) {
	w := f.workers[0]
	own, all := p.Own.Lo, p.All.Lo
	n := node{own: own, all: all, stones: int32(p.Plies())}
	empty := w.full &^ all
	n.win, n.lose = w.threats(own)&empty, w.threats(all^own)&empty
	landing := w.landing(all)
	if n.win&landing != 0 {
		return (w.cells + 1 - int(n.stones)) / 2, -1
	}
	n.moves = quiet(landing, n.lose)
	if n.moves == 0 {
		return -(w.cells - int(n.stones)) / 2, -1
	}
	n.mixed = f.table.mix(w.key(own, all))
	v := w.search(&n, alpha, 0, -1)
	return v, 0
}
