package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/short"
)

// cli is the command line. Its names are stable because scripts rely on them.
type cli struct {
	globals

	Eval      evalCmd      `cmd:"" help:"Evaluate positions: win, draw and loss probabilities and a policy for each line of input."`
	Search    searchCmd    `cmd:"" help:"Search each position for a given number of visits."`
	Analyze   analyzeCmd   `cmd:"" help:"Answer a script's queries, as JSON lines, with searches of many positions at once."`
	Solve     solveCmd     `cmd:"" help:"Solve positions exactly, or build a book of a game's first plies."`
	Positions positionsCmd `cmd:"" help:"Make test positions from random play, plausible play and openings, with the exact score of each move."`
	Puzzles   puzzlesCmd   `cmd:"" help:"Make puzzles: positions with exactly one move that keeps the result, from self-play."`
	Merge     mergeCmd     `cmd:"" help:"Merge records of exact results: each position once, without the positions that measure networks."`
	Score     scoreCmd     `cmd:"" help:"Measure an evaluator's moves and values against exact scores."`
	Play      playCmd      `cmd:"" help:"Play against an agent on the terminal, with the evaluation of each move."`
	Show      showCmd      `cmd:"" help:"Draw a position: as text, SVG or PNG."`
	Page      pageCmd      `cmd:"" help:"Write the page that plays without a server, as files for any server of files."`
	Match     matchCmd     `cmd:"" help:"Play matches between agents, with a table of Elo ratings and the games as Parquet."`
	GrowBook  growBookCmd  `cmd:"" name:"grow-book" help:"Extend an opening book by an agent's games against itself."`
	Prove     proveCmd     `cmd:"" help:"Let an agent play against every play of the other side, and find its first mistakes."`
	Train     trainCmd     `cmd:"" help:"Train a network on records, or its gameover head on random positions."`
	Kaggle    kaggleCmd    `cmd:"" help:"Compete in Kaggle's ConnectX: with an archive to submit, or an agent at a URL."`
	Selfplay  selfplayCmd  `cmd:"" help:"Play games of an evaluator against itself, and store them as training records."`
	Learn     learnCmd     `cmd:"" help:"Learn one game or several by generations of self-play, training, measuring and matches for promotion, from random weights or another network."`
	Cluster   clusterCmd   `cmd:"" help:"Watch self-play on many machines."`
	Serve     serveCmd     `cmd:"" help:"Serve evaluation and search to other programs, over gRPC and REST (KServe v2)."`
	MCP       mcpCmd       `cmd:"" name:"mcp" help:"Let language models play, ask and be judged, by the Model Context Protocol."`
	Bench     benchCmd     `cmd:"" help:"Measure this machine, each figure beside its ceiling."`
	Model     modelCmd     `cmd:"" help:"Store networks by name, check them, and export them as ONNX or safetensors."`
	Devices   devicesCmd   `cmd:"" help:"Show the processor and the GPUs that evald can use, or why it can use no GPU."`

	Help       helpCmd       `cmd:"" help:"Explain a command, as its --help does."`
	Versions   versionCmd    `cmd:"" name:"version" help:"Print the version and how this program was built."`
	Completion completionCmd `cmd:"" help:"Print a script that completes commands, flags and values in bash, zsh or fish."`
	Man        manCmd        `cmd:"" help:"Print the manual page."`
	Complete   completeCmd   `cmd:"" hidden:"" passthrough:"" help:"Complete a command line, for the scripts of evald completion."`
	Library    libraryCmd    `cmd:"" hidden:"" help:"Answer the calls of the Python package over standard input and output, on systems without the library."`
	ONNXTrial  onnxTrialCmd  `cmd:"" name:"onnx-trial" hidden:"" help:"Open the ONNX file on standard input and evaluate a position with it, as a trial for another process."`
	GPUTrial   gpuTrialCmd   `cmd:"" name:"gpu-trial" hidden:"" help:"Try and measure the kernels of a GPU, as standard input asks, for another process."`
}

// streams are the program's input and outputs; tests pass their own.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// Exit statuses. (Kong's own for a wrong command line would be 80.)
const (
	exitOK          = 0
	exitBadInput    = 1 // some input lines were refused, or the command failed
	exitUsage       = 2
	exitInterrupted = 130
)

// mostSaid is the maximum length of a command's last message, in bytes. Messages about a wrong command line may have a quarter of it,
// because the parser repeats its arguments.
const mostSaid = 4 << 10

// errBadLines ends a command that answered all it could; some lines were refused.
var errBadLines = errors.New("some lines were refused")

// errLogged ends a command whose log already has the error.
var errLogged = errors.New("the log says why")

// errInterrupted ends a command that was interrupted and has already reported that.
var errInterrupted = errors.New("interrupted")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

func run(ctx context.Context, args []string, s streams) int {
	if len(args) == 0 {
		run(ctx, []string{"--help"}, streams{s.in, s.err, s.err})
		return exitUsage
	}
	s = s.withStatusLine()
	var c cli
	exited := -1
	config, resumed := new(configReader), new(runReader)
	parser := newParser(&c, s, func(code int) { exited = code }, kong.Resolvers(resumed, config), kong.IgnoreFields(notCalled(args[0])), kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(s))
	command, err := parser.Parse(args)
	if exited >= 0 { // --help and --version have written their text
		return exited
	}
	if config.err != nil {
		err = config.err
	}
	if err == nil {
		err = resumed.checkKept(command)
	}
	if err == nil {
		err = checkRanges(command)
	}
	if err == nil {
		err = checkDependencies(command)
	}
	if err != nil {
		fmt.Fprintf(s.err, "evald: %s (see evald --help)\n", short.To(err.Error(), mostSaid/4))
		return exitUsage
	}
	if c.Threads > 0 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(c.Threads))
	}
	err = command.Run()
	if f := fault.In(err); f != nil {
		f.Tell(s.err, version())
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		fmt.Fprintln(s.err, "evald: interrupted")
		return exitInterrupted
	case errors.Is(err, errBadLines):
		return exitBadInput
	case !errors.Is(err, errLogged):
		fmt.Fprintf(s.err, "evald: %s%s\n", short.To(err.Error(), mostSaid), positionHint(command.Selected().Name, err))
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitBadInput
}

// notCalled returns a pattern of the fields of cli with other commands than the one that is called. A
// parser of all commands takes ten times as long. If an argument names no command, the parser needs all.
func notCalled(name string) string {
	var others []string
	called := false
	for field := range reflect.TypeFor[cli]().Fields() {
		if _, command := field.Tag.Lookup("cmd"); command {
			if cmp.Or(field.Tag.Get("name"), strings.ToLower(field.Name)) == name {
				called = true
			} else {
				others = append(others, field.Name)
			}
		}
	}
	if !called {
		return "^$" // matches no field
	}
	return `^cli\.(` + strings.Join(others, "|") + ")$"
}

// newParser returns the parser of the command line; it writes the values into c.
func newParser(c *cli, s streams, exit func(code int), more ...kong.Option) *kong.Kong {
	parser, err := kong.New(c, append(slices.Concat(mappers, more),
		kong.Name("evald"), kong.Description("Evaluate ConnectX positions (Connect Four on any board) in large batches."),
		kong.Writers(s.out, s.err), kong.Exit(exit),
		kong.Vars{"version": version()}, kong.PostBuild(fillIn),
		kong.DefaultEnvars("EVALD"), // EVALD_MAX_BATCH for --max-batch, for all commands that have it
		kong.ValueFormatter(valueHelp),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
	)...)
	if err != nil {
		panic(err) // the structs are wrong
	}
	return parser
}

// fillIn replaces the names of our values in flags and arguments. As kong's variables they would take
// more than half of the time that a parser takes: for each flag kong looks into all variables.
func fillIn(k *kong.Kong) error {
	values := strings.NewReplacer(slices.Concat(heuristicValues(), selfplayValues(), ask.Values(), []string{"${searchVisits}", fmt.Sprint(ask.Usual().Visits)})...)
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		switch v := node.(type) {
		case *kong.Flag:
			v.PlaceHolder = values.Replace(v.PlaceHolder)
		case *kong.Value:
			v.Default, v.Enum, v.Help = values.Replace(v.Default), values.Replace(v.Enum), values.Replace(v.Help)
		}
		return next(nil)
	})
}

// valueHelp returns the help of a flag or an argument. Enum values are separated by ", " so that they can be wrapped.
// Environment variables are left out; evald help describes them once.
func valueHelp(v *kong.Value) string {
	if v.Enum == "" {
		return v.Help
	}
	return strings.ReplaceAll(v.Help, v.Enum, strings.Join(v.EnumSlice(), ", "))
}

// release is the version, such as v1.2.3, that make dist sets. Without it the module's version is used.
var release string

// version returns the program's version, with the commit that it was built from and the version of Go.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := cmp.Or(release, info.Main.Version)
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v += " " + s.Value
		}
	}
	return fmt.Sprintf("%s %s", v, info.GoVersion)
}
