package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/models"
)

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command, such as model import. Default: the program."`
}

func (*helpCmd) Help() string {
	return `Flags can also come from the environment: EVALD_MAX_BATCH=512 is --max-batch 512 for every command that has this flag;
and from a YAML file, with --config FILE or EVALD_CONFIG:

  threads: 2          # for all commands
  serve:              # for one command
    http: :8000
    model: [default, mine.safetensors]

The command line overrides the environment, and the environment overrides the file. A name in the file that no command
has is an error.

Exit status: 0 for success, 1 if some input was refused or the command failed, 2 if the command line is wrong, and 130
after an interrupt.`
}

// Run prints the same as the command's --help.
func (c *helpCmd) Run(ctx context.Context, s streams) error {
	if status := run(ctx, append(c.Command, "--help"), s); status != exitOK {
		return errBadLines // the error is already printed
	}
	return nil
}

type versionCmd struct {
	JSON bool `help:"Write JSON."`
}

// built describes how a program was built.
type built struct {
	Version  string   `json:"version"`
	Go       string   `json:"go"`
	Platform string   `json:"platform"`
	Paths    []string `json:"paths"` // sets of instructions that compute networks on this processor, fastest first
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

// Run prints the help of the program and of each command as a page for troff, without reflowing its lines.
func (manCmd) Run(s streams) error {
	const width = 72 // without the page's margin
	var c cli
	var help strings.Builder
	parser := newParser(&c, streams{out: &help, err: io.Discard}, func(int) {}, kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: width}))
	page := ".TH EVALD 1\n.SH NAME\nevald \\- evaluate ConnectX positions in large batches\n"
	section := func(title string, command ...string) {
		help.Reset()
		_, _ = parser.Parse(append(command, "--help")) // the error is that arguments are missing
		page += title + "\n.nf\n" + troff(help.String()) + ".fi\n"
	}
	section(".SH SYNOPSIS")
	page += ".SH COMMANDS\n"
	for _, command := range parser.Model.Leaves(true) {
		section(".SS "+troff(command.FullPath()), strings.Fields(command.Path())...)
	}
	_, err := io.WriteString(s.out, page)
	return err
}

// troff escapes a text so that troff does not interpret any of it as requests.
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
