package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"github.com/evald/evald/cmd/evald/internal/bench"
)

// benchCmd is `evald bench`.
type benchCmd struct {
	Eval benchEvalCmd `cmd:"" help:"Measure evaluation: win test, heuristics, networks, files of positions."`
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
	var progress func(string)
	if isTerminal(s.err) {
		progress = func(figure string) { fmt.Fprintf(s.err, "\r\x1b[K%s", figure) }
		defer fmt.Fprint(s.err, "\r\x1b[K")
	}
	figures, err := bench.Eval(ctx, c.Round, network, name, progress)
	if err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(s.out)
		e.SetIndent("", "  ")
		return e.Encode(map[string]any{"go": runtime.Version(), "arch": runtime.GOARCH, "cores": runtime.GOMAXPROCS(0), "figures": figures})
	}
	return bench.Table(s.out, figures)
}
