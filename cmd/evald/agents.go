package main

import (
	"io"
	"strings"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/engine/solver/book"
	"github.com/evald/evald/nn/open"
)

// shareAgents returns the networks and books that agents share. Networks run on the processors of on. Each network and book is loaded
// once and stays open until the program ends. Warnings for the user go to notes.
func shareAgents(on processors, notes io.Writer) agent.Shared {
	return play.Share(func(name string, substitute bool) (*eval.Evaluator, error) {
		where := backend{Backend: play.Backend(name), Model: name, processors: on}
		if on.GPUs != "" {
			where.Backend = open.Auto
		}
		o := options()
		o.Substitute, o.Note, o.Event = substitute, linesTo(notes), linesTo(notes)
		e, err := where.open(o)
		if err != nil {
			return nil, err
		}
		return e.Evaluator, nil
	})
}

// heuristicValues returns the names of the heuristics, and what stands for them in flags and help texts.
func heuristicValues() []string {
	names := heuristic.Names()
	return []string{"${heuristics}", strings.Join(names, ","), "${heuristicsInWords}", strings.Join(names, ", "), "${backends}", strings.Join(open.Backends(), ",")}
}

// exactBook is the flag of commands that look up exact scores.
type exactBook struct {
	Book string `without:"build-book" placeholder:"FILE|none" help:"Book of exact scores to look positions up in first (evald solve --build-book), or none. Default: the book that ships."`
}

// books returns a function that returns the book of a game, or nil if the game has none.
func (f exactBook) books() (func(game.Rules) solver.Book, error) {
	switch f.Book {
	case "":
		return solver.ShippedBook, nil
	case "none":
		return func(game.Rules) solver.Book { return nil }, nil
	}
	b, err := book.Load(f.Book)
	if err != nil {
		return nil, err
	}
	return func(r game.Rules) solver.Book {
		if r == b.Rules() {
			return b
		}
		return solver.ShippedBook(r)
	}, nil
}
