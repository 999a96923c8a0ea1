//go:build linux

// Command bench measures networks on a machine that has a GPU and nothing else: no Go, no shell, no network. `make bench-gpu`
// packs it as ./run, with the programs that it starts (README.md).
//
//	main.go     flags, and what all runs have in common
//	runs.go     the three runs: what is measured, in which order, and how long it may take
//	command.go  a program with deadlines, which dies with us
//	rows.go     the file of rows, each on the disk as soon as it is measured
//	tests.go, profile.go   rows from the output of Go's tests and of profilers
//	table.go    the summary, from the rows alone
//
// It is a program and not a script, so that it needs no shell on that machine, and its deadlines and its file of rows can be
// tested like all other code. It does not import the driver's calls: whatever happens to a GPU happens to a program that it
// started.
package main

import (
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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/evald/evald/kernels/cuda/driver"
)

// bench is one run.
type bench struct {
	ctx  context.Context
	name string // A, B or C
	here string // the folder of evald, driver.test and gpu.test
	out  string // the folder of the results
	temp string // the folder of caches and temporary files
	end  time.Time

	networks []string
	batches  []int
	round    time.Duration
	row      time.Duration

	gpu  driver.Device // the first
	rows *rows
	log  *os.File
}

const usage = `run A|B|C|table [flags]

  A      is it correct, and how fast? Go's tests, the self-test of every kernel, speeds
  B      every kernel that fits, and profiles: ncu, nsys, compute-sanitizer
  C      beside PyTorch, ONNX Runtime and TensorRT
  table  the summary of all rows so far, from the folder of the results alone

`

func main() {
	runtime.LockOSThread() // see command.start
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
	limit := flags.Duration("time", 9*time.Minute, "of the whole run; what is not measured then is said to be missing")
	networks := flags.String("networks", "", "networks, separated by commas: sizes, or names of models (A and B: all; C: 6x64)")
	batches := flags.String("batches", "", "sizes of batches, separated by commas (A: all; B and C: four)")
	round := flags.Duration("round", 100*time.Millisecond, "time of one round; a figure is the median of five")
	row := flags.Duration("row", 0, "the longest time of one row, in place of what each kind of rows has")
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		flags.Usage()
		return errors.New("which run? A, B, C or table")
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
		return fmt.Errorf("no run %q: A, B, C or table", args[0])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := &bench{ctx: ctx, name: args[0], end: time.Now().Add(*limit), networks: what.networks, batches: what.batches, round: *round, row: *row}
	if *networks != "" {
		b.networks = strings.Split(*networks, ",")
	}
	if *batches != "" {
		b.batches = nil
		for _, text := range strings.Split(*batches, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return fmt.Errorf("-batches: %q is no size of a batch", text)
			}
			b.batches = append(b.batches, n)
		}
	}
	if err := b.open(*out); err != nil {
		return err
	}
	defer b.rows.close()
	defer b.log.Close()
	what.run(b)
	if err := writeTable(b.out); err != nil {
		return err
	}
	if b.rows.failed > 0 {
		return fmt.Errorf("%d rows of run %s have an error", b.rows.failed, b.name)
	}
	return nil
}

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
	b.rows, err = openRows(b.out, b.name)
	return err
}

// find asks evald for the GPU.
func (b *bench) find() error {
	var text string
	if err := b.command(command{args: []string{b.program("evald"), "devices", "--json"}, limit: time.Minute, line: func(line string) { text += line }}); err != nil {
		return fmt.Errorf("evald devices: %w", err)
	}
	var found struct {
		GPU   *driver.Driver `json:"gpu"`
		NoGPU string         `json:"no_gpu"`
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
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

func (b *bench) say(text string) { fmt.Fprintf(os.Stderr, "run %s: %s\n", b.name, text) }

func (b *bench) program(name string) string { return filepath.Join(b.here, name) }

// environment is that of all programs. Libraries of the driver are also looked for in the places where containers have them,
// and nothing is written to a home that may not exist.
func (b *bench) environment() []string {
	env := os.Environ()
	add := func(name, value string) {
		if os.Getenv(name) == "" {
			env = append(env, name+"="+value)
		}
	}
	libraries := filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))
	for _, folder := range driver.Folders {
		if _, err := os.Stat(filepath.Join(folder, "libcuda.so.1")); err == nil {
			libraries = append(libraries, folder)
		}
	}
	if len(libraries) > 0 {
		env = append(env, "LD_LIBRARY_PATH="+strings.Join(libraries, string(filepath.ListSeparator)))
	}
	env = append(env, "TMPDIR="+b.temp, "EVALD_GPU=1")
	if !b.gpu.Emulated() {
		env = append(env, "EVALD_REQUIRE_GPU=1")
	}
	add("HOME", b.temp)
	add("CUDA_CACHE_PATH", filepath.Join(b.temp, "cuda"))
	add("TORCHINDUCTOR_CACHE_DIR", filepath.Join(b.temp, "inductor"))
	add("TRITON_CACHE_DIR", filepath.Join(b.temp, "triton"))
	return env
}
