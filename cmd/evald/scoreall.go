package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/engine/solver"
)

// bytesOfPosition is the maximum memory of score.All for each position, in bytes.
const bytesOfPosition = 24

// mostAll is the maximum number of positions that --all holds in memory.
const mostAll = 1 << 28

// measureAll returns the reports of all subjects over the positions of the games of --all.
func (c *scoreCmd) measureAll(ctx context.Context, s streams, subjects []ask.Subject, boards []*game.Board) (reports []namedReport, err error) {
	meters := make([]score.Meter, len(subjects))
	for i := range meters {
		meters[i] = score.Meter{Evaluator: subjects[i].Evaluator, ByStones: true}
	}
	measured := 0
	for _, b := range boards {
		err := c.eachPosition(ctx, s.err, b, func(part []score.Position) error {
			for i := range meters {
				if err := meters[i].Add(ctx, part, nil); err != nil {
					return fmt.Errorf("%s: %w", subjects[i].Name, err)
				}
			}
			measured += len(part)
			return nil
		})
		if err := orInterrupted(ctx, err, s.err, "; %d positions were measured; a table is of all, so there is none", measured); err != nil {
			return nil, err
		}
	}
	for i, subject := range subjects {
		reports = append(reports, c.report(subject, meters[i].Report()))
	}
	return reports, nil
}

// eachPosition visits the positions of a board, or --sample of them, with exact scores.
func (c *scoreCmd) eachPosition(ctx context.Context, stderr io.Writer, b *game.Board, visit func([]score.Position) error) error {
	progress := newProgress(stderr, 0)
	defer progress.clear()
	name := b.Rules().String()
	if c.Sample != nil {
		return c.eachDrawn(ctx, progress, b, visit)
	}
	var show func(int)
	_, err := score.All(ctx, b, score.AllOptions{Most: int(min(mostAll, uint64(ownMemory())/bytesOfPosition)), Progress: func(done, total int) {
		switch {
		case total == 0:
			progress.text(fmt.Sprintf("%s, finding positions: %d", name, done))
			return
		case show == nil:
			show = progress.counting(name, 0, total)
		}
		show(done)
	}}, visit)
	if errors.Is(err, score.ErrTooMany) {
		return fmt.Errorf("--all %s: %w for this machine's memory: give --sample 1000000 to measure that number of them", name, score.ErrTooMany)
	}
	return err
}

// drawnRows is the number of positions that eachDrawn solves and passes on together.
const drawnRows = 1 << 16

// eachDrawn visits --sample positions of a board.
func (c *scoreCmd) eachDrawn(ctx context.Context, progress *progress, b *game.Board, visit func([]score.Position) error) error {
	name := b.Rules().String()
	positions, err := score.Draw(ctx, b, *c.Sample, c.Seed, progress.counting(name+", drawing", 0, *c.Sample))
	if err != nil {
		return err
	}
	show := progress.counting(name+", exact scores", 0, len(positions))
	for from := 0; from < len(positions); from += drawnRows {
		part, done := positions[from:min(len(positions), from+drawnRows)], from
		solved, err := score.Solve(ctx, b, part, score.SolveOptions{Threads: runtime.GOMAXPROCS(0), Book: solver.ShippedBook(b.Rules()), Solved: func(int, score.Position) error {
			done++
			show(done)
			return nil
		}})
		if err != nil {
			return err
		}
		if err := visit(solved); err != nil {
			return err
		}
	}
	return nil
}
