package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/cmd/evald/internal/plot"
	"github.com/evald/evald/cmd/evald/internal/stream"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/engine/solver"
)

type scoreCmd struct {
	backend
	anyPosition
	outFile
	Files     []string   `arg:"" name:"file" help:"Positions with exact scores: 'moves s1 s2 ..' with the score of each move, -1000 for a full column; the lines that evald solve --scores writes; Kaggle's refmoves1k_kaggle; or 'moves score' with the score of the position, as in Pascal Pons' Test_L1_R1, whose moves are then solved: a minute for the hardest of his sets. - is standard input. Of several files each is a kind of positions, with a row of its own."`
	Visits    []int      `range:"0 to 67108864" without:"agent" default:"0" help:"Measure searches of this number of visits; 0 is the policy itself, and what the rules decide at once. Several give a table each: 0,100,800."`
	Raw       bool       `without:"agent" help:"Without the rules' step: what the network or heuristic says itself, as users of its ONNX file meet it. Searches look at the rules by themselves."`
	Selection string     `needs:"visits" without:"agent" enum:"puct,uct,gumbel" default:"puct" help:"How the searches' visits choose among moves: ${enum}."`
	Explore   float64    `range:"0 to 1000" needs:"visits" without:"agent,selection=gumbel" help:"Exploration constant of the searches, as of evald search."`
	Leaves    int        `range:"1 to 4096" needs:"visits" without:"agent" default:"1" help:"Leaves of one position that the searches have under way at once, as of evald search."`
	Exact     exactNodes `needs:"visits" without:"agent" help:"Prove leaves of the searches, as of evald search."`
	Agent     []string   `sep:"none" placeholder:"AGENT" help:"Measure the moves of this agent instead; several give a table each. evald match --help lists them."`
	JSON      bool       `help:"Write JSON for machines instead of a table."`
	Plot      string     `type:"path" placeholder:"F.svg" help:"Draw the accuracy over the plies."`
}

// mostVisits is the limit of --visits.
const mostVisits = 1 << 26

// Validate checks the numbers before anything is read.
func (c *scoreCmd) Validate() error {
	for _, visits := range c.Visits {
		if visits != 0 && (visits < 2 || visits > mostVisits) {
			return fmt.Errorf("--visits %d: must be 0, for the policy itself, or 2 to %d", visits, mostVisits)
		}
	}
	return nil
}

// Run measures likeliest moves and values, or an agent's moves, against exact scores.
func (c *scoreCmd) Run(ctx context.Context, s streams) error {
	subjects, closeAll, err := c.subjects(s.err)
	if err != nil {
		return err
	}
	defer closeAll()
	positions, err := c.positions(ctx, s)
	if err := orInterrupted(ctx, err, s.err, "; nothing was measured"); err != nil {
		return err
	}
	return c.write(s.out, func(out io.Writer) error { // an error of the file is reported before the measuring
		return c.measure(ctx, s, subjects, positions, out)
	})
}

// measure writes the reports of all subjects.
func (c *scoreCmd) measure(ctx context.Context, s streams, subjects []subject, positions []score.Position, out io.Writer) error {
	var reports []namedReport
	for _, subject := range subjects {
		progress, done := newProgress(s.err, 0), 0
		show := progress.counting(subject.name, 0, len(positions))
		r, err := score.Measure(ctx, subject.Evaluator, positions, func(n int) {
			done = n
			show(n)
		})
		progress.clear()
		err = orInterrupted(ctx, err, s.err, "; %s had answered %d of %d positions; a table is of all, so there is none", subject.name, done, len(positions))
		if err != nil {
			return fmt.Errorf("%s: %w", subject.name, err)
		}
		if subject.movesOnly {
			r.DropValues()
		}
		reports = append(reports, namedReport{subject.name, r})
	}
	if c.Plot != "" {
		last := reports[len(reports)-1]
		if err := writeWhole(c.Plot, func(w io.Writer) error { return plot.Accuracy(w, last.Model, last.Report) }); err != nil {
			return err
		}
	}
	if c.JSON {
		return writeJSON(out, reports)
	}
	return scoreTables(out, reports)
}

func scoreTables(w io.Writer, reports []namedReport) error {
	for _, r := range reports {
		if err := scoreTable(w, r.Model, r.Report); err != nil {
			return err
		}
	}
	_, err := fmt.Fprint(w, `perfect: moves with the best exact score; good: moves that keep win, draw or loss; regret: points of score given away;
result: the likeliest of win, draw and loss is the true one; decisive: positions won or lost with best play; sign: the
value, W - L, has the right sign there; critical: positions where a move can worsen the result.
Intervals are of 95%; with ? there are too few positions to trust the figure: its interval is wider than 50 points.
`)
	return err
}

// kinds are the names of the files, with their folders if two have the same.
func kinds(files []string) ([]string, error) {
	names, err := distinct(files, func(file string) string {
		return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	})
	if err == nil {
		return names, nil
	}
	return distinct(files, func(file string) string {
		return filepath.Base(filepath.Dir(file)) + "/" + strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	})
}

// distinct are the names of the files, which must differ.
func distinct(files []string, name func(file string) string) (names []string, err error) {
	for i, file := range files {
		if other := slices.Index(names, name(file)); other >= 0 {
			return nil, fmt.Errorf("%s and %s would both be called %s: rename one", files[other], files[i], names[other])
		}
		names = append(names, name(file))
	}
	return names, nil
}

// positions reads all files. If there are several, each file's name is the kind of its positions.
func (c *scoreCmd) positions(ctx context.Context, s streams) (all []score.Position, err error) {
	names, err := kinds(c.Files)
	if err != nil {
		return nil, err
	}
	for n, file := range c.Files {
		some, err := c.read(ctx, file, s)
		if err != nil {
			return nil, err
		}
		if len(c.Files) > 1 {
			for i := range some {
				some[i].Kind = names[n]
			}
		}
		all = append(all, some...)
	}
	return all, nil
}

func (c *scoreCmd) read(ctx context.Context, file string, s streams) ([]score.Position, error) {
	in, err := s.open(file, "positions with exact scores")
	if err != nil {
		return nil, err
	}
	defer in.Close()
	reader := score.NewReader(stream.Interruptible(ctx, in), score.Place{})
	reader.Parser.AnyPosition, reader.Unsolved = c.AnyPosition, true
	positions, err := reader.All()
	if err == nil && len(positions) == 0 {
		err = errors.New("no positions")
	}
	if err == nil && positions[0].Scores == nil {
		err = solveMoves(ctx, positions, filepath.Base(file), s.err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return positions, nil
}

// solveMoves finds the scores of the moves of a file's positions.
func solveMoves(ctx context.Context, positions []score.Position, name string, stderr io.Writer) error {
	progress := newProgress(stderr, 0)
	defer progress.clear()
	show := progress.counting(name+", exact scores", 0, len(positions))
	return score.SolveMoves(ctx, positions, runtime.GOMAXPROCS(0), show)
}

// namedReport is the accuracy of one evaluator.
type namedReport struct {
	Model string `json:"model"`
	score.Report
}

// subject is an evaluator or agent that is measured.
type subject struct {
	name string
	*eval.Evaluator
	movesOnly bool // it has no values
}

// subjects returns the agents of --agent, or else the evaluator's policy and the searches with it. closeAll closes the
// evaluator.
func (c *scoreCmd) subjects(notes io.Writer) (all []subject, closeAll func(), err error) {
	if c.Raw && !slices.Contains(c.Visits, 0) {
		return nil, nil, usage("--raw is of the policy itself, and --visits asks for searches only: leave it out, or add 0 to --visits")
	}
	shared := shareAgents(c.processors, notes)
	for _, text := range c.Agent {
		spec, err := play.ParseAgent(text)
		if err != nil {
			return nil, nil, usage("--agent: %w", err)
		}
		// The table names the network.
		spec = shared.Choose(spec)
		a, err := agent.New(spec, shared)
		if err != nil {
			return nil, nil, fmt.Errorf("--agent %s: %w", text, err)
		}
		all = append(all, subject{spec.String(), agent.NewEvaluator(a), true})
	}
	if len(all) > 0 {
		return all, func() {}, nil
	}
	e, err := c.choose(notes)
	if err != nil {
		return nil, nil, err
	}
	model := e.Model
	for _, visits := range c.Visits {
		if visits == 0 {
			policy := subject{model, e.Evaluator, false}
			if c.Raw {
				policy = subject{model + ", raw", eval.New(e.Backend(), eval.Options{OwnRules: true}), false}
			}
			all = append(all, policy)
			continue
		}
		config := explore{c.Explore}.config(c.Selection)
		config.Visits, config.Exact, config.RootNodes = visits, cmp.Or(c.Exact.Nodes, solver.ByBoard), mcts.RootNodesFor(visits)
		config.MaxNodes = 1 << 31 // as many as the visits need; fewer trees are then searched at once
		search, err := mcts.NewEvaluator(e.Evaluator, config, mcts.Limits{Visits: visits, Batch: 256, Leaves: c.Leaves})
		if err != nil {
			e.Close()
			return nil, nil, usage("--visits %d: %w", visits, err)
		}
		name := fmt.Sprintf("%s, %s of %d visits", model, c.Selection, visits)
		if c.Explore > 0 {
			name += fmt.Sprintf(", explore %v", c.Explore)
		}
		if c.Leaves > 1 {
			name += fmt.Sprintf(", %d leaves", c.Leaves)
		}
		if c.Exact.Nodes != 0 {
			name += fmt.Sprintf(", exact %v", c.Exact)
		}
		all = append(all, subject{name, search, false})
	}
	return all, func() { e.Close() }, nil
}

func scoreTable(w io.Writer, model string, r score.Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s\tpositions\tperfect %%\tgood %%\tregret\tresult %%\tBrier\tdecisive\tsign %%\tcritical\tcrit. perfect %%\tcrit. good %%\t\n", model)
	for _, b := range slices.Concat(r.Kinds, r.Boards, r.Bands, []score.Summary{r.All}) {
		brier := plain(b.Brier)
		if b.ValueSign == (score.Mean{}) { // the subject has no values
			brier = "-"
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%d\t%s\t%s\t\n", b.Name, b.Positions, percent(b.Perfect), percent(b.Good),
			plain(b.Regret), percent(b.ValueSign), brier, b.Decisive, percent(b.DecisiveSign),
			b.Critical, percent(b.CriticalPerfect), percent(b.CriticalGood))
	}
	fmt.Fprintln(t)
	return t.Flush()
}

// percent formats a rate with the larger half of its interval, and a ? if that is too wide.
func percent(m score.Mean) string {
	if m == (score.Mean{}) {
		return "-"
	}
	text := fmt.Sprintf("%.1f ±%.1f", 100*m.Value, 100*max(m.High-m.Value, m.Value-m.Low))
	if m.High-m.Low > 0.5 {
		text += "?"
	}
	return text
}

func plain(m score.Mean) string {
	return fmt.Sprintf("%.3f ±%.3f", m.Value, m.High-m.Value)
}

// writeWhole writes a file that appears complete or not at all.
func writeWhole(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return durable.WriteFile(name, b.Bytes())
}
