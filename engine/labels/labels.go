// Package labels makes millions of training records of positions with exact results.
//
// The positions come from games of package sample, or from records of self-play. From an opening of package sample only the last position
// is used; from other games also the earlier ones, from 12 stones on (on 7x6). Of the positions with 15 stones a random half is used, of
// those with 14 a quarter and so on, because each stone less doubles the solver's time. Callers can request other numbers of stones
// (Plies), and all positions of the first plies, whose results ship. For each move, the solver finds whether it wins, draws or loses, which
// is much cheaper than exact scores. A record's visits are 1 for each move that keeps the best result. After each position follows the
// record of the position after a random move, whose result is then known; it has no visits. So networks also learn the results of positions
// after bad moves.
//
// If solver.Options limits the nodes, positions are omitted if the result of a move takes more.
//
// A learner, the network that will be trained on the records, can choose the positions that are worth the solver's time (Options), and the
// records that are worth training on (Pool.Ask).
//
// The contents of a file depend only on the seed, the kind of play and the file's number, or on its source records. So a killed run resumes
// with the first missing file.
package labels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/sample"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/engine/solver/book"
)

// PerFile is the number of games of a file.
const PerFile = 1000

// Path returns the path of file number n of a kind.
func Path(dir string, k sample.Kind, n int) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%05d.parquet", k, n))
}

// Plies is the minimum and maximum number of stones of the positions. The zero value means the kind's numbers, with fewer positions of
// those that take long.
type Plies struct{ From, To int }

// Options select the positions.
type Options struct {
	Seed  uint64
	Plies Plies

	// Learner, if not nil, evaluates each position before the solver does. Most positions of which it is certain are omitted, and the
	// others have more weight: see unsure.
	Learner *eval.Evaluator
}

// Write makes file number n of a kind, and returns its number of records. The solver must be for the same board, and must not be in use
// elsewhere. If ctx ends, no file is written.
func Write(ctx context.Context, s *solver.Solver, k sample.Kind, o Options, n int, path string) (records int, err error) {
	board, plies := s.Board(), o.Plies
	seed := rand.New(rand.NewPCG(o.Seed, uint64(n))).Uint64() // of this file
	length := plies                                           // numbers of plies of the games
	if plies == (Plies{}) {
		length.From, length.To = k.Plies(board)
	}
	games, err := sample.DrawPlies(ctx, board, k, length.From, length.To, PerFile, seed, nil)
	if err != nil {
		return 0, err
	}
	f, err := create(s, path, seed)
	if err != nil {
		return 0, err
	}
	defer f.records.Abort()
	f.learner = o.Learner
	for i, moves := range games {
		number := int64(n)*PerFile + int64(i)
		at := game.Position{}
		for ply := 0; ply <= len(moves); ply++ {
			if ply > 0 {
				at = board.Play(at, moves[ply-1])
			}
			switch {
			case k == sample.Openings && ply < len(moves), ply < plies.From, k != sample.Openings && plies == (Plies{}) && !f.takes(ply):
				continue
			}
			if err := f.take(ctx, at, number); err != nil {
				return 0, err
			}
		}
	}
	return f.close(ctx)
}

// WriteFrom makes a file from the positions of records, such as those of self-play, and returns its number of records. The positions keep
// their games' numbers. Records of finished games are ignored. For the solver, see Write. Records of another game than the solver's are an
// error.
func WriteFrom(ctx context.Context, s *solver.Solver, from string, o Options, path string) (records int, err error) {
	r, err := record.Open(from)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	f, err := create(s, path, o.Seed)
	if err != nil {
		return 0, err
	}
	defer f.records.Abort()
	f.learner = o.Learner
	var rec record.Record
	for {
		err := r.Next(&rec)
		if errors.Is(err, io.EOF) {
			return f.close(ctx)
		}
		if err != nil {
			return 0, err
		}
		if rec.Rules != s.Board().Rules() {
			return 0, fmt.Errorf("%s: is of %v, and the results are of %v", r.Where(), rec.Rules, s.Board().Rules())
		}
		stones := rec.Position.Plies()
		if o.Plies != (Plies{}) && (stones < o.Plies.From || stones > o.Plies.To) {
			continue
		}
		if rec.GameOver != game.NotOver || o.Plies == (Plies{}) && !f.takes(stones) {
			continue
		}
		if err := f.take(ctx, rec.Position, rec.Game); err != nil {
			return 0, err
		}
	}
}

// WriteBook makes a file of all positions in the book with the given number of stones, and returns its number of records. The records
// contain the moves that keep the result, except where the book does not reach the next ply. Each position is a game of its own.
func WriteBook(ctx context.Context, s *solver.Solver, b *book.Lazy, stones int, path string) (records int, err error) {
	f, err := create(s, path, 0)
	if err != nil {
		return 0, err
	}
	defer f.records.Abort()
	for p := range b.Positions(stones) {
		rec := fromResult(s.Board(), p, int(b.Result(p).Value()))
		if stones < b.Reach() {
			results, err := MoveResults(ctx, s, p)
			if err != nil {
				return 0, err
			}
			rec = record.FromScores(s.Board(), p, results)
		}
		rec.Game = int64(f.written)
		if err := f.records.Write(&rec); err != nil {
			return 0, err
		}
		f.written++
	}
	return f.written, f.records.Close()
}

// WriteThese makes a file of unfinished positions, and returns its number of records. Each position is a game of its own; games are
// numbered from first. For the solver, see Write.
func WriteThese(ctx context.Context, s *solver.Solver, positions []game.Position, first int, path string) (records int, err error) {
	f, err := create(s, path, uint64(first))
	if err != nil {
		return 0, err
	}
	defer f.records.Abort()
	for i, p := range positions {
		if err := f.take(ctx, p, int64(first+i)); err != nil {
			return 0, err
		}
	}
	return f.close(ctx)
}

// file is a file of records that is being written.
type file struct {
	solver  *solver.Solver
	learner *eval.Evaluator // nil if all positions are solved
	random  *rand.Rand
	records *record.Writer
	written int

	waiting eval.Batch // positions for the learner, and their games
	games   []int64
}

// create begins a file, which the caller must close or abort. seed determines its random choices.
func create(s *solver.Solver, path string, seed uint64) (*file, error) {
	w, err := record.Create(path)
	if err != nil {
		return nil, err
	}
	s.Reset()
	return &file{solver: s, random: rand.New(rand.NewPCG(seed, 1)), records: w}, nil
}

// close completes the file, and returns its number of records.
func (f *file) close(ctx context.Context) (records int, err error) {
	if err := f.choose(ctx); err != nil {
		return 0, err
	}
	return f.written, f.records.Close()
}

// takes decides at random whether a position with the given number of stones is used.
func (f *file) takes(stones int) bool { return f.random.Float64() < share(f.solver.Board(), stones) }

// take writes the records of an unfinished position of a game. If there is a learner, they are written later, with probability unsure.
func (f *file) take(ctx context.Context, p game.Position, number int64) error {
	if f.learner == nil {
		return f.write(ctx, p, number, 1)
	}
	f.waiting.Pos, f.games = append(f.waiting.Pos, p), append(f.games, number)
	if len(f.games) < askRows {
		return nil
	}
	return f.choose(ctx)
}

// write solves an unfinished position of a game and writes its records.
func (f *file) write(ctx context.Context, p game.Position, number int64, weight float32) error {
	some, err := solved(ctx, f.solver, p, f.random)
	if errors.Is(err, solver.ErrNodes) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, rec := range some {
		rec.Game, rec.Weight = number, weight
		if err := f.records.Write(&rec); err != nil {
			return err
		}
		f.written++
	}
	return nil
}

// share is the fraction of earlier positions of games with the given number of stones that is used.
func share(b *game.Board, stones int) float64 {
	least, all := b.Cells()*2/7, b.Cells()*2/5
	if stones < least {
		return 0
	}
	return math.Exp2(float64(min(0, stones-all)))
}

// solved returns the record of an unfinished position, and that of the position after a random move unless that move ends the game.
func solved(ctx context.Context, s *solver.Solver, p game.Position, r *rand.Rand) ([]record.Record, error) {
	board := s.Board()
	results, err := MoveResults(ctx, s, p)
	if err != nil {
		return nil, err
	}
	all := []record.Record{record.FromScores(board, p, results)}
	legal := board.Legal(p)
	a := board.Action(legal.Nth(r.IntN(legal.OnesCount())).First())
	if next := board.Play(p, a); board.Result(next) == game.Ongoing {
		all = append(all, fromResult(board, next, -results[a]))
	}
	return all, nil
}

// MoveResults returns the result of each action in an unfinished position: 1, 0 or -1 for the side to move, or solver.NoMove.
func MoveResults(ctx context.Context, s *solver.Solver, p game.Position) ([]int, error) {
	board := s.Board()
	shipped := book.Results(board.Rules())
	results := make([]int, board.Actions())
	for a := range results {
		if results[a] = solver.NoMove; !board.CanPlay(p, a) {
			continue
		}
		next := board.Play(p, a)
		if shipped != nil {
			if known := shipped.Result(next); known != game.Ongoing {
				results[a] = -int(known.Value())
				continue
			}
		}
		result, err := s.WDL(ctx, next)
		if err != nil {
			return nil, err
		}
		results[a] = -result.Score
	}
	return results, nil
}

// fromResult returns the record of an unfinished position of which only the result is known, 1, 0 or -1 for the side to move.
func fromResult(b *game.Board, p game.Position, z int) record.Record {
	return record.Record{Rules: b.Rules(), Position: p, Q: float32(z), Z: int8(z), Ply: p.Plies(), Source: eval.Solved, Weight: 1, Game: record.NoGame}
}
