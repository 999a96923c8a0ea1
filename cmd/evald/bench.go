package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/evald/evald/cmd/evald/internal/bench"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/open"
)

type benchCmd struct {
	Eval     benchEvalCmd     `cmd:"" help:"Measure evaluation: win test, heuristics, networks, files of positions."`
	Search   benchSearchCmd   `cmd:"" help:"Measure tree search: visits on one core, allocations, the share of a device that many trees use."`
	Solve    benchSolveCmd    `cmd:"" help:"Measure the exact solver: time, nodes and nodes/s of sets of positions."`
	Selfplay benchSelfplayCmd `cmd:"" help:"Measure self-play: games/s, and the share of the evaluator's own rate that it uses."`
	Serve    benchServeCmd    `cmd:"" help:"Measure the service: requests over gRPC beside the transport and the evaluator alone, latency, batches."`
}

// defaultBenchModel is benchEvalCmd's default.
const defaultBenchModel = "seeded-2x16"

type benchEvalCmd struct {
	Backend   string        `enum:"cpu,gpu,ort,ort-cpu,ort-cuda,ort-tensorrt" default:"cpu" help:"gpu measures networks on the GPU: launches, whole batches, and with --peer another program beside evald. ort (the provider of --ort), ort-cpu, ort-cuda and ort-tensorrt measure a network with ONNX Runtime, in turns with the backend that evald would choose."`
	Model     string        `default:"seeded-2x16" placeholder:"NAME|PATH" help:"The network to measure, or grpc://HOST:PORT/NAME for a model of evald serve there (${default})."`
	Networks  []string      `needs:"backend=gpu" default:"6x64,10x64,10x128,20x256" help:"With --backend gpu and no --model: random networks of these sizes, or models by name, such as default-fast (${default})."`
	Batches   []int         `range:"1 to 1048576" needs:"backend=gpu" default:"1,8,64,256,1024,4096,16384,65536" help:"With --backend gpu: positions in a batch (${default})."`
	Kernel    string        `needs:"backend=gpu" placeholder:"NAME" help:"With --backend gpu: the kernel to use instead of the fastest. The error for an unknown name lists all kernels."`
	Peer      string        `enum:",onnxruntime,openvino,pytorch,pytorch-compile,tensorrt" default:"" placeholder:"onnxruntime|openvino|pytorch|pytorch-compile|tensorrt" help:"Measure networks beside other programs, and nothing else. On the CPU: onnxruntime in float32 and int8, and for openvino also OpenVINO in float32, bfloat16 and int8, with the same number of threads and batches of 1 to 256, and the difference of all from the float32 reference; default network: random, 6 blocks of 64 channels. On the GPU, in turns with evald: pytorch (a CUDA graph), pytorch-compile (the same after torch.compile with max-autotune), tensorrt or onnxruntime. Needs a Python (EVALD_PYTHON, or python3) with onnxruntime, onnx and numpy, for openvino also openvino and nncf; for the GPU torch, safetensors, numpy and the peer."`
	Precision string        `enum:"bf16,fp16" default:"bf16" needs:"peer=pytorch|pytorch-compile|tensorrt" help:"Precision of the peer on the GPU, bf16 or fp16 (${default})."`
	GPUs      numbers       `needs:"backend=gpu" name:"gpus" placeholder:"N" help:"With --backend gpu: the GPU to measure, by its number in evald devices; of several numbers the first. Default: 0."`
	ORT       ortFlag       `name:"ort" placeholder:"K=V,..." help:"Settings of ONNX Runtime, as for evald eval."`
	Round     time.Duration `range:"1ms to 1h" default:"200ms" help:"Time of one round; a figure is the median of five."`
	JSON      bool          `help:"Write JSON instead of a table; with --backend gpu, a line after each measured batch size."`
}

func (c *benchEvalCmd) Run(ctx context.Context, s streams) error {
	for backend, peers := range map[string][]string{"cpu": {"openvino"}, "gpu": {"pytorch", "pytorch-compile", "tensorrt"}} {
		if slices.Contains(peers, c.Peer) && c.Backend != backend {
			return usage("--peer %s is for --backend %s", c.Peer, backend)
		}
	}
	switch {
	case c.Backend == "gpu":
		return c.gpu(ctx, s)
	case c.Backend != "cpu":
		return c.runtime(ctx, s)
	}
	if c.Peer != "" {
		return c.peers(ctx, s)
	}
	model, err := c.model(s.err)
	if err != nil {
		return err
	}
	return measure(s, c.JSON, bench.Table, func(progress bench.Progress) ([]bench.Figure, error) {
		return bench.Eval(ctx, c.Round, model, progress)
	})
}

func (c *benchEvalCmd) peers(ctx context.Context, s streams) error {
	text := c.Model
	if text == "" || text == defaultBenchModel {
		text = "6x64"
	}
	n, of, err := benchNetwork(text, s.err)
	if err != nil {
		return err
	}
	libraries := []string{"onnxruntime"}
	if c.Peer == "openvino" {
		libraries = append(libraries, "openvino")
	}
	progress := newProgress(s.err, 0)
	defer progress.clear()
	report, err := bench.Peers(ctx, c.Round, of, n.Name, python(), libraries, progress.text)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, report)
	}
	return bench.PeerTable(s.out, report)
}

// runtime measures a network with ONNX Runtime.
func (c *benchEvalCmd) runtime(ctx context.Context, s streams) error {
	if c.Peer != "" {
		return usage("--backend %s does nothing with --peer", c.Backend)
	}
	own := options()
	own.GPUs, own.Note = c.GPUs.list(), linesTo(s.err)
	other := own
	other.Backend, other.ORT = c.Backend, c.ORT.options()
	m, n, err := open.Any(c.Model)
	name := m.Label()
	if _, size := net.ParseConfig(c.Model); size == nil {
		var random bench.Named
		random, err = benchAny(c.Model, s.err)
		n, name = random.Network, random.Name
	}
	if err != nil {
		return err
	}
	theirs, err := n.Open(name, other)
	if err != nil {
		return flagged(err)
	}
	defer theirs.Close()
	var ours *open.Opened
	if n.Runtime() == "" {
		if ours, err = n.Open(name, own); err != nil {
			return flagged(err)
		}
		defer ours.Close()
	}
	return measure(s, c.JSON, bench.Table, func(progress bench.Progress) ([]bench.Figure, error) {
		return bench.Runtime(ctx, c.Round, theirs.Model, theirs, ours, progress)
	})
}

// model opens the model to measure on the CPU, or at a service.
func (c *benchEvalCmd) model(notes io.Writer) (bench.Model, error) {
	if isRemote(c.Model) {
		e, err := backend{Backend: open.Auto, Model: c.Model}.choose(notes)
		if err != nil {
			return bench.Model{}, err
		}
		return bench.Model{Name: e.Model, Remote: e.Evaluator}, nil
	}
	m, network, err := open.Any(c.Model)
	if err != nil {
		return bench.Model{}, err
	}
	if network.Runtime() != "" {
		return bench.Model{}, usage("--model %s is %s: --backend ort-cpu measures it", c.Model, network.What())
	}
	if text := m.Warning(); text != "" {
		linesTo(notes)(text)
	}
	return bench.Model{Name: m.Label(), Network: network}, nil
}

func python() string { return cmp.Or(os.Getenv("EVALD_PYTHON"), "python3") }

func (c *benchEvalCmd) gpu(ctx context.Context, s streams) error {
	found, err := driver.Find()
	if err != nil {
		return noGPU(err)
	}
	on, err := found.Select(c.GPUs.list())
	if err != nil {
		return noGPU(err)
	}
	work := bench.GPUWork{Device: on[0], Driver: found, Batches: c.Batches, Kernel: c.Kernel, Round: c.Round, Trial: options().GPUTrial, Note: linesTo(s.err)}
	if c.Model != defaultBenchModel {
		n, err := benchModel(c.Model, s.err)
		if err != nil {
			return err
		}
		work.Networks, c.Networks = []bench.Named{n}, nil
	}
	for _, text := range c.Networks {
		n, err := benchAny(text, s.err)
		if err != nil {
			return usage("--networks: %w", err)
		}
		work.Networks = append(work.Networks, n)
	}
	if c.Peer != "" {
		work.Peer = &bench.Torch{Python: python(), Device: "cuda", Way: c.Peer, Precision: c.Precision}
		if on[0].Emulated() {
			work.Peer.Device = "cpu"
		}
	}
	progress := newProgress(s.err, 0)
	defer progress.clear()
	var rows []bench.GPURow
	lines := json.NewEncoder(s.out)
	err = bench.GPU(ctx, work, func(row bench.GPURow) error {
		rows = append(rows, row)
		if c.JSON {
			return lines.Encode(row)
		}
		return nil
	}, progress.text)
	if !c.JSON && len(rows) > 0 {
		err = errors.Join(bench.GPUTable(s.out, rows), err)
	}
	return err
}

// benchModel returns the model that text names, which evald's own kernels compute.
func benchModel(text string, notes io.Writer) (bench.Named, error) {
	m, n, err := open.Any(text)
	if err != nil {
		return bench.Named{}, err
	}
	if n.Runtime() != "" {
		return bench.Named{}, fmt.Errorf("model %s is %s: --backend ort-cuda measures it", text, n.What())
	}
	if text := m.Warning(); text != "" {
		linesTo(notes)(text)
	}
	return bench.Named{Name: m.Label(), Network: n}, nil
}

// benchAny returns a random network if text is a size such as 6x64, else the model that text names.
func benchAny(text string, notes io.Writer) (bench.Named, error) {
	config, err := net.ParseConfig(text)
	if err == nil {
		n, err := net.NewScrambled(config, 1)
		return bench.Named{Name: text, Network: open.OfConvolutions(n)}, err
	}
	n, notModel := benchModel(text, notes)
	if notModel != nil {
		return bench.Named{}, fmt.Errorf("%w; it is not a size either: %w", notModel, err)
	}
	n.Name = text
	return n, nil
}

// benchNetwork is benchAny for callers that need a network of convolutions.
func benchNetwork(text string, notes io.Writer) (n bench.Named, of *net.Network, err error) {
	if n, err = benchAny(text, notes); err != nil {
		return n, nil, err
	}
	if of, err = n.Network.Convolutions(); err != nil {
		err = fmt.Errorf("model %s %w", text, err)
	}
	return n, of, err
}

// scrambledOn opens a random network of a size on a backend. Unless path is "", the CPU computes with the instructions of that path.
func scrambledOn(backend, size, path string, notes io.Writer) (*open.Opened, error) {
	n, err := benchAny(size, notes)
	if err != nil {
		return nil, err
	}
	o := options()
	o.Backend, o.CPUPath, o.Note = backend, path, linesTo(notes)
	e, err := n.Network.Open(n.Name, o)
	return e, flagged(err)
}

// measure prints what run measures, as a table or as JSON.
func measure[F any](s streams, asJSON bool, table func(io.Writer, []F) error, run func(bench.Progress) ([]F, error)) error {
	progress := newProgress(s.err, 0)
	defer progress.clear()
	figures, err := run(progress.text)
	if err != nil {
		return err
	}
	if !asJSON {
		return table(s.out, figures)
	}
	return writeJSON(s.out, map[string]any{"go": runtime.Version(), "arch": runtime.GOARCH, "cores": runtime.GOMAXPROCS(0), "figures": figures})
}

type benchSearchCmd struct {
	Round time.Duration `range:"1ms to 1h" default:"500ms" help:"Time of one round; a figure is the median of five."`
	JSON  bool          `help:"Write JSON instead of a table."`
}

func (c *benchSearchCmd) Run(ctx context.Context, s streams) error {
	return measure(s, c.JSON, bench.Table, func(progress bench.Progress) ([]bench.Figure, error) {
		return bench.Search(ctx, c.Round, progress)
	})
}

type benchSelfplayCmd struct {
	backend
	selfplayFlags
	Round time.Duration `range:"1ms to 1h" default:"4s" help:"Time of one round; a figure is the median of five."`
	JSON  bool          `help:"Write JSON instead of a table."`
}

// Run measures the evaluator of the flags, or random networks of two sizes if no flag names one.
func (c *benchSelfplayCmd) Run(ctx context.Context, s streams) error {
	board, err := boardOf(c.Rules)
	if err != nil {
		return err
	}
	var evaluators []*open.Opened
	if c.backend != (backend{Backend: "auto", processors: processors{CPUPath: c.CPUPath}}) {
		e, err := c.choose(s.err)
		if err != nil {
			return err
		}
		defer e.Close()
		if err := e.Supports(board); err != nil {
			return err
		}
		evaluators = append(evaluators, e)
	} else {
		for _, size := range []string{"6x64", "4x32"} {
			e, err := scrambledOn(open.CPU, size, c.CPUPath, s.err)
			if err != nil {
				return err
			}
			evaluators = append(evaluators, e)
		}
	}
	return measure(s, c.JSON, bench.Table, func(progress bench.Progress) (all []bench.Figure, err error) {
		for _, e := range evaluators {
			figures, err := bench.SelfPlay(ctx, c.Round, e.Evaluator, e.Model, c.config("bench", board), c.Remember, progress)
			if err != nil {
				return nil, err
			}
			all = append(all, figures...)
		}
		return all, nil
	})
}

type benchSolveCmd struct {
	Files    []string `arg:"" optional:"" type:"existingfile" help:"Sets of positions: lines with moves and the exact score. Default: built-in sets."`
	First    int      `range:"0 to 1073741824" help:"Only the first N positions of each file; 0 is all."`
	TableMiB int      `range:"0 to 1048576" name:"table-mib" default:"0" help:"Memory of the transposition table in MiB; 0 is 16 for boards of up to 42 cells, 256 for larger ones."`
	JSON     bool     `help:"Write JSON instead of a table."`
}

// Validate checks the memory before anything is read.
func (c *benchSolveCmd) Validate() error { return fitsMemory("table-mib", c.TableMiB, 1<<20) }

// Run solves each set with one thread, no book, and an empty table for each position.
func (c *benchSolveCmd) Run(ctx context.Context, s streams) error {
	sets := bench.BuiltInSets()
	if len(c.Files) > 0 {
		sets = nil
		for _, path := range c.Files {
			set, err := bench.ReadSet(path, c.First)
			if err != nil {
				return err
			}
			sets = append(sets, set)
		}
	}
	wrong := 0
	err := measure(s, c.JSON, bench.SolveTable, func(progress bench.Progress) (figures []bench.SolveFigure, err error) {
		for _, set := range sets {
			f, err := bench.Solve(ctx, set, c.TableMiB, progress)
			if err != nil {
				return nil, err
			}
			figures = append(figures, f)
			wrong += max(0, f.Wrong)
		}
		return figures, nil
	})
	if err != nil {
		return err
	}
	if wrong > 0 {
		return fmt.Errorf("%d wrong scores", wrong)
	}
	return nil
}
