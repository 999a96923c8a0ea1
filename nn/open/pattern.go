package open

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/gpu"
	"github.com/evald/evald/nn/onnx"
	"github.com/evald/evald/nn/pattern"
)

// FastModel is the shipped network of pattern tables, the fallback of networks of convolutions.
const FastModel = "default-fast"

// tables is a network of pattern tables, which evald's own kernels compute on 7x6x4 alone.
type tables struct{ of *pattern.Network }

var tablesForm = form{
	is: pattern.Is,
	parse: func(file []byte) (Kind, error) {
		n, err := pattern.Parse(file)
		return tables{n}, err
	},
	shape: pattern.IsShape,
	memory: func(s Stored) (int64, error) {
		lanes, _, _, err := pattern.ParseShape(s.Config)
		return int64(pattern.RowCount()) * int64(lanes) * 2, err
	},
}

// Tables returns the network for callers that need one of pattern tables. ok is false for others.
func (n Network) Tables() (of *pattern.Network, ok bool) {
	t, ok := n.Kind.(tables)
	return t.of, ok
}

func (t tables) What() string                  { return "a network of pattern tables" }
func (t tables) Config() string                { return t.of.String() }
func (t tables) Parameters() int               { return t.of.Parameters() }
func (t tables) Metadata() map[string]string   { return t.of.Metadata }
func (t tables) Only() string                  { return game.Connect4.String() }
func (t tables) Runtime() string               { return "" }
func (t tables) Trains() error                 { return nil }
func (t tables) Halves() error                 { return errors.New("which has whole numbers") }
func (t tables) File() string                  { return models.OwnFile }
func (t tables) fits() func(*game.Board) error { return nil }

func (t tables) About() [][2]string {
	sizes := t.of.Weights.Sizes()
	return [][2]string{{"config", fmt.Sprintf("%s: pattern tables of %d lanes, hidden layers of %d and %d", t.of, t.of.Weights.Lanes, sizes[1], sizes[2])}}
}

func (t tables) With(key, text string) ([]byte, error) {
	t.of.Metadata[key] = text
	return t.of.Marshal()
}

func (t tables) Becomes(config string, _ uint64) error {
	if config == t.Config() {
		return nil
	}
	return fmt.Errorf("network %s cannot become %s: pattern tables cannot grow", t.Config(), short.Text(config))
}

func (t tables) ONNX(name string, _ bool) ([]byte, error) {
	return onnx.MarshalPattern(t.of, name), nil
}

func (t tables) reference(name string, _ Options) (*Opened, error) {
	e, _ := tablesOnCPU(t.of, name)
	return e, nil
}

func (t tables) open(name string, o Options) (*Opened, error) {
	switch o.Backend {
	case GPU:
		return tablesOnGPU(t.of, name, o)
	case CPU:
		return t.reference(name, o)
	case Auto:
		return fastestTables(t.of, name, o), nil
	}
	return nil, fmt.Errorf("model %s: backend %s does not compute networks of pattern tables: choose %s, %s or %s", name, o.Backend, Auto, GPU, CPU)
}

func tablesOnCPU(n *pattern.Network, name string) (*Opened, *pattern.Backend) {
	of := pattern.NewBackend(n)
	return &Opened{
		Evaluator: evaluator(of), Model: name, Network: true,
		How: fmt.Sprintf("network %s on the cpu, path %s", n, of.Path()),
	}, of
}

// tablesOnGPU is onGPU for a network of pattern tables.
func tablesOnGPU(n *pattern.Network, name string, o Options) (*Opened, error) {
	e, notes, err := gpu.NewTables(n, o.ofGPUs())
	return o.openedGPU(e, notes, err, name, n.String())
}

// fastestTables uses the GPU if there is one, and the CPU for batches of few rows and if the GPU fails. Which of them answers makes no
// difference to the answers, which have the same bits.
func fastestTables(n *pattern.Network, name string, o Options) *Opened {
	e, of := tablesOnCPU(n, name)
	g, err := tablesOnGPU(n, name, o)
	if err != nil {
		o.withoutGPU(e, err, fmt.Sprintf("path %s", of.Path()))
		return e
	}
	s := bySize{few: of, many: eval.Fallback{{Name: "gpu", Backend: g.gpu}, {Name: "cpu", Backend: of}}, from: crossing(of, g.gpu)}
	e.How = fmt.Sprintf("%s; fewer than %d rows, or should it fail, %s", g.How, s.from, e.How)
	e.Evaluator, e.OnGPU, e.gpu = evaluator(s), true, g.gpu
	return e
}

// bySize sends batches of fewer rows than from to one backend, and others to another. The answers of both must have the same bits.
type bySize struct {
	few, many eval.Backend
	from      int
}

// Attributes are those of the backend for few rows, because no caller needs to wait for others to fill a batch.
func (s bySize) Attributes() eval.Attributes { return s.few.Attributes() }

// Compute implements eval.Backend.
func (s bySize) Compute(ctx context.Context, b *eval.Batch) error {
	if len(b.Pos) < s.from {
		return s.few.Compute(ctx, b)
	}
	return s.many.Compute(ctx, b)
}

// Limits of crossing.
const (
	crossingRows  = 32  // rows that the CPU computes to measure its time for one
	crossingCalls = 20  // the shortest of them counts
	mostCrossing  = 128 // above this, the CPU uses several cores for a batch, which callers need for other work
)

// crossing measures from how many rows a call of the GPU takes less time than one core. The GPU's time hardly depends on so few rows.
func crossing(onCPU, onGPU eval.Backend) int {
	of := raceBatch(game.MustBoard(game.Connect4))
	row := shortest(onCPU, of.Slice(0, crossingRows)) / crossingRows
	call := shortest(onGPU, of.Slice(0, 1))
	return int(min(mostCrossing, max(1, math.Ceil(call/row))))
}

// shortest returns the seconds of the fastest of some calls. If one fails, it is infinite.
func shortest(of eval.Backend, b eval.Batch) float64 {
	least := math.Inf(1)
	for range crossingCalls {
		start := time.Now()
		if of.Compute(context.Background(), &b) != nil {
			return math.Inf(1)
		}
		least = min(least, time.Since(start).Seconds())
	}
	return least
}

// fast is FastModel as a fallback. It is read on first use, which is rare. If it returns an error, for example because of another board,
// the next fallback computes the batch.
type fast struct {
	read func() (*pattern.Backend, error)
}

func newFast() fast {
	return fast{sync.OnceValues(func() (*pattern.Backend, error) {
		_, n, err := Any(FastModel)
		of, ok := n.Tables()
		if err == nil && !ok {
			err = errors.New("it is not a network of pattern tables")
		}
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", FastModel, err)
		}
		return pattern.NewBackend(of), nil
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
