package main

import (
	"io"
	"strings"
	"sync"
	"time"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts/opening"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/engine/solver/book"
	"github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/nn/open"
)

// Without a GPU, a search that names no model and has less time per move than this uses the shipped network of pattern tables. Without
// AVX-512 that network is stronger than the shipped network of convolutions at 20, 50 and 100 ms per move, and equal at 1 s. Plain Go
// computes convolutions thirty times slower and tables nine times slower, so there the tables are stronger at 1 and 2 s too
// (nn/pattern/LOG.md).
const (
	fastBelow        = 150 * time.Millisecond
	fastBelowPlainGo = 2500 * time.Millisecond
)

// shareAgents returns the networks and books that agents share. Networks run on the processors of on. Each network and book is loaded
// once and stays open until the program ends. Warnings for the user go to notes.
func shareAgents(on processors, notes io.Writer) agent.Shared {
	models := func(substitute bool) func(string) (*eval.Evaluator, error) {
		return once(func(name string) (*eval.Evaluator, error) {
			where := backend{Backend: "cpu", Model: name, processors: on}
			if _, err := driver.Find(); err == nil || on.GPUs != "" || isRemote(name) {
				where.Backend = "auto"
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
	shared := agent.Shared{
		Models: models(false),
		Chosen: models(true),
		Books:  once(opening.Load),
		Exact:  once(book.Load),
		Ships:  solver.ShippedBook,
		Solved: &agent.Solved{},
	}
	if _, err := driver.Find(); err != nil {
		shared.FastModel, shared.FastBelow = open.FastModel, fastBelow
		if cpu.Paths()[0] == cpu.Go {
			shared.FastBelow = fastBelowPlainGo
		}
	}
	return shared
}

// heuristicValues returns the names of the heuristics, and what stands for them in flags and help texts.
func heuristicValues() []string {
	names := heuristic.Names()
	return []string{"${heuristics}", strings.Join(names, ","), "${heuristicsInWords}", strings.Join(names, ", "), "${backends}", strings.Join(open.Backends(), ",")}
}

// once caches the successful results of load by name. A failed load is tried again at the next call.
func once[T any](load func(name string) (T, error)) func(string) (T, error) {
	var mu sync.Mutex
	loaded := map[string]T{}
	return func(name string) (T, error) {
		mu.Lock()
		defer mu.Unlock()
		if x, ok := loaded[name]; ok {
			return x, nil
		}
		x, err := load(name)
		if err == nil {
			loaded[name] = x
		}
		return x, err
	}
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
