package open

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/cpu"
	"github.com/evald/evald/nn/gpu"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/onnx"
)

// PathVariable is the environment variable that selects the CPU's set of instructions; see Options.CPUPath.
const PathVariable = "EVALD_CPU_PATH"

// convolutions is a network that evald's own kernels compute on every board.
type convolutions struct{ of *net.Network }

// convForm recognises every file, as the last of the kinds: parsing says what is wrong with it.
var convForm = form{
	is: func([]byte) bool { return true },
	parse: func(file []byte) (Kind, error) {
		n, err := net.Parse(file)
		return convolutions{n}, err
	},
	shape: func(string) bool { return true },
	memory: func(s Stored) (int64, error) {
		c, err := net.ParseConfig(s.Config)
		return int64(c.Parameters()) * 24, err // packed for the kernels in up to three forms; Winograd's has four numbers per weight
	},
}

// OfConvolutions returns a network of convolutions that is in memory.
func OfConvolutions(n *net.Network) Network { return Network{convolutions{n}} }

// Convolutions returns the network for callers that need one of convolutions. The error completes a
// sentence that begins with the network's name.
func (n Network) Convolutions() (*net.Network, error) {
	if c, ok := n.Kind.(convolutions); ok {
		return c.of, nil
	}
	return nil, fmt.Errorf("is %s, and this needs a network of convolutions of evald's own", n.What())
}

func (c convolutions) What() string                  { return "a network of convolutions" }
func (c convolutions) Config() string                { return c.of.Config().String() }
func (c convolutions) Parameters() int               { return c.of.Config().Parameters() }
func (c convolutions) Metadata() map[string]string   { return c.of.Metadata }
func (c convolutions) Only() string                  { return "" }
func (c convolutions) Runtime() string               { return "" }
func (c convolutions) Trains() error                 { return nil }
func (c convolutions) Halves() error                 { return nil }
func (c convolutions) File() string                  { return models.OwnFile }
func (c convolutions) fits() func(*game.Board) error { return nil }

func (c convolutions) About() [][2]string {
	of := c.of.Config()
	lines := [][2]string{{"config", fmt.Sprintf("%s: %d blocks of %d channels, heads of %d channels, hidden layer of %d", of, of.Blocks, of.Channels, of.HeadChannels, of.Hidden)}}
	if ranges, _ := c.of.Ranges(); ranges != nil {
		lines = append(lines, [2]string{"8 bits", "processors with VNNI compute a part of it with 8 bits (evald model int8)"})
	}
	return lines
}

func (c convolutions) With(key, text string) ([]byte, error) {
	c.of.Metadata[key] = text
	return c.of.Marshal()
}

// Becomes allows more blocks.
func (c convolutions) Becomes(config string, seed uint64) error {
	if config == c.Config() {
		return nil
	}
	larger, err := net.ParseConfig(config)
	if err != nil {
		return fmt.Errorf("network %s cannot become %s: %w", c.Config(), short.Text(config), err)
	}
	_, err = c.of.Grow(larger, seed)
	return err
}

func (c convolutions) ONNX(name string, halves bool) ([]byte, error) {
	return onnx.Marshal(c.of, name, onnx.Options{FP16: halves})
}

func (c convolutions) reference(name string, _ Options) (*Opened, error) {
	return &Opened{Evaluator: evaluator(net.NewBackend(c.of)), Model: name, Network: true}, nil
}

func (c convolutions) open(name string, o Options) (*Opened, error) {
	switch o.Backend {
	case GPU:
		return onGPU(c.of, name, o)
	case CPU:
		return onCPU(c.of, name, o)
	case Auto:
		return fastest(c.of, name, o)
	}
	return exported(c.of, name, o)
}

// fastest tries the GPU, then the CPU, then FastModel, and last bitsquares.
func fastest(n *net.Network, name string, o Options) (*Opened, error) {
	c, err := onCPU(n, name, o)
	if err != nil {
		return nil, err
	}
	stages := eval.Fallback{{Name: "cpu", Backend: c.Backend()}, {Name: "fast", Backend: newFast()}, {Name: "bitsquares", Backend: bitsquares()}}
	e := &Opened{Model: name, Network: true, How: c.How, CPUPath: c.CPUPath, choice: c.choice}
	if g, err := fastestGPU(n, name, o); err == nil {
		e.How, e.OnGPU, e.gpu, e.closers = g.How+"; should it fail, "+c.How, true, g.gpu, g.closers
		stages = slices.Insert(stages, 0, eval.Stage{Name: "gpu", Backend: g.Backend()})
	} else {
		of := c.Backend().(*cpu.Backend)
		o.withoutGPU(e, err, fmt.Sprintf("path %s, %d threads", of.Path(), of.Threads()))
	}
	e.Evaluator = evaluator(stages)
	return e, nil
}

// fastestGPU opens the network on GPUs: with evald's own kernels, or with ONNX Runtime where that is faster.
func fastestGPU(n *net.Network, name string, o Options) (*Opened, error) {
	key, providers := o.gpuProviders()
	all := []contender{{GPU, func() (*Opened, error) { return onGPU(n, name, o) }}}
	for _, p := range providers {
		all = append(all, contender{p, func() (*Opened, error) {
			own := o
			own.Backend = p
			return exported(n, name, own)
		}})
	}
	return o.fastestOf(fmt.Sprintf("%s; %v", key, n.Config()), all, func() (eval.Backend, error) { return net.NewBackend(n), nil }, game.MustBoard(game.Connect4))
}

// onGPU opens the network on those GPUs of the options that work. Errors are of type *NoGPUError.
func onGPU(n *net.Network, name string, o Options) (*Opened, error) {
	e, notes, err := gpu.New(n, o.ofGPUs())
	return o.openedGPU(e, notes, err, name, name)
}

// onCPU opens the network on the CPU, with the path that the options or the environment name, or else with the one that cpu.Choose chooses.
func onCPU(n *net.Network, name string, o Options) (*Opened, error) {
	var e *cpu.Backend
	var c cpu.Choice
	if path := cmp.Or(o.CPUPath, os.Getenv(PathVariable)); path != "" {
		var err error
		if e, err = cpu.NewPath(n, kernel.Path(path)); err != nil {
			return nil, fmt.Errorf("%s or option CPUPath: %w", PathVariable, err)
		}
	} else {
		e, c = cpu.New(n)
		for _, err := range c.Failed {
			o.note("%v; another path evaluates", err)
		}
	}
	if kernel.Paths()[0] == kernel.Go {
		o.note("PLAIN GO evaluates, ten to thirty times slower than the kernels in C, which this program for %s/%s does not contain (make build includes them on amd64 and arm64, if there is a C compiler)", runtime.GOOS, runtime.GOARCH)
	}
	return &Opened{
		Evaluator: evaluator(e), Model: name, Network: true, CPUPath: string(e.Path()), choice: c,
		How: fmt.Sprintf("network %s on the cpu, path %s, %d threads", name, e.Path(), e.Threads()),
	}, nil
}

// suggestInt8 notes that the user's own network would be faster with ranges.
func (o Options) suggestInt8(e *Opened) {
	if gain, by := e.choice.Int8Gain(); gain > 0 && !e.OnGPU {
		o.note("model %s would be computed %.1f times as fast here with 8 bits (path %s): evald model int8 %[1]s -o F.safetensors makes such a network", o.Model, gain, by)
	}
}

// exported opens the network in ONNX Runtime. On GPUs its tower computes in float16, as with evald's own kernels.
func exported(n *net.Network, name string, o Options) (*Opened, error) {
	content, err := onnx.Marshal(n, name, onnx.Options{FP16: o.Backend == ORTCUDA || o.Backend == ORTTensorRT})
	if err != nil {
		return nil, err
	}
	f, err := parseForeign(content)
	if err != nil {
		return nil, err
	}
	return f.by(o.Backend, name, o)
}
