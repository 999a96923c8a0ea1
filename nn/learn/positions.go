package learn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"

	"github.com/google/renameio/v2"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/engine/solver"
)

// solvable is how many empty cells leave a position that the solver needs no more than some hundredths of a second for.
const solvable = 30

// firstPly is that of the earliest positions that are solved.
func firstPly(b *game.Board) int { return max(0, b.Cells()-solvable) }

// openPositions reads the run's positions, or makes them.
func (r *Run) openPositions(ctx context.Context) error {
	path := r.path("positions.txt")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		var games [][]int
		if games, err = SensiblePositions(ctx, r.board, r.Config.Positions, r.Config.Seed); err != nil {
			return fmt.Errorf("positions: %w", err)
		}
		if text, err = r.solve(ctx, games); err != nil {
			return fmt.Errorf("positions: %w", err)
		}
		err = renameio.WriteFile(path, text, 0o644)
	}
	if err != nil {
		return err
	}
	if r.positions, err = score.Read(bytes.NewReader(text)); err != nil {
		return fmt.Errorf("%s: %w: remove it, and it is made again", path, err)
	}
	return nil
}

// How positions come about: each move is drawn by the visits of a small search with the bitsquares heuristic, as many
// games at once as a batch holds, and from each game there is one position at most.
const (
	sensibleVisits = 32
	sensibleGames  = 256
)

// SensiblePositions are distinct positions, also up to mirror images, that come up where both sides play with some
// sense, as the moves that lead there; none of them is over. Their plies are spread evenly from where the solver is
// fast. There are fewer than n where a small board has no more.
func SensiblePositions(ctx context.Context, b *game.Board, n int, seed uint64) ([][]int, error) {
	bitsquares, err := heuristic.New(eval.Bitsquares)
	if err != nil {
		return nil, err
	}
	config := mcts.DefaultConfig()
	config.Noise, config.Seed, config.Transpositions = 0.25, seed, false
	search, err := mcts.NewEvaluator(bitsquares, config, mcts.Limits{Visits: sensibleVisits, Batch: sensibleGames})
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(seed, 0x706f736974696f6e))
	seen := map[game.Position]bool{}
	var all [][]int
	const enough = 8 // rounds in a row that find nothing new
	for misses := 0; len(all) < n && misses < enough; misses++ {
		games, err := sensibleRound(ctx, b, search, random)
		if err != nil {
			return nil, err
		}
		for _, g := range games {
			if key, _ := b.Canonical(g.position); !seen[key] && len(all) < n {
				seen[key] = true
				all = append(all, g.moves)
				misses = 0
			}
		}
	}
	return all, nil
}

// sensible is a game up to the ply that was drawn for it.
type sensible struct {
	moves    []int
	position game.Position
	plies    int
}

// sensibleRound plays some games side by side, and gives those that were not over before their ply.
func sensibleRound(ctx context.Context, b *game.Board, e eval.Evaluator, random *rand.Rand) (done []*sensible, err error) {
	var open []*sensible
	for range sensibleGames {
		open = append(open, &sensible{plies: firstPly(b) + random.IntN(b.Cells()-firstPly(b))})
	}
	batch := &eval.Batch{}
	for len(open) > 0 {
		var next []*sensible
		for _, g := range open {
			switch {
			case b.Result(g.position) != game.Ongoing:
			case len(g.moves) == g.plies:
				done = append(done, g)
			default:
				next = append(next, g)
			}
		}
		open = next
		batch.Reset(b, len(open))
		for i, g := range open {
			batch.Pos[i] = g.position
		}
		if err := e.Evaluate(ctx, batch); err != nil {
			return nil, err
		}
		for i, g := range open {
			a := eval.Draw(batch.PolicyRow(i), random.Float64())
			g.moves = append(g.moves, a)
			g.position = b.Play(g.position, a)
		}
	}
	return done, nil
}

// solve gives the lines of positions and their exact scores.
func (r *Run) solve(ctx context.Context, games [][]int) ([]byte, error) {
	lines := make([]string, len(games))
	err := r.solveAll(ctx, len(games), "exact scores for measuring", func(i int, s *solver.Solver) error {
		var p game.Position
		for _, a := range games[i] {
			p = r.board.Play(p, a)
		}
		scores, err := exact(ctx, s, p)
		lines[i] = game.FormatNotation(r.board.Rules(), games[i])
		for _, s := range scores {
			lines[i] += fmt.Sprintf(" %d", s)
		}
		return err
	})
	var text bytes.Buffer
	for _, line := range lines {
		fmt.Fprintln(&text, line)
	}
	return text.Bytes(), err
}

// exact is the scores of a position as engine/score has them.
func exact(ctx context.Context, s *solver.Solver, p game.Position) ([]int, error) {
	scores, _, err := s.Scores(ctx, p)
	for a := range scores {
		if scores[a] == solver.NoMove {
			scores[a] = score.Illegal
		}
	}
	return scores, err
}

// solveAll calls work for 0 to n-1 with a solver for each thread.
func (r *Run) solveAll(ctx context.Context, n int, what string, work func(i int, s *solver.Solver) error) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, max(1, r.threads))
	var mu sync.Mutex // of progress
	for t := range errs {
		wg.Go(func() {
			s, err := solver.New(r.board, solver.Options{Threads: 1})
			for i := int(next.Add(1)) - 1; i < n && err == nil; i = int(next.Add(1)) - 1 {
				err = work(i, s)
				mu.Lock()
				r.progress(fmt.Sprintf("%s: %d of %d positions", what, i+1, n))
				mu.Unlock()
			}
			errs[t] = err
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
