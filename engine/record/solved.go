package record

import (
	"fmt"
	"io"
	"slices"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/score"
)

// ReadSolved makes records of exact scores, one position a line as `evald solve --scores` writes them or as
// `moves s1 s2 ..`; see score.Read. Errors name the line.
func ReadSolved(r io.Reader) ([]Record, error) {
	positions, err := score.Read(r)
	if err != nil {
		return nil, fmt.Errorf("solved positions: %w", err)
	}
	records := make([]Record, len(positions))
	for i, p := range positions {
		records[i] = FromScores(p.State.Board, p.State.Position, p.Scores)
	}
	return records, nil
}

// FromScores is the record of an unfinished position whose exact scores are known, by action and score.Illegal where
// there is no move: Q and Z are the sign of the best score, Visits one for each move that has it. Weight is 1.
func FromScores(board *game.Board, p game.Position, scores []int) Record {
	best := slices.Max(scores)
	visits := make([]uint32, len(scores))
	for a, s := range scores {
		if s == best {
			visits[a] = 1
		}
	}
	var z int8
	switch {
	case best > 0:
		z = 1
	case best < 0:
		z = -1
	}
	return Record{
		Rules: board.Rules(), Position: p, Visits: visits, Q: float32(z), Z: z, Ply: p.Plies(), Source: eval.Solved, Weight: 1,
	}
}
