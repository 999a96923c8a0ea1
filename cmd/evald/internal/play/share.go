//go:build !js

package play

import (
	"runtime"
	"sync"
	"time"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/mcts/opening"
	"github.com/evald/evald/engine/queue"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/engine/solver/book"
	"github.com/evald/evald/kernels/cpu"
	gpu "github.com/evald/evald/kernels/cuda/driver"
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

// Share returns the networks and books that the agents of a program share. Each is loaded once. load
// opens a network; with substitute another one may answer boards that it does not know.
func Share(load func(name string, substitute bool) (*eval.Evaluator, error)) agent.Shared {
	models := func(substitute bool) func(string) (*eval.Evaluator, error) {
		return Once(func(name string) (*eval.Evaluator, error) { return load(name, substitute) })
	}
	shared := agent.Shared{
		Models: models(false),
		Chosen: models(true),
		Books:  Once(opening.Load),
		Exact:  Once(book.Load),
		Ships:  solver.ShippedBook,
		Solved: &agent.Solved{},
	}
	if _, err := gpu.Find(); err != nil {
		shared.FastModel, shared.FastBelow = open.FastModel, fastBelow
		if cpu.Paths()[0] == cpu.Go {
			shared.FastBelow = fastBelowPlainGo
		}
	}
	return shared
}

// Backend returns the backend of an agent's network: the processor, which searches of one leaf at a
// time use best, unless there is a GPU, or the network is on another machine.
func Backend(model string) string {
	name, err := open.ParseName(model)
	if _, none := gpu.Find(); none == nil || err == nil && name.Sort == open.SortService {
		return open.Auto
	}
	return open.CPU
}

// Batched returns the resources with a batcher for each network, in which the leaves of games that
// are played at once fill batches. made, if not nil, is called with each batcher: a program that
// closes networks closes their batchers before.
func Batched(shared agent.Shared, made func(*queue.Batcher)) agent.Shared {
	batched := func(load func(string) (*eval.Evaluator, error)) func(string) (*eval.Evaluator, error) {
		return Once(func(name string) (*eval.Evaluator, error) {
			e, err := load(name)
			if err != nil {
				return nil, err
			}
			if runtime.GOMAXPROCS(0) == 1 || e.Backend().Attributes().Rows == 1 {
				return e, nil // one game at a time has nothing to share, and some backends gain nothing from batches
			}
			b := queue.New(e.Backend(), queue.Config{MaxRows: 256, MaxDelay: time.Millisecond, InFlight: 2})
			if made != nil {
				made(b)
			}
			return eval.New(b, eval.Options{}), nil
		})
	}
	shared.Models, shared.Chosen = batched(shared.Models), batched(shared.Chosen)
	return shared
}

// Once caches the successful results of load by name. A failed load is tried again at the next call.
func Once[T any](load func(name string) (T, error)) func(string) (T, error) {
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
