package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/evald/evald/cmd/evald/internal/plot"
	"github.com/evald/evald/engine/score"
)

// scoreCmd is `evald score`.
type scoreCmd struct {
	backend
	File string `arg:"" help:"Positions with the exact score of each move: 'moves s1 s2 ..', -1000 for a full column, or the lines that evald solve --scores writes. - is standard input."`
	JSON bool   `help:"Write JSON for machines instead of a table."`
	Plot string `type:"path" placeholder:"F.svg" help:"Draw the accuracy over the plies."`
}

// Run measures an evaluator's likeliest moves and its values against exact scores.
func (c *scoreCmd) Run(ctx context.Context, s streams) error {
	e, model, err := c.evaluator(s.err)
	if err != nil {
		return err
	}
	in, err := openFile(c.File, s.in)
	if err != nil {
		return err
	}
	defer in.Close()
	positions, err := score.Read(in)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	if len(positions) == 0 {
		return fmt.Errorf("%s: no positions", c.File)
	}
	progress := newProgress(s.err, 0)
	r, err := score.Measure(ctx, e, positions, func(done int) {
		progress.text(fmt.Sprintf("%d of %d positions", done, len(positions)))
	})
	progress.clear()
	if err != nil {
		return err
	}
	if c.Plot != "" {
		if err := writeWhole(c.Plot, func(w io.Writer) error { return plot.Accuracy(w, model, r) }); err != nil {
			return err
		}
	}
	if c.JSON {
		e := json.NewEncoder(s.out)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			Model string `json:"model"`
			score.Report
		}{model, r})
	}
	return scoreTable(s.out, model, r)
}

func scoreTable(w io.Writer, model string, r score.Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s\tpositions\tperfect %%\tgood %%\tregret\tresult %%\tBrier\tcritical\tcrit. perfect %%\tcrit. good %%\t\n", model)
	for _, b := range append(r.Bands, r.All) {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t\n", b.Name, b.Positions, percent(b.Perfect), percent(b.Good),
			plain(b.Regret), percent(b.ValueSign), plain(b.Brier), b.Critical, percent(b.CriticalPerfect), percent(b.CriticalGood))
	}
	fmt.Fprintln(t)
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, `perfect: moves with the best exact score; good: moves that keep win, draw or loss; regret: points of score given away;
result: the likeliest of win, draw and loss is the true one; critical: positions where a move can worsen the result.
Intervals are of 95%.
`)
	return err
}

// percent is a rate with the larger half of its interval.
func percent(m score.Mean) string {
	if m == (score.Mean{}) {
		return "-"
	}
	return fmt.Sprintf("%.1f ±%.1f", 100*m.Value, 100*max(m.High-m.Value, m.Value-m.Low))
}

func plain(m score.Mean) string { return fmt.Sprintf("%.3f ±%.3f", m.Value, m.High-m.Value) }

// openFile is a file, or standard input for "" and "-".
func openFile(name string, stdin io.Reader) (io.ReadCloser, error) {
	if name == "" || name == "-" {
		return io.NopCloser(stdin), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		f.Close()
		return nil, fmt.Errorf("%s is a directory, want a file of positions", name)
	}
	return f, nil
}

// writeWhole writes a file that appears complete or not at all.
func writeWhole(name string, write func(io.Writer) error) error {
	out, err := create(name, nil)
	if err != nil {
		return err
	}
	defer out.Abort()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	_, err = out.Write(b.Bytes())
	return errors.Join(err, out.Commit())
}
