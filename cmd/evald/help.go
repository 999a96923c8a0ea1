package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/models"
)

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command, such as model import; without one, the program."`
}

func (*helpCmd) Help() string {
	return `Flags can also be given by the environment: EVALD_MAX_BATCH=512 is --max-batch 512 for every command that has it. And by
a YAML file, with --config FILE or EVALD_CONFIG:

  threads: 2          # for all commands
  serve:              # for one
    http: :8000
    model: [default, mine.safetensors]

The command line goes before the environment, and that before the file. What the file names and no command has is an
error.

A command ends with 0 where all went well, 1 where some input was refused or it failed, 2 where the command line is
wrong, and 130 where it was interrupted.`
}

// Run prints the same as the command's --help.
func (c *helpCmd) Run(ctx context.Context, s streams) error {
	if status := run(ctx, append(c.Command, "--help"), s); status != exitOK {
		return errBadLines // the error is already printed
	}
	return nil
}

type versionCmd struct {
	JSON bool `help:"Write JSON for machines."`
}

// built describes how a program was built.
type built struct {
	Version  string   `json:"version"`
	Go       string   `json:"go"`
	Platform string   `json:"platform"`
	Paths    []string `json:"paths"` // the ways to compute networks on this processor, fastest first
	GPU      bool     `json:"gpu"`   // the program has support for GPUs
	Models   []string `json:"models"`
}

func (c *versionCmd) Run(s streams) error {
	b := built{Version: version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, GPU: driver.Supported}
	for _, p := range cpu.Paths() {
		b.Paths = append(b.Paths, string(p))
	}
	for _, m := range models.List() {
		b.Models = append(b.Models, m.Ref())
	}
	if c.JSON {
		return writeJSON(s.out, b)
	}
	gpu := "no (make build has it on linux/amd64)"
	if b.GPU {
		gpu = "yes"
	}
	_, err := fmt.Fprintf(s.out, "evald %s\nbuilt with    %s, %s\nCPU paths     %s\nGPU support   %s\nnetworks      %s\n",
		b.Version, b.Go, b.Platform, strings.Join(b.Paths, ", "), gpu, strings.Join(b.Models, ", "))
	return err
}

type manCmd struct{}

func (manCmd) Run(s streams) error {
	var c cli
	_, err := fmt.Fprint(s.out, manual(newParser(&c, s, func(int) {}).Model))
	return err
}

func manual(app *kong.Application) string {
	var b strings.Builder
	text := func(s string) { fmt.Fprintln(&b, troff(s)) }
	section := func(name string) { fmt.Fprintf(&b, ".SH %s\n", name) }
	fmt.Fprint(&b, ".TH EVALD 1\n")
	section("NAME")
	text("evald - evaluate ConnectX positions in large batches")
	section("SYNOPSIS")
	fmt.Fprint(&b, ".B evald\n.I command\n[\\fIargument\\fR ...] [\\fIflag\\fR ...]\n")
	section("DESCRIPTION")
	text(app.Help)
	section("GLOBAL FLAGS")
	writeFlags(&b, app.Flags)
	section("COMMANDS")
	for _, command := range app.Leaves(true) {
		fmt.Fprintf(&b, ".SS evald %s\n", troff(command.Summary()))
		text(command.Help)
		writeDetail(&b, command.Detail)
		for _, p := range command.Positional {
			fmt.Fprintf(&b, ".TP\n.I %s\n%s\n", troff(p.Summary()), troff(valueHelp(p)))
		}
		for node := command; node != nil && node.Type != kong.ApplicationNode; node = node.Parent {
			writeFlags(&b, node.Flags)
		}
	}
	section("ENVIRONMENT, CONFIGURATION FILE AND EXIT STATUS")
	writeDetail(&b, new(helpCmd).Help())
	return b.String()
}

// writeDetail writes paragraphs. Those with indented lines keep their lines.
func writeDetail(b *strings.Builder, text string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		switch {
		case paragraph == "":
		case strings.Contains(paragraph, "\n  "), strings.HasPrefix(paragraph, " "):
			fmt.Fprintf(b, ".PP\n.nf\n%s\n.fi\n", troff(paragraph))
		default:
			fmt.Fprintf(b, ".PP\n%s\n", troff(paragraph))
		}
	}
}

func writeFlags(b *strings.Builder, flags []*kong.Flag) {
	for _, f := range flags {
		if !f.Hidden {
			fmt.Fprintf(b, ".TP\n.B %s\n%s\n", troff(f.String()), troff(valueHelp(f.Value)))
		}
	}
}

// troff escapes a text so that troff does not take it for requests.
func troff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...", "'", `\(aq`, "`", "\\(ga", "^", `\(ha`, "~", `\(ti`, "±", `\(+-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
