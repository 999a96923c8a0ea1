package service

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
)

// SolverPlatform is the platform of a model that answers with exact scores, or bounds on them.
const SolverPlatform = "evald_solver"

// solverTable is the size of a solver's transposition table in MiB. It is the solver's own default for 7x6, and fits the processor's cache.
const solverTable = 16

// SolverBytes is the memory per concurrently solved position, in bytes.
const SolverBytes = solverTable << 20

// NewSolver returns the exact solver as a model, which solves up to atOnce positions concurrently. Each row is a batch of its own, so that
// clients take turns by rows. One thread with its own table searches a row for at most the request's number of nodes. The result depends
// only on the row and the number of nodes. books may be nil.
func NewSolver(books func(game.Rules) solver.Book, atOnce int) Loaded {
	if books == nil {
		books = func(game.Rules) solver.Book { return nil }
	}
	return Loaded{
		Backend: &solving{books: books}, Version: "1", Platform: SolverPlatform, InFlight: atOnce,
		Describe: "exact scores of all moves by alpha-beta, or bounds on them",
	}
}

// solving is the backend of the model solver. If the context has a solveJob, it also stores the bounds there.
type solving struct {
	books func(game.Rules) solver.Book

	mu   sync.Mutex
	free []*solver.Solver // idle solvers; at most as many as concurrent batches
}

// solveJob is a request for the solver and its results.
type solveJob struct {
	nodes uint64 // maximum per row

	mu    sync.Mutex
	found map[game.Position]solvedRow
}

// solvedRow has the solver's bounds on the score of each move of a position. Equal bounds are the exact score.
type solvedRow struct {
	low, high []int32 // [A]; solver.NoMove for a move that cannot be played
	nodes     uint64
}

type solveKey struct{}

// Attributes implements eval.Backend.
func (*solving) Attributes() eval.Attributes { return eval.Attributes{Rows: 1, Invariant: true} }

// Compute implements eval.Backend.
func (s *solving) Compute(ctx context.Context, b *eval.Batch) error {
	job, ok := ctx.Value(solveKey{}).(*solveJob)
	if !ok {
		job = &solveJob{nodes: uint64(DefaultSettings.Nodes), found: map[game.Position]solvedRow{}}
	}
	one, err := s.take(b.Board)
	if err != nil {
		return err
	}
	defer s.give(one)
	for i, p := range b.Pos {
		job.mu.Lock()
		row, twice := job.found[p]
		job.mu.Unlock()
		if !twice {
			row = solvedRow{low: make([]int32, b.Board.Actions()), high: make([]int32, b.Board.Actions())}
			r, err := one.Bounds(ctx, p, job.nodes, row.low, row.high)
			if err != nil {
				return err
			}
			row.nodes = r.Nodes
			job.mu.Lock()
			job.found[p] = row
			job.mu.Unlock()
		}
		row.answer(b, i)
	}
	return nil
}

// take returns a solver for a board, an idle one if possible. The caller returns it with give.
func (s *solving) take(board *game.Board) (*solver.Solver, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.free) - 1
	i := slices.IndexFunc(s.free, func(one *solver.Solver) bool { return one.Board().Rules() == board.Rules() })
	if last >= 0 {
		one := s.free[max(i, 0)]
		s.free[max(i, 0)] = s.free[last]
		s.free = slices.Delete(s.free, last, last+1)
		if i >= 0 {
			return one, nil
		} // dropping the other solver lets its memory be freed before the new one allocates
	}
	return solver.New(board, solver.Options{TableMiB: solverTable, Bounded: true, Book: s.books(board.Rules())})
}

func (s *solving) give(one *solver.Solver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, one)
}

// answer writes row i of a batch. All results that the bounds allow are equally likely, and so are all moves that may be the best.
func (r *solvedRow) answer(b *eval.Batch, i int) {
	least, most := slices.Max(r.low), slices.Max(r.high)
	var best game.Bits
	for a, high := range r.high {
		if high >= least && high != solver.NoMove {
			best = best.Or(b.Board.Cell(b.Pos[i], a))
		}
	}
	open := [3]bool{most > 0, least <= 0 && most >= 0, least < 0}
	n := float32(0)
	for _, is := range open {
		if is {
			n++
		}
	}
	for k, is := range open {
		if b.WDLRow(i)[k] = 0; is {
			b.WDLRow(i)[k] = 1 / n
		}
	}
	b.SharePolicy(i, best)
	b.Source[i] = eval.Solved
}

// leastCost is the minimum cost that is charged for a row, where 1 is a row of DefaultSettings.Nodes. Even a row of few nodes may need a
// new table, for a board that no solver has.
const leastCost = 0.02

// solve solves the rows of a batch, and also returns the bounds.
func (s *Server) solve(ctx context.Context, m *model, r *request, b *eval.Batch) (*found, error) {
	job := &solveJob{nodes: uint64(cmp.Or(r.nodes, m.Nodes)), found: map[game.Position]solvedRow{}}
	actions := b.Board.Actions()
	caller := r.caller(false)
	caller.Cost = max(leastCost, float64(job.nodes)/float64(DefaultSettings.Nodes))
	if err := r.ask(context.WithValue(ctx, solveKey{}, job), r.evaluator(m, caller, &r.waited), b); err != nil {
		return nil, err
	}
	f := founds.Get().(*found)
	n := len(b.Pos)
	f.low, f.high, f.nodes = zeros(f.low, n*actions), zeros(f.high, n*actions), zeros(f.nodes, n)
	for i, p := range b.Pos {
		row, ok := job.found[p]
		if !ok { // the game is over
			for a := range actions {
				f.low[i*actions+a], f.high[i*actions+a] = solver.NoMove, solver.NoMove
			}
			continue
		}
		copy(f.low[i*actions:], row.low)
		copy(f.high[i*actions:], row.high)
		f.nodes[i] = row.nodes
	}
	return f, nil
}
