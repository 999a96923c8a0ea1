package open

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/pattern"
)

// FastModel is the shipped network of pattern tables, the fallback of networks of convolutions.
const FastModel = "default-fast"

// ofTables opens a network of pattern tables, which supports only 7x6x4.
func ofTables(n *pattern.Network, name string, o Options) (*Opened, error) {
	switch o.Backend {
	case GPU:
		return nil, fmt.Errorf("model %s: a network of pattern tables is computed by the backend cpu alone", name)
	case CPU, Auto, "":
	default:
		return nil, notOfNetworks(o.Backend)
	}
	of := pattern.NewBackend(n)
	e := &Opened{
		Evaluator: evaluator(of), Model: name, Network: true,
		How: fmt.Sprintf("network %s on the cpu, path %s", n, of.Path()),
	}
	e.mirror(o)
	return e, e.elsewhere([]game.Rules{game.Connect4}, o)
}

// fast is FastModel as a fallback. It is read on first use, which is rare. If it returns an error, for example because of another board,
// the next fallback computes the batch.
type fast struct {
	read func() (*pattern.Backend, error)
}

func newFast() fast {
	return fast{sync.OnceValues(func() (*pattern.Backend, error) {
		_, p, err := Any(FastModel)
		if err == nil && p.Pattern == nil {
			err = errors.New("it is not a network of pattern tables")
		}
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", FastModel, err)
		}
		return pattern.NewBackend(p.Pattern), nil
	})}
}

// Attributes are those of every network of pattern tables.
func (fast) Attributes() eval.Attributes { return (*pattern.Backend)(nil).Attributes() }

// Compute implements eval.Backend.
func (f fast) Compute(ctx context.Context, b *eval.Batch) error {
	e, err := f.read()
	if err != nil {
		return err
	}
	return e.Compute(ctx, b)
}
