package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"golang.org/x/term"

	"github.com/evald/evald/cmd/evald/internal/stream"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/solver"
)

type evalCmd struct {
	backend
	anyPosition
	lineParts
	File    string       `arg:"" optional:"" help:"Positions, one a line: moves (44554; - is the empty board), rules and moves (9x5x4:4455, 3x3x3free:51), or Kaggle's observation as JSON. Default, or -: standard input."`
	Format  string       `enum:"jsonl,table,parquet" default:"jsonl" help:"Output: ${enum}."`
	Batch   int          `range:"1 to 1048576" default:"1024" help:"Positions per batch."`
	Exact   solver.Nodes `help:"Answer a position exactly, with source solver, if a solver proves its result within ${exactNodes} nodes, or =NODES."`
	Raw     bool         `without:"exact" help:"Answer with the network or heuristic alone, without the rules' answers to positions that the next stones decide."`
	Verbose bool         `short:"v" help:"Show the configuration in force, and a summary at the end."`
}

func (c *evalCmd) Run(ctx context.Context, s streams) error {
	threads := runtime.GOMAXPROCS(0)
	e, err := c.choose(s.err)
	if err != nil {
		return err
	}
	defer e.Close()
	if c.Exact > 0 {
		e.Prove(c.Exact)
	}
	if c.Raw {
		e.Evaluator = e.Raw()
	}
	if c.Format == "parquet" && c.Out == "" && isTerminal(s.out) {
		return usage("--format parquet is not for a terminal: name a file with -o FILE")
	}

	if c.Verbose {
		fmt.Fprintf(s.err, "evald eval: backend %s: %s; batch %d, batches at once %d, format %s\n", c.Backend, e.How, c.Batch, threads, c.Format)
	}
	return c.answer(ctx, s, "eval", e, c.File, c.Format, func(in io.Reader, out io.Writer) (tally, error) {
		start := time.Now()
		job := stream.Job{Evaluator: e.Evaluator, Model: e.ModelOn, Rows: c.Batch, Workers: threads, AnyPosition: c.AnyPosition}
		progress := newProgress(s.err, fileSize(in))
		if c.Out != "" || !isTerminal(s.out) { // answers on the terminal are progress enough
			job.Progress = progress.show
		}
		sum, err := stream.Run(ctx, in, c.format(out), job)
		progress.clear()
		if c.Verbose && c.Format != "table" {
			fmt.Fprintln(s.err, "evald eval: "+sum.Describe(time.Since(start)))
		}
		return tally{int(sum.Lines), int(sum.Bad), int(sum.GivenUp)}, err
	})
}

func (c *evalCmd) format(w io.Writer) stream.Format {
	switch c.Format {
	case "table":
		return stream.NewTable(w)
	case "parquet":
		return stream.NewParquet(w)
	}
	return stream.JSONL{W: w}
}

// fileSize returns the size of a regular file, or of a section of one, in bytes; 0 if it is unknown.
func fileSize(r io.Reader) int64 {
	switch f := r.(type) {
	case *os.File:
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return info.Size()
		}
	case section:
		return f.Size()
	}
	return 0
}

// outFile is the flag of commands that write answers.
type outFile struct {
	Out string `short:"o" aliases:"output" type:"path" placeholder:"FILE" help:"Write to this file instead of standard output. It appears only when it is complete."`
}

// write calls to with standard output, or with a file that gets its name when to has ended without an error.
func (f outFile) write(stdout io.Writer, to func(io.Writer) error) error {
	if f.Out == "" {
		return to(stdout)
	}
	file, err := durable.Create(f.Out)
	if err != nil {
		return err
	}
	defer file.Abort()
	if err := to(file); err != nil {
		return err
	}
	return file.Commit()
}

func isTerminal(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}
