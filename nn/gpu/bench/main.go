//go:build linux

// Command bench measures networks on a machine that has a GPU and nothing else: no Go, no shell, no network. `make bench-gpu`
// packs it as ./run, with the programs that it starts (README.md).
//
//	main.go     flags, and what all runs have in common
//	runs.go     the runs: their steps in order, with the limit of each
//	training.go  run D: records and a network from them
//	measure.go  rows of a network and a kernel or a peer, of Go's tests, and of ncu
//	command.go  a program with a deadline, which dies with us
//	rows.go     the file of rows, each on the disk as soon as it is measured
//	clocks.go   what nvidia-smi says beside the run
//	table.go    the summary, from the rows alone
//
// It is a program and not a script, so that it needs no shell on that machine, and its deadlines and its file of rows can be
// tested like all other code. It does not import the driver's calls: whatever happens to a GPU happens to a program that it
// started.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/evald/evald/kernels/cuda/driver"
)

// bench is one run.
type bench struct {
	ctx  context.Context
	name string // canary, A, B, C or D
	what run
	here string // the folder of evald, driver.test and gpu.test
	out  string // the folder of the results
	temp string // the folder of caches and temporary files
	end  time.Time

	step  time.Duration // the limit of the step in progress
	until time.Time     // when its time is over, at the latest with the run's
	began time.Time     // when the row in progress began

	networks []string
	sizes    []int    // of batches; none: those of the run
	only     []string // of the peers of run C; nil: all
	round    time.Duration
	games    int           // of each kind of play, for run D
	longest  time.Duration // of a step, in place of its own limit; 0: none

	gpu    driver.Device // the first
	barred []string      // kernels that are left out
	speeds []speed       // measured so far
	clocks clocks
	rows   *os.File
	failed int // rows with an error
	log    *os.File
}

const usage = `run canary|A|B|C|D|table [flags]

  canary  does anything hang or fail? each kernel for Hopper on a small network, then under compute-sanitizer
  A       is it correct, and how fast? Go's tests, speeds
  B       every kernel for the widths of the networks, and profiles of the fastest by ncu
  C       beside PyTorch, ONNX Runtime and TensorRT
  D       20 million exact results by this machine's processors, and a network trained on them by PyTorch
  table   the summary of all rows so far, from the folder of the results alone

`

func main() {
	runtime.LockOSThread() // see bench.command
	if err := start(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

func start(args []string) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	out := flags.String("o", os.Getenv("OUT"), "`folder` of the results; without it $OUT, or else results")
	limit := flags.Duration("time", 0, "of the whole run (canary: 90s; D: 30m; others: 9m)")
	networks := flags.String("networks", "", "networks, separated by commas: sizes, or names of models")
	batches := flags.String("batches", "", "sizes of batches, separated by commas")
	only := flags.String("peers", "", "run C: the other programs, separated by commas, such as pytorch,pytorch-compile")
	round := flags.Duration("round", 20*time.Millisecond, "time of one round; a figure is the median of five")
	games := flags.Int("games", 620_000, "run D: games of each of three kinds of play whose positions it solves")
	longest := flags.Duration("step", 0, "the longest time of one step, in place of what each has")
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		flags.Usage()
		return errors.New("which run? canary, A, B, C, D or table")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *out == "" {
		*out = "results"
	}
	if args[0] == "table" {
		return writeTable(*out)
	}
	what, ok := runs[args[0]]
	if !ok {
		return fmt.Errorf("no run %q: canary, A, B, C, D or table", args[0])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	now := time.Now()
	all := cmp.Or(*limit, what.time)
	b := &bench{
		ctx: ctx, name: args[0], what: what, end: now.Add(all - min(patience, all/10)), began: now, networks: what.networks, round: *round, longest: *longest,
		barred: strings.FieldsFunc(os.Getenv(without), comma),
	}
	b.until, b.step = b.end, time.Until(b.end)
	if *networks != "" {
		b.networks = strings.FieldsFunc(*networks, comma)
	}
	for _, name := range strings.FieldsFunc(*only, comma) {
		if !slices.ContainsFunc(peers, func(p peer) bool { return p.name == name }) {
			return fmt.Errorf("-peers: no program %q: pytorch, pytorch-compile, onnxruntime or tensorrt", name)
		}
		b.only = append(b.only, name)
	}
	if b.games = *games; b.games < 1 {
		return fmt.Errorf("-games: %d is below 1", b.games)
	}
	for _, text := range strings.FieldsFunc(*batches, comma) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-batches: %q is no size of a batch", text)
		}
		b.sizes = append(b.sizes, n)
	}
	if err := b.open(*out); err != nil {
		return err
	}
	b.follow(what.plan(b))
	if err := writeTable(b.out); err != nil {
		return err
	}
	if len(b.barred) > 0 {
		b.say("%s=%s leaves out what failed", without, strings.Join(b.barred, ","))
	}
	if b.failed > 0 {
		return fmt.Errorf("%d rows of run %s have an error", b.failed, b.name)
	}
	return nil
}

func comma(r rune) bool { return r == ',' }

// open makes the folders and finds the GPU.
func (b *bench) open(out string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b.here = filepath.Dir(self)
	for _, program := range []string{"evald", "driver.test", "gpu.test"} {
		if _, err := exec.LookPath(filepath.Join(b.here, program)); err != nil {
			return fmt.Errorf("%w: make bench-gpu builds it", err)
		}
	}
	if b.out, err = filepath.Abs(out); err != nil {
		return err
	}
	if err := os.MkdirAll(b.out, 0o777); err != nil {
		return err
	}
	for _, folder := range []string{filepath.Join(os.TempDir(), "evald-bench-gpu"), filepath.Join(b.here, "temp"), filepath.Join(b.out, "temp")} {
		if err = os.MkdirAll(folder, 0o777); err == nil {
			b.temp = folder
			break
		}
	}
	if err != nil {
		return err
	}
	if b.log, err = os.OpenFile(filepath.Join(b.out, b.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666); err != nil {
		return err
	}
	if err := b.find(); err != nil {
		return err
	}
	if b.rows, err = openRows(filepath.Join(b.out, b.name+".jsonl")); err != nil {
		return err
	}
	return b.watch()
}

// find asks evald for the GPU.
func (b *bench) find() error {
	text, err := b.output(b.program("evald"), "devices", "--json")
	var found struct {
		GPU   *driver.Driver `json:"gpu"`
		NoGPU string         `json:"no_gpu"`
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &found)
	}
	if err != nil {
		return fmt.Errorf("evald devices: %w", err)
	}
	if found.GPU == nil {
		return fmt.Errorf("0 devices: %s", found.NoGPU)
	}
	b.gpu = found.GPU.Devices[0]
	if b.gpu.Emulated() {
		b.say("EMULATED: no GPU computes this, the numbers mean nothing")
	}
	return nil
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "run %s: %s\n", b.name, fmt.Sprintf(format, args...))
}
