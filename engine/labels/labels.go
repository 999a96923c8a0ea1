// Package labels makes records of positions with exact results, by the million, for training.
//
// Positions are those of games of package sample: of an opening the one that was drawn, of other kinds also those on the way
// there, from 12 stones on (on 7x6). Of the positions of 15 stones every second is taken by chance, of 14 every fourth and so
// on, because with each stone less the solver takes about twice as long. The solver finds for each move whether it wins, draws or loses, which is much cheaper than exact scores. A record's visits are 1 for
// each move that keeps the best result. Each position is followed by the record of the position after a random move, whose
// result is known by then; it has no visits. So results are also learned for positions after bad moves.
//
// What file number n holds follows from the kind, the seed and n alone, so a killed run goes on with the first missing file.
package labels

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/sample"
	"github.com/evald/evald/engine/solver"
)

// PerFile is the number of games of a file.
const PerFile = 1000

// Path is the path of file number n of a kind.
func Path(dir string, k sample.Kind, n int) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%05d.parquet", k, n))
}

// Write makes file number n of a kind, and returns the number of its records. The solver is of the same board and is used by
// nobody else meanwhile. If ctx ends, there is no file.
func Write(ctx context.Context, s *solver.Solver, k sample.Kind, seed uint64, n int, path string) (records int, err error) {
	board := s.Board()
	seed = rand.New(rand.NewPCG(seed, uint64(n))).Uint64() // of this file
	games, err := sample.Draw(ctx, board, k, PerFile, seed, nil)
	if err != nil {
		return 0, err
	}
	w, err := record.Create(path)
	if err != nil {
		return 0, err
	}
	defer w.Abort()
	s.Reset()
	r := rand.New(rand.NewPCG(seed, 1))
	for number, moves := range games {
		at := game.Position{}
		for ply := 0; ply <= len(moves); ply++ {
			if ply > 0 {
				at = board.Play(at, moves[ply-1])
			}
			if k == sample.Openings && ply < len(moves) || k != sample.Openings && r.Float64() >= share(board, ply) {
				continue
			}
			some, err := solved(ctx, s, at, r)
			if err != nil {
				return 0, err
			}
			for _, rec := range some {
				rec.Game = int64(n)*PerFile + int64(number)
				if err := w.Write(&rec); err != nil {
					return 0, err
				}
				records++
			}
		}
	}
	return records, w.Close()
}

// share is the share of the positions of so many stones on the way that are taken.
func share(b *game.Board, stones int) float64 {
	least, all := b.Cells()*2/7, b.Cells()*2/5
	if stones < least {
		return 0
	}
	return math.Exp2(float64(min(0, stones-all)))
}

// solved are the records of an unfinished position and of that after a random move, if the game goes on there.
func solved(ctx context.Context, s *solver.Solver, p game.Position, r *rand.Rand) ([]record.Record, error) {
	board := s.Board()
	results := make([]int8, board.Actions()) // of each move, for the side to move
	best := int8(-1)
	var legal []int
	for a := range results {
		if !board.CanPlay(p, a) {
			continue
		}
		result, err := s.WDL(ctx, board.Play(p, a))
		if err != nil {
			return nil, err
		}
		legal = append(legal, a)
		results[a] = int8(-result.Score)
		best = max(best, results[a])
	}
	rec := record.Record{
		Rules: board.Rules(), Position: p, Visits: make([]uint32, len(results)), Q: float32(best), Z: best, Ply: p.Plies(), Source: eval.Solved, Weight: 1,
	}
	for _, a := range legal {
		if results[a] == best {
			rec.Visits[a] = 1
		}
	}
	all := []record.Record{rec}
	a := legal[r.IntN(len(legal))]
	if next := board.Play(p, a); board.Result(next) == game.Ongoing {
		z := -results[a]
		all = append(all, record.Record{Rules: board.Rules(), Position: next, Q: float32(z), Z: z, Ply: next.Plies(), Source: eval.Solved, Weight: 1})
	}
	return all, nil
}
