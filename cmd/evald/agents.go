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

// Searches with less time per move and no model use the network of tables if there is no GPU. Without AVX-512 it is stronger than the
// network of convolutions that ships at 20, 50 and 100 ms, and equal at 1 s. In plain Go, which computes
// convolutions forty times slower and tables a dozen times, it is stronger at 1 and 2 s too (nn/pattern/LOG.md).
const (
	fastBelow        = 150 * time.Millisecond
	fastBelowPlainGo = 2500 * time.Millisecond
)

// shareAgents gives agents their networks, on some GPUs, and books. Each is loaded once and stays open until the program ends.
// Warnings for the user go to notes.
func shareAgents(on processors, notes io.Writer) agent.Shared {
	shared := agent.Shared{
		Models: once(func(name string) (*eval.Evaluator, error) {
			where := backend{Backend: "cpu", Model: name, processors: on}
			if _, err := driver.Find(); err == nil || on.GPUs != "" || isRemote(name) {
				where.Backend = "auto"
			}
			e, err := where.choose(notes)
			if err != nil {
				return nil, err
			}
			return e.Evaluator, nil
		}),
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

// heuristicVars are the names of the heuristics in the forms that flags and help texts use.
func heuristicVars() map[string]string {
	names := heuristic.Names()
	return map[string]string{"heuristics": strings.Join(names, ","), "heuristicsInWords": strings.Join(names, ", "), "backends": strings.Join(open.Backends(), ",")}
}

// once calls load once for each name, and again if that failed.
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

// books gives the book for each game, nil if it has none.
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
