package learn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
)

// label makes records of exact scores of the positions of a generation's games, if the run learns from such: a file for
// each file of games. Positions that would take the solver long are left out. Records of finished games stay as they are.
func (r *Run) label(ctx context.Context, generation int) error {
	if r.Config.Labels != Solver {
		return nil
	}
	games, err := filepath.Glob(r.folder(generation, "games", "*.parquet"))
	if err != nil {
		return err
	}
	slices.Sort(games)
	if err := os.MkdirAll(r.folder(generation, "labels"), 0o755); err != nil {
		return err
	}
	for _, file := range games {
		to := r.folder(generation, "labels", filepath.Base(file))
		if exists(to) {
			continue
		}
		if err := r.labelFile(ctx, generation, file, to); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func (r *Run) labelFile(ctx context.Context, generation int, from, to string) error {
	records, err := readRecords(from)
	if err != nil {
		return err
	}
	records = slices.DeleteFunc(records, func(rec record.Record) bool { return rec.Ply < firstPly(r.board) })
	if len(records) == 0 {
		return nil
	}
	var open []int // indices of records
	var positions []game.Position
	for i, rec := range records {
		if rec.GameOver == game.NotOver {
			open, positions = append(open, i), append(positions, rec.Position)
		}
	}
	solved, err := r.solve(ctx, positions, fmt.Sprintf("generation %d, exact labels", generation))
	if err != nil {
		return err
	}
	for j, i := range open {
		was := records[i]
		records[i] = record.FromScores(r.board, positions[j], solved[j].Scores)
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

func readRecords(path string) (all []record.Record, err error) {
	reader, err := record.Open(path)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	for {
		var rec record.Record
		err := reader.Next(&rec)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		rec.Visits = slices.Clone(rec.Visits)
		all = append(all, rec)
	}
}
