package answer

import (
	"context"
	"slices"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/engine/solver/book"
)

// Valued is the value of one position of a game.
type Valued struct {
	Value float32 `json:"value"` // -1..1 for the side that moved first
	Exact bool    `json:"exact"` // whether the value is a result by the rules, a book or the solver; else it is the evaluator's value
}

// Limits of the solver's work on the positions of one game.
const (
	proveTime  = time.Second // for all positions together
	proveNodes = 1 << 20     // for each position
)

// valuesRequest asks for the value of each position of a game.
type valuesRequest struct {
	Position string `json:"position"` // the game: rules and moves
	Solve    []int  `json:"solve"`    // numbers of moves after which the exact result is wanted, if it is found in time
}

// values answers with a value for the empty board and one after each move. If the game is over, the last value is its result.
func (a *Answerer) values(ctx context.Context, q *valuesRequest) (any, error) {
	b, moves, err := ParsePosition(q.Position)
	if err != nil {
		return nil, err
	}
	for _, made := range q.Solve {
		if made < 0 || made > len(moves) {
			return nil, bad("solve", "solve has %d, must be 0 to %d, the number of moves", made, len(moves))
		}
	}
	ctx, end, err := a.begin(ctx, a.config.Limits.Time)
	if err != nil {
		return nil, err
	}
	defer end()
	batch := eval.NewBatch(b, len(moves)+1)
	var p game.Position
	for i, action := range moves {
		batch.Pos[i], p = p, b.Play(p, action)
	}
	batch.Pos[len(moves)] = p
	if err := a.config.Evaluator.Evaluate(ctx, batch); err != nil {
		return nil, why(ctx, err)
	}
	values := make([]Valued, len(batch.Pos))
	for i := range values {
		values[i] = Valued{batch.Value(i), batch.Source[i] == eval.Rules || batch.Source[i] == eval.Terminal}
	}
	a.prove(ctx, b, batch.Pos, values, q.Solve)
	for i := range values {
		if i%2 == 1 { // the other side is to move
			values[i].Value = -values[i].Value
		}
	}
	return struct {
		Values []Valued `json:"values"`
	}{values}, nil
}

// prove replaces the values of the positions at the given indices by exact results for the side to move, as far as the shipped books know
// them or the solver finds them within its limits. It begins with the last position, because the solver's table then speeds up the earlier
// ones.
func (a *Answerer) prove(ctx context.Context, b *game.Board, positions []game.Position, values []Valued, at []int) {
	ctx, stop := context.WithTimeout(ctx, proveTime)
	defer stop()
	results := book.Results(b.Rules())
	options := solver.Options{Threads: 1, TableMiB: solverTable, Bounded: true, Nodes: proveNodes}
	if ships := a.config.Agents.Ships; ships != nil {
		options.Book = ships(b.Rules())
	}
	var s *solver.Solver
	for _, i := range slices.Backward(slices.Sorted(slices.Values(at))) {
		if values[i].Exact {
			continue
		}
		if results != nil {
			if result := results.Result(positions[i]); result != game.Ongoing {
				values[i] = Valued{float32(result.Value()), true}
				continue
			}
		}
		if ctx.Err() != nil {
			continue
		}
		if s == nil {
			var err error
			if s, err = solver.New(b, options); err != nil {
				return // keep the evaluator's values
			}
		}
		if found, err := s.WDL(ctx, positions[i]); err == nil {
			values[i] = Valued{float32(found.Score), true}
		}
	}
}
