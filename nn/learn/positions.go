package learn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/sample"
	"github.com/evald/evald/engine/score"
)

// solvable is the number of empty cells up to which the solver takes at most a few hundredths of a second.
const solvable = 30

// firstPly returns the minimum number of stones of positions that are solved.
func firstPly(b *game.Board) int { return max(0, b.Cells()-solvable) }

// openPositions reads or makes the run's positions of each board and kind of play. It omits positions with more than 30 empty cells, so
// that a run does not begin with hours of solving. So on 7x6 positions have at least 12 stones: of 1000 openings (4 to 12 stones) a hundred
// remain, and solving 1000 of each kind takes a minute on two cores. Larger boards may have no positions of a kind.
func (r *Run) openPositions(ctx context.Context) error {
	if old := r.path("positions.txt"); exists(old) {
		return fmt.Errorf("%s: the networks of this run were measured only on it, which evald no longer supports: resume the run with the version that began it, or begin another", old)
	}
	r.positions = nil
	for _, b := range r.boards {
		for _, kind := range sample.Kinds() {
			positions, err := r.positionsOf(ctx, b, kind)
			if err != nil {
				return err
			}
			r.positions = append(r.positions, positions...)
		}
	}
	return nil
}

// positionsOf reads or makes the file for one kind of play on a board.
func (r *Run) positionsOf(ctx context.Context, b *game.Board, kind sample.Kind) ([]score.Position, error) {
	path := r.path("positions", r.sub(b), string(kind)+".txt")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = r.solvedPositions(ctx, b, kind); err != nil {
			return nil, fmt.Errorf("positions: %w", err)
		}
		err = durable.WriteFile(path, text)
	}
	if err != nil {
		return nil, err
	}
	if err := score.CheckSeal(text); err != nil {
		return nil, fmt.Errorf("%s %w: remove it, and it is made again", path, err)
	}
	positions, err := score.Read(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w: remove it, and it is made again", path, err)
	}
	for i := range positions {
		positions[i].Kind = string(kind)
	}
	return positions, nil
}

// solvedPositions makes the file for one kind of play on a board.
func (r *Run) solvedPositions(ctx context.Context, b *game.Board, kind sample.Kind) ([]byte, error) {
	var games [][]int
	if _, last := kind.Plies(b); last >= firstPly(b) {
		var err error
		start := time.Now()
		games, err = sample.Draw(ctx, b, kind, r.Config.Positions, r.Config.Seed, func(done int) {
			r.progress(fmt.Sprintf("positions%s, %s, drawing", r.of(b), kind) + pace(done, r.Config.Positions, start))
		})
		if err != nil {
			return nil, err
		}
		games = slices.DeleteFunc(games, func(moves []int) bool { return len(moves) < firstPly(b) })
	}
	var positions []game.Position
	for _, moves := range games {
		positions = append(positions, b.PlayMoves(moves))
	}
	solved, err := r.solve(ctx, b, positions, fmt.Sprintf("positions%s, %s, exact scores", r.of(b), kind))
	if err != nil {
		return nil, err
	}
	var lines []byte
	for i, p := range solved {
		lines = score.AppendLine(lines, game.FormatNotation(b.Rules(), games[i]), p.Scores)
	}
	head := fmt.Sprintf("# %v, %s play, seed %d: those of %d positions that leave %d empty cells or fewer", b.Rules(), kind, r.Config.Seed, r.Config.Positions, solvable)
	return score.Seal(head, lines), nil
}

// solve computes exact scores with all of the run's threads.
func (r *Run) solve(ctx context.Context, b *game.Board, positions []game.Position, what string) ([]score.Position, error) {
	start, done := time.Now(), 0
	return score.Solve(ctx, b, positions, score.SolveOptions{Threads: r.by.Threads, Solved: func(int, score.Position) error {
		done++
		r.progress(what + pace(done, len(positions), start))
		return nil
	}})
}

// pace returns a text with the number of positions done, the rate and the remaining time.
func pace(done, all int, start time.Time) string {
	rate := float64(done) / time.Since(start).Seconds()
	left := time.Duration(float64(all-done) / rate * float64(time.Second))
	return fmt.Sprintf(": %d of %d positions, %.4g/s, %v left", done, all, rate, left.Round(time.Second))
}
