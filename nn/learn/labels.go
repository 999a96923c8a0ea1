package learn

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
)

// label makes records with exact scores for the positions of a generation's games, if the run learns from these: a file for each file of
// games. It omits positions that the solver would take long to solve. It copies records of finished games unchanged.
func (r *Run) label(ctx context.Context, generation int) error {
	if r.Config.Labels != Solver {
		return nil
	}
	for _, b := range r.boards {
		for series := range r.series(generation) {
			if err := r.labelSeries(ctx, b, generation, series); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Run) labelSeries(ctx context.Context, b *game.Board, generation, series int) error {
	games, err := filepath.Glob(r.seriesFolder(generation, "games", series, r.sub(b), "*.parquet"))
	if err != nil {
		return err
	}
	slices.Sort(games)
	labels := r.seriesFolder(generation, "labels", series, r.sub(b))
	if err := os.MkdirAll(labels, 0o755); err != nil {
		return err
	}
	for _, file := range games {
		to := filepath.Join(labels, filepath.Base(file))
		if exists(to) {
			continue
		}
		if err := r.labelFile(ctx, b, generation, file, to); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func (r *Run) labelFile(ctx context.Context, b *game.Board, generation int, from, to string) error {
	reader, err := record.Open(from)
	if err != nil {
		return err
	}
	defer reader.Close()
	var records []record.Record
	var open []int // indices of records to solve
	var positions []game.Position
	for range reader.Rows() {
		var rec record.Record
		if err := reader.Next(&rec); err != nil {
			return err
		}
		if rec.Ply < firstPly(b) {
			continue
		}
		if rec.GameOver == game.NotOver {
			open, positions = append(open, len(records)), append(positions, rec.Position)
		}
		records = append(records, rec)
	}
	if len(records) == 0 {
		return nil
	}
	solved, err := r.solve(ctx, b, positions, fmt.Sprintf("generation %d, exact labels%s", generation, r.of(b)))
	if err != nil {
		return err
	}
	for j, i := range open {
		was := records[i]
		records[i] = record.FromScores(b, positions[j], solved[j].Scores)
		records[i].Game, records[i].Move = was.Game, was.Move
	}
	w, err := record.Create(to)
	if err != nil {
		return err
	}
	defer w.Abort()
	for i := range records {
		if err := w.Write(&records[i]); err != nil {
			return err
		}
	}
	return w.Close()
}
