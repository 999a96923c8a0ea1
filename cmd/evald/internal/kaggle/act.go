package kaggle

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"

	"github.com/evald/evald/cmd/evald/internal/stream"
	"github.com/evald/evald/engine/game"
)

// Act answers each line {"observation":..,"configuration":..,"sent":..} of in with a line
// {"action": column} or {"error": text}; bad is the number of errors. It skips blank lines. Act
// returns at the end of in, or when ctx ends, with an error that wraps ctx.Err(); it finishes a
// move in progress first. It also plays in positions that no game reaches, and logs them to notes,
// as it logs moves that are not the agent's own.
func Act(ctx context.Context, in io.Reader, out io.Writer, players *Players, notes *log.Logger) (bad int, err error) {
	reader := stream.NewReader(ctx, in)
	encoder := json.NewEncoder(out)
	var lines []stream.Line
	for more := true; more; {
		lines, more, err = reader.Next(lines[:0], 1)
		for i := range lines {
			action, failed := answerLine(context.WithoutCancel(ctx), &lines[i], players, notes)
			if failed != nil {
				bad++
			}
			if err := encoder.Encode(reply(action, failed)); err != nil {
				return bad, err
			}
		}
		if err != nil {
			return bad, err
		}
	}
	return bad, nil
}

func answerLine(ctx context.Context, l *stream.Line, players *Players, notes *log.Logger) (action int, err error) {
	if l.Err != nil {
		return 0, l.Err
	}
	t, err := parseLine([]byte(l.Text))
	if err != nil {
		if bad, ok := errors.AsType[*game.ParseError](err); ok {
			bad.Line = l.Number
		}
		return 0, err
	}
	if t.Odd != nil {
		notes.Printf("line %d: playing on: %v", l.Number, t.Odd)
	}
	action, instead, err := players.Move(ctx, t)
	if instead != nil {
		notes.Printf("line %d: %v", l.Number, instead)
	}
	return action, err
}
