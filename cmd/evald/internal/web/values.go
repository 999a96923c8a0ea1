package web

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/engine/solver/book"
)

// valued is the value of one position of a game.
type valued struct {
	Value float32 `json:"value"` // -1..1 for the side that moved first
	Exact bool    `json:"exact"` // whether the value is a result by the rules, a book or the solver; else it is the evaluator's value
}

// Limits of the solver's work on the positions of one game.
const (
	proveTime  = time.Second // for all positions together
	proveNodes = 1 << 20     // for each position
)

// serveValues answers with a value for the empty board and one after each move. If the game is over, the last value is its result.
func (h *Handler) serveValues(w http.ResponseWriter, r *http.Request) error {
	var q struct {
		Position string `json:"position"` // the game: rules and moves
		Solve    []int  `json:"solve"`    // numbers of moves after which the exact result is wanted, if it is found in time
	}
	if err := read(w, r, &q); err != nil {
		return err
	}
	b, moves, err := parsePosition(q.Position)
	if err != nil {
		return err
	}
	for _, made := range q.Solve {
		if made < 0 || made > len(moves) {
			return bad("solve", "solve has %d, must be 0 to %d, the number of moves", made, len(moves))
		}
	}
	ctx, end, err := h.begin(w, r, h.config.Limits.Time)
	if err != nil {
		return err
	}
	defer end()
	batch := eval.NewBatch(b, len(moves)+1)
	var p game.Position
	for i, a := range moves {
		batch.Pos[i], p = p, b.Play(p, a)
	}
	batch.Pos[len(moves)] = p
	if err := h.config.Evaluator.Evaluate(ctx, batch); err != nil {
		return h.why(err)
	}
	values := make([]valued, len(batch.Pos))
	for i := range values {
		values[i] = valued{batch.Value(i), batch.Source[i] == eval.Rules || batch.Source[i] == eval.Terminal}
	}
	h.prove(ctx, b, batch.Pos, values, q.Solve)
	for i := range values {
		if i%2 == 1 { // the other side is to move
			values[i].Value = -values[i].Value
		}
	}
	return answer(w, struct {
		Values []valued `json:"values"`
	}{values})
}

// prove replaces the values of the positions at the given indices by exact results for the side to move, as far as the shipped books know
// them or the solver finds them within its limits. It begins with the last position, because the solver's table then speeds up the earlier
// ones.
func (h *Handler) prove(ctx context.Context, b *game.Board, positions []game.Position, values []valued, at []int) {
	ctx, stop := context.WithTimeout(ctx, proveTime)
	defer stop()
	results := book.Results(b.Rules())
	options := solver.Options{Threads: 1, TableMiB: solverTable, Bounded: true, Nodes: proveNodes}
	if ships := h.config.Agents.Ships; ships != nil {
		options.Book = ships(b.Rules())
	}
	var s *solver.Solver
	for _, i := range slices.Backward(slices.Sorted(slices.Values(at))) {
		if values[i].Exact {
			continue
		}
		if results != nil {
			if result := results.Result(positions[i]); result != game.Ongoing {
				values[i] = valued{float32(result.Value()), true}
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
			values[i] = valued{float32(found.Score), true}
		}
	}
}
