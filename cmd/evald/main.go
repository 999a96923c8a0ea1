// Command evald evaluates ConnectX positions in large batches.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"
)

// cli is the command line. Its names are stable: scripts rely on them.
type cli struct {
	Version kong.VersionFlag `help:"Print the version and exit."`

	Eval      evalCmd      `cmd:"" help:"Evaluate positions: win, draw and loss probabilities and a policy for each line of input."`
	Search    searchCmd    `cmd:"" help:"Search positions with a tree of so many visits."`
	Analyze   analyzeCmd   `cmd:"" help:"Answer a script's queries, JSON lines, with searches of many positions at once."`
	Solve     solveCmd     `cmd:"" help:"Solve positions exactly, or build a book of a game's first plies."`
	Positions positionsCmd `cmd:"" help:"Draw positions of random play, plausible play and openings, with the exact score of each move."`
	Score     scoreCmd     `cmd:"" help:"Measure an evaluator's moves and values against exact scores."`
	Play      playCmd      `cmd:"" help:"Play against an agent on the terminal, with the evaluation of each move."`
	Match     matchCmd     `cmd:"" help:"Play matches between agents: a table with Elo ratings, and the games as Parquet."`
	Train     trainCmd     `cmd:"" help:"Train a network on records, or its gameover head on random positions."`
	Kaggle    kaggleCmd    `cmd:"" help:"Play Kaggle's ConnectX: behind a URL, or as an archive to submit."`
	Selfplay  selfplayCmd  `cmd:"" help:"Play games of an evaluator against itself and keep them as training records."`
	Learn     learnCmd     `cmd:"" help:"Learn a game from random weights: self-play, training, exact scores, matches, promotion, again and again."`
	Serve     serveCmd     `cmd:"" help:"Serve evaluation and search to other programs, over gRPC and REST (KServe v2)."`
	Bench     benchCmd     `cmd:"" help:"Measure this machine, each figure beside its ceiling."`
	Model     modelCmd     `cmd:"" help:"Keep networks by name, check them, and export them as ONNX or safetensors."`
	Devices   devicesCmd   `cmd:"" help:"Say what this machine can compute with: the processor, and GPUs or why there are none."`
}

// streams are the program's files, so that tests can pass their own.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// Exit statuses. Kong's own for a wrong command line is 80; it is kept apart from that of bad input.
const (
	exitOK          = 0
	exitBadInput    = 1 // some lines were refused, or the command failed
	exitUsage       = 2
	exitInterrupted = 130
)

// errBadLines ends a command that answered all it could.
var errBadLines = errors.New("some lines were refused")

// errLogged ends a command whose log says why.
var errLogged = errors.New("the log says why")

// errInterrupted ends a command that was interrupted and has said so.
var errInterrupted = errors.New("interrupted")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

func run(ctx context.Context, args []string, s streams) int {
	var c cli
	exited := -1
	parser, err := kong.New(&c, kong.Name("evald"),
		kong.Description("Evaluate ConnectX positions (Connect Four on any board) in large batches."),
		kong.Writers(s.out, s.err), kong.Exit(func(code int) { exited = code }),
		kong.Vars{"version": version()}, kong.Vars(selfplayVars()), kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(s))
	if err != nil {
		panic(err) // the structs above are wrong
	}
	command, err := parser.Parse(args)
	if exited >= 0 { // --help and --version have written their text
		return exited
	}
	if err != nil {
		fmt.Fprintf(s.err, "evald: %v (see evald --help)\n", err)
		return exitUsage
	}
	err = command.Run()
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		fmt.Fprintln(s.err, "evald: interrupted")
		return exitInterrupted
	case !errors.Is(err, errBadLines) && !errors.Is(err, errLogged):
		fmt.Fprintf(s.err, "evald: %v\n", err)
	}
	return exitBadInput
}

// version is the module's, with the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v += " " + s.Value
		}
	}
	return fmt.Sprintf("%s %s", v, info.GoVersion)
}
