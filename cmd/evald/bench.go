package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/evald/evald/cmd/evald/internal/bench"
)

// benchCmd is `evald bench`.
type benchCmd struct {
	Eval   benchEvalCmd   `cmd:"" help:"Measure evaluation: win test, heuristics, networks, files of positions."`
	Search benchSearchCmd `cmd:"" help:"Measure tree search: visits on one core, allocations, the share of a device that many trees use."`
	Solve  benchSolveCmd  `cmd:"" help:"Measure the exact solver: time, nodes and nodes/s of sets of positions."`
}

// benchEvalCmd is `evald bench eval`.
type benchEvalCmd struct {
	Model string        `default:"seeded-2x16" placeholder:"NAME|PATH" help:"The network to measure (${default})."`
	Round time.Duration `default:"200ms" help:"Time of one round; a figure is the median of five."`
	JSON  bool          `help:"Write JSON for machines instead of a table."`
}

// Run measures and prints.
func (c *benchEvalCmd) Run(ctx context.Context, s streams) error {
	network, name, err := loadModel(c.Model, s.err)
	if err != nil {
		return err
	}
	progress, clear := figureProgress(s.err)
	defer clear()
	figures, err := bench.Eval(ctx, c.Round, network, name, progress)
	if err != nil {
		return err
	}
	clear()
	return writeFigures(s.out, figures, c.JSON)
}

// figureProgress shows the name of the figure that is being measured, where stderr is a terminal.
func figureProgress(stderr io.Writer) (show func(string), clear func()) {
	if !isTerminal(stderr) {
		return nil, func() {}
	}
	return func(figure string) { fmt.Fprintf(stderr, "\r\x1b[K%s", figure) }, func() { fmt.Fprint(stderr, "\r\x1b[K") }
}

func writeFigures(w io.Writer, figures []bench.Figure, asJSON bool) error {
	if !asJSON {
		return bench.Table(w, figures)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{"go": runtime.Version(), "arch": runtime.GOARCH, "cores": runtime.GOMAXPROCS(0), "figures": figures})
}

// benchSearchCmd is `evald bench search`.
type benchSearchCmd struct {
	Round time.Duration `default:"500ms" help:"Time of one round; a figure is the median of five."`
	JSON  bool          `help:"Write JSON for machines instead of a table."`
}

// Run measures and prints.
func (c *benchSearchCmd) Run(ctx context.Context, s streams) error {
	progress, clear := figureProgress(s.err)
	defer clear()
	figures, err := bench.Search(ctx, c.Round, progress)
	if err != nil {
		return err
	}
	clear()
	return writeFigures(s.out, figures, c.JSON)
}

// benchSolveCmd is `evald bench solve`.
type benchSolveCmd struct {
	Files    []string `arg:"" optional:"" type:"existingfile" help:"Sets of positions, lines of moves and exact score; built-in ones where there are none."`
	First    int      `help:"Only so many positions of each file; 0 is all."`
	TableMiB int      `name:"table-mib" default:"0" help:"Memory of the transposition table in MiB; 0 is 16 for boards of up to 42 cells, 256 for larger ones."`
	JSON     bool     `help:"Write JSON for machines instead of a table."`
}

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
	progress := newProgress(s.err, 0)
	var figures []bench.SolveFigure
	wrong := 0
	for _, set := range sets {
		f, err := bench.Solve(ctx, set, c.TableMiB, func(done int) {
			progress.text(fmt.Sprintf("%s: %d of %d", set.Name, done, len(set.States)))
		})
		if err != nil {
			progress.clear()
			return err
		}
		figures = append(figures, f)
		wrong += max(0, f.Wrong)
	}
	progress.clear()
	if c.JSON {
		e := json.NewEncoder(s.out)
		e.SetIndent("", "  ")
		if err := e.Encode(map[string]any{"go": runtime.Version(), "arch": runtime.GOARCH, "figures": figures}); err != nil {
			return err
		}
	} else if err := bench.SolveTable(s.out, figures); err != nil {
		return err
	}
	if wrong > 0 {
		return fmt.Errorf("%d wrong scores", wrong)
	}
	return nil
}
