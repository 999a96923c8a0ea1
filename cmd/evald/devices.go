package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/models"
	nn "github.com/evald/evald/nn/cpu"
	"github.com/evald/evald/nn/gpu"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/open"
	"github.com/evald/evald/nn/ort"
)

type devicesCmd struct {
	JSON    bool `help:"Write JSON."`
	Verbose bool `short:"v" help:"Show the speed of each set of the processor's instructions and why one is chosen. Evaluate some positions on each GPU with the networks default and default-fast, and show the results. Without a driver, show where evald looked for it."`
}

// devices describes the processor and the GPUs of this machine.
type devices struct {
	CPU   processor      `json:"cpu"`
	GPU   *driver.Driver `json:"gpu"`              // null if there is none
	NoGPU string         `json:"no_gpu,omitempty"` // why there is none
	Tried []tried        `json:"tried,omitempty"`  // with -v: the GPUs in turn

	Runtime *onnxRuntime `json:"onnxruntime,omitempty"` // with -v
}

// onnxRuntime describes the library that computes ONNX files, and evald's own networks on GPUs for which evald has no kernels.
type onnxRuntime struct {
	Version   string   `json:"version,omitempty"`
	Path      string   `json:"path,omitempty"`
	Providers []string `json:"providers,omitempty"` // built into the library; they may still lack libraries of their own
	Error     string   `json:"error,omitempty"`     // why there is none
}

func findRuntime() *onnxRuntime {
	l, err := ort.Open(ort.Options{})
	if err != nil {
		return &onnxRuntime{Error: err.Error()}
	}
	return &onnxRuntime{Version: l.Version, Path: l.Path, Providers: l.Providers()}
}

// String returns one line, or "" if the library was not looked for.
func (r *onnxRuntime) String() string {
	switch {
	case r == nil:
		return ""
	case r.Error != "":
		return "onnx none: " + r.Error + "\n"
	}
	return fmt.Sprintf("onnx ONNX Runtime %s in %s, with %s\n", r.Version, r.Path, strings.Join(r.Providers, ", "))
}

// tried is the result of evaluating some positions on a GPU with a network, besides its self-test.
type tried struct {
	GPU      int         `json:"gpu"`
	Model    string      `json:"model"`
	Kernel   string      `json:"kernel,omitempty"`
	Small    []gpu.Sized `json:"small,omitempty"` // other kernels for smaller batches
	Times    gpu.Samples `json:"times,omitempty"` // of launches by kernel, from which Kernel and Small were chosen; empty if the times were predicted
	Rows     uint64      `json:"rows"`
	Launches uint64      `json:"launches"`
	Busy     float64     `json:"busy_seconds"`
	Faults   uint64      `json:"faults"`
	Notes    []string    `json:"notes,omitempty"` // why kernels are not used
	Error    string      `json:"error,omitempty"` // why it does not work
}

type processor struct {
	Arch     string   `json:"arch"`
	Threads  int      `json:"threads"`
	Features []string `json:"features"` // only those that evald has or may get code for

	// With -v, for the network that ships and for all networks that were measured on this machine before:
	Model string  `json:"model,omitempty"`
	Named string  `json:"named,omitempty"` // the path that EVALD_CPU_PATH names
	Paths []shape `json:"paths,omitempty"`
}

// shape says with which instructions this machine computes networks of one size (blocks and channels).
type shape struct {
	Network string                  `json:"network"`
	Rates   map[kernel.Path]float64 `json:"rates,omitempty"` // positions a second of one thread
	Path    string                  `json:"path"`            // of networks without ranges of activations
	Why     string                  `json:"why"`
	Path8   string                  `json:"path_with_ranges"`
	Why8    string                  `json:"why_with_ranges"`
}

// measure adds the rates of the paths for the network that ships, measuring them if necessary, and for all networks measured before.
func (p *processor) measure() error {
	p.Model, p.Named = kernel.Processor(), os.Getenv(open.PathVariable)
	ships, _ := models.Find(open.DefaultModel)
	first, err := net.ParseConfig(ships.Config)
	if err != nil {
		return err
	}
	all := append([]net.Config{first}, slices.DeleteFunc(nn.Measured(), func(c net.Config) bool { return c.Blocks == first.Blocks && c.Channels == first.Channels })...)
	for _, c := range all {
		plain, ranged := nn.Choose(c, false), nn.Choose(c, true)
		p.Paths = append(p.Paths, shape{c.String(), plain.Rates, string(plain.Path), plain.Why, string(ranged.Path), ranged.Why})
	}
	return nil
}

// String returns a line, and with -v also a table.
func (p processor) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cpu  %s, %d threads, %s\n", p.Arch, p.Threads, strings.Join(p.Features, " "))
	if p.Paths == nil {
		return b.String()
	}
	fmt.Fprintf(&b, "     %s; thousands of positions a second of one thread, by path:\n", p.Model)
	paths := kernel.Paths()
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "     network")
	for _, path := range paths[:max(1, len(paths)-1)] {
		fmt.Fprintf(table, "\t%s", path)
	}
	for _, s := range p.Paths {
		fmt.Fprintf(table, "\n     %s", s.Network)
		for _, path := range paths[:max(1, len(paths)-1)] {
			if rate := s.Rates[path]; rate > 0 {
				fmt.Fprintf(table, "\t%.1f", rate/1000)
			} else {
				fmt.Fprint(table, "\t-")
			}
		}
	}
	fmt.Fprintln(table)
	_ = table.Flush() // to memory
	for i, s := range p.Paths {
		ranges := "with ranges (evald model int8)"
		if i == 0 {
			ranges += ", as " + open.DefaultModel + " has"
		}
		fmt.Fprintf(&b, "     %s: path %s, %s\n", s.Network, s.Path, s.Why)
		fmt.Fprintf(&b, "     %s %s: path %s, %s\n", s.Network, ranges, s.Path8, s.Why8)
	}
	if p.Named != "" {
		fmt.Fprintf(&b, "     %s=%s overrides all of this\n", open.PathVariable, p.Named)
	}
	return b.String()
}

func (c *devicesCmd) Run(ctx context.Context, s streams) error {
	found := devices{CPU: processor{Arch: runtime.GOARCH, Threads: runtime.GOMAXPROCS(0), Features: cpuFeatures()}}
	var err error
	if c.Verbose {
		if err = found.CPU.measure(); err != nil {
			return err
		}
	}
	if found.GPU, err = driver.Find(); err != nil {
		if found.NoGPU = err.Error(); c.Verbose {
			found.NoGPU = driver.Details(err)
		}
	}
	if c.Verbose {
		found.Runtime = findRuntime()
	}
	if c.Verbose && found.GPU != nil {
		for _, d := range found.GPU.Devices {
			for _, model := range []string{open.DefaultModel, open.FastModel} {
				found.Tried = append(found.Tried, try(ctx, d.Index, model))
			}
		}
	}
	if c.JSON {
		return writeJSON(s.out, found)
	}
	_, err = fmt.Fprintf(s.out, "%s%s%v", found.CPU, found.gpus(), found.Runtime)
	return err
}

func (d devices) gpus() string {
	if d.GPU == nil {
		return "gpu  0 devices: " + d.NoGPU + "\n"
	}
	var b strings.Builder
	for _, device := range d.GPU.Devices {
		fmt.Fprintf(&b, "gpu  %v\n     %s, PCI %s\n", device, device.UUID, device.PCI)
		for _, t := range d.Tried {
			if t.GPU == device.Index {
				fmt.Fprintf(&b, "     %v\n", t)
			}
		}
	}
	fmt.Fprintf(&b, "     driver %s, CUDA %d.%d\n", d.GPU.Library, d.GPU.Version/1000, d.GPU.Version%1000/10)
	return b.String()
}

// triedRows is the number of positions that try evaluates on a GPU.
const triedRows = 256

func try(ctx context.Context, index int, model string) tried {
	t := tried{GPU: index, Model: model}
	note := func(text string) { t.Notes = append(t.Notes, text) }
	o := options()
	o.Backend, o.Model, o.GPUs, o.Note = open.GPU, model, []int{index}, note
	e, err := open.Open(o)
	if err != nil {
		t.Error = err.Error()
		return t
	}
	defer e.Close()
	if err := e.Evaluate(ctx, eval.NewBatch(game.MustBoard(game.Connect4), triedRows)); err != nil {
		t.Error = err.Error()
	}
	did := e.Devices()[0]
	t.Small, t.Times = did.Small, did.Times
	t.Kernel, t.Rows, t.Launches, t.Busy, t.Faults = did.Kernel, did.Rows, did.Launches, did.Busy.Seconds(), did.Faults
	return t
}

func (t tried) String() string {
	if t.Error != "" {
		return "network " + t.Model + " does NOT work: " + t.Error
	}
	var b strings.Builder
	fmt.Fprintf(&b, "works: network %s by ", t.Model)
	for _, s := range t.Small {
		fmt.Fprintf(&b, "%s up to %d, ", s.Kernel, s.Most)
	}
	fmt.Fprintf(&b, "%s, %d rows in %d launches, busy %v, %d faults", t.Kernel, t.Rows, t.Launches,
		time.Duration(t.Busy*1e9).Round(time.Microsecond), t.Faults)
	for _, note := range t.Notes {
		b.WriteString("\n     " + note)
	}
	return b.String()
}

func cpuFeatures() []string {
	features := []string{}
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"avx2", cpu.X86.HasAVX2},
		{"fma", cpu.X86.HasFMA},
		{"avx512f", cpu.X86.HasAVX512F},
		{"avx512bw", cpu.X86.HasAVX512BW},
		{"avx512vl", cpu.X86.HasAVX512VL},
		{"avx512vnni", cpu.X86.HasAVX512VNNI},
		{"avx512bf16", cpu.X86.HasAVX512BF16},
		{"avxvnni", cpu.X86.HasAVXVNNI},
		{"amx-bf16", cpu.X86.HasAMXBF16},
		{"neon", cpu.ARM64.HasASIMD},
		{"sve", cpu.ARM64.HasSVE},
	} {
		if f.has {
			features = append(features, f.name)
		}
	}
	return features
}
