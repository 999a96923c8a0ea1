// Package standalone is the engine of a page without a server. It answers the questions of package
// answer with networks of pattern tables and the solver. Read standalone.go, the answers and the
// small network, and engine.go (embedded.go, notembedded.go), the engine's files. Package wasm is the
// program for browsers; page/engine.js and page/worker.js of internal/web are its other side.
package standalone

import (
	"context"
	"fmt"
	"time"

	"github.com/evald/evald/cmd/evald/internal/answer"
	"github.com/evald/evald/cmd/evald/internal/places"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/nn/pattern"
)

// Names of the networks: the small one that the page loads, and the one that it loads if a question
// names it.
const (
	Small = "small"
	Whole = "default-fast"
)

// limits of questions. A visit takes ten times as long as in a program for this machine, and a tab
// should stay small.
var limits = answer.Limits{Visits: 200_000, Time: 10 * time.Second, Review: 5 * time.Second}

// New returns the engine. file returns the file of a network by its name, and is called once for
// Small and, when a question needs it, for Whole.
func New(file func(name string) ([]byte, error)) (*answer.Answerer, error) {
	small, err := open(Small, file)
	if err != nil {
		return nil, err
	}
	loaded := map[string]*eval.Evaluator{Small: small} // questions are asked one at a time
	models := func(name string) (*eval.Evaluator, error) {
		if e, ok := loaded[name]; ok {
			return e, nil
		}
		e, err := open(name, file)
		if err == nil {
			loaded[name] = e
		}
		return e, err
	}
	modelOn := func(r game.Rules) string {
		if r == game.Connect4 {
			return Small
		}
		return eval.Bitsquares.String()
	}
	return answer.New(answer.Config{
		Evaluator: small, Model: Small, ModelOn: modelOn, Networks: []string{Small, Whole},
		Agents: agent.Shared{
			Models: models,
			Chosen: func(string) (*eval.Evaluator, error) { return small, nil }, // levels play with what is there
			Solved: &agent.Solved{}, Ships: solver.ShippedBook,
		},
		Places: places.ForPage(0), Limits: limits,
	})
}

// Games is the number of games that show which rows of the small network's table are rare, and
// coarseness is that of pattern.Shrink. The compressed file has 3.4 MB (nn/pattern/LOG.md).
const (
	Games      = 32768
	coarseness = 0.25
)

// Shrink returns the file of the small network, made of the file of Whole.
func Shrink(ctx context.Context, whole []byte, games int) ([]byte, error) {
	n, err := pattern.Parse(whole)
	if err != nil {
		return nil, err
	}
	frequency, err := pattern.Frequency(ctx, n, games, 1)
	if err != nil {
		return nil, err
	}
	small, err := n.Shrink(frequency, coarseness)
	if err != nil {
		return nil, err
	}
	return small.Marshal()
}

func open(name string, file func(name string) ([]byte, error)) (*eval.Evaluator, error) {
	bytes, err := file(name)
	if err != nil {
		return nil, fmt.Errorf("network %s: %w", name, err)
	}
	n, err := pattern.Parse(bytes)
	if err != nil {
		return nil, fmt.Errorf("network %s: %w", name, err)
	}
	bitsquares, err := heuristic.New(eval.Bitsquares)
	if err != nil {
		return nil, err
	}
	return eval.New(onBoards{pattern.NewBackend(n), bitsquares.Backend()}, eval.Options{}), nil
}

// onBoards answers 7x6x4 with tables, and all other games with bitsquares.
type onBoards struct{ tables, others eval.Backend }

// Attributes implements eval.Backend.
func (o onBoards) Attributes() eval.Attributes { return o.tables.Attributes() }

// Compute implements eval.Backend.
func (o onBoards) Compute(ctx context.Context, b *eval.Batch) error {
	if b.Board.Rules() == game.Connect4 {
		return o.tables.Compute(ctx, b)
	}
	return o.others.Compute(ctx, b)
}
