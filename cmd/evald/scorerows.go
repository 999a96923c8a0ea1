package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/evald/evald/cmd/evald/internal/stream"
	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/score"
)

// scoreRow is the line of a position of score --rows. See score.Outcome.
type scoreRow struct {
	Line     int      `json:"line"` // of the file, from 1
	Perfect  float64  `json:"perfect"`
	Good     float64  `json:"good"`
	Regret   float64  `json:"regret"`
	Result   *float64 `json:"result,omitempty"` // nil of an agent, which has no values
	Brier    *float64 `json:"brier,omitempty"`  // as result
	Critical bool     `json:"critical"`
}

// scoreAtOnce is the number of positions that writeRows holds.
const scoreAtOnce = 4096

// writeRows writes the rows of a file, or of a part of it.
func (c *scoreCmd) writeRows(ctx context.Context, s streams, subject ask.Subject) error {
	return c.answer(ctx, s, "score", c.opened, c.Files[0], "jsonl", func(in io.Reader, out io.Writer) (done tally, _ error) {
		progress := newProgress(s.err, fileSize(in))
		defer progress.clear()
		to := bufio.NewWriter(out)
		lines := json.NewEncoder(to)
		meter := score.Meter{Evaluator: subject.Evaluator, Each: func(p score.Position, o score.Outcome) {
			row := scoreRow{Line: p.Line, Perfect: o.Perfect, Good: o.Good, Regret: o.Regret, Critical: o.Critical}
			if len(c.Agent) == 0 {
				row.Result, row.Brier = &o.ValueSign, &o.Brier
			}
			_ = lines.Encode(row) // Flush returns the error of a write
		}}
		from := score.Place{}
		if part, ok := in.(section); ok {
			from = score.Place{Offset: 1, Line: part.before} // only a reader at 0 compares the file's checksum
		}
		reader := c.reader(ctx, in, from)
		for more := true; more; {
			var some []score.Position
			for len(some) < scoreAtOnce {
				p, err := reader.Next()
				if more = !errors.Is(err, io.EOF); !more {
					break
				}
				if err != nil {
					return done, fmt.Errorf("%s: %w", c.Files[0], err)
				}
				some = append(some, p)
			}
			if len(some) > 0 && some[0].Scores == nil {
				if err := score.SolveMoves(ctx, some, runtime.GOMAXPROCS(0), func(int) {}); err != nil {
					return done, err
				}
			}
			if err := errors.Join(meter.Add(ctx, some, nil), to.Flush()); err != nil {
				return done, err
			}
			done.answered += len(some)
			progress.show(stream.Summary{Lines: int64(done.answered), Bytes: reader.Place().Offset - from.Offset})
		}
		return done, nil
	})
}
