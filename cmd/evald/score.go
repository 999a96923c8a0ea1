package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/cmd/evald/internal/plot"
	"github.com/evald/evald/cmd/evald/internal/stream"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/nn/open"
)

type scoreCmd struct {
	backend
	anyPosition
	lineParts
	Files  []string `arg:"" optional:"" name:"file" help:"Positions with exact scores: 'moves s1 s2 ..' with the score of each move, -1000 for a full column; the lines that evald solve --scores writes; Kaggle's refmoves1k_kaggle; or 'moves score' with the score of the position, as in Pascal Pons' Test_L1_R1, whose moves are then solved, which takes a minute for the hardest of his sets. - is standard input. Each file is a kind of positions, with a row of its own."`
	All    string   `without:"file" placeholder:"GAMES" help:"Measure on all positions of small games, such as 5x4x4,4x4x4: all unfinished positions that a game can reach, counting mirror images once. Their scores are computed first."`
	Sample *int     `needs:"all" range:"1 to 10000000" placeholder:"N" help:"Take only this number of positions of each game of --all, for games with too many; all positions are equally likely."`
	Seed   uint64   `needs:"sample" default:"1" help:"The same seed draws the same sample."`
	Visits []int    `range:"0 to 1073741824" without:"agent" default:"0" help:"Measure searches of this number of visits; 0 is the policy without a search, after the rules. Each of several numbers has a table: 0,100,800."`
	Raw    bool     `without:"agent" help:"Measure the network or heuristic without the rules, as users of its ONNX file do. Searches apply the rules in any case."`
	ask.How
	Agent []string `sep:"none" placeholder:"AGENT" help:"Measure the moves of this agent instead; each of several has a table. evald help match lists them."`
	JSON  bool     `help:"Write JSON instead of a table."`
	Rows  bool     `without:"json" help:"Write a line of JSON for each position of one file instead of a table: its line, the file's columns perfect, good, regret, result and brier, of which a table has the means, and whether it is critical. Memory does not grow with the file. Agents that draw moves at random draw others in parts."`
	Plot  string   `type:"path" placeholder:"F.svg" help:"Draw the accuracy over the plies; several games have a panel each."`

	opened *open.Opened // what evaluates; nil with --agent
}

func (c *scoreCmd) Validate() error {
	for _, visits := range c.Visits {
		if visits == 1 {
			return fmt.Errorf("--visits 1: must be 0, for the policy itself, or 2 to %d", ask.MostVisits)
		}
	}
	switch {
	case len(c.Files) == 0 && c.All == "":
		return errors.New("expected \"<file> ...\", or --all with games")
	case c.Part.of > 0 && !c.Rows:
		return errors.New("--part is taken with --rows alone: the parts of a table are no tables")
	case c.Rows && (len(c.Files) != 1 || len(c.Agent) > 1 || len(c.Visits) > 1 || c.Plot != ""):
		return errors.New("--rows is of one file and one evaluator: name one file, at most one --agent and one of --visits, and no --plot")
	}
	return nil
}

// Run compares an evaluator's likeliest moves and values, or an agent's moves, with exact scores.
func (c *scoreCmd) Run(ctx context.Context, s streams, line *kong.Context) error {
	if err := c.ofSearches(line); err != nil {
		return err
	}
	subjects, closeAll, err := c.subjects(s.err)
	if err != nil {
		return err
	}
	defer closeAll()
	if c.Rows {
		return c.writeRows(ctx, s, subjects[0])
	}
	if c.All != "" {
		_, boards, err := boardsIn("all", c.All)
		if err != nil {
			return err
		}
		return c.write(s.out, func(out io.Writer) error {
			reports, err := c.measureAll(ctx, s, subjects, boards)
			if err != nil {
				return err
			}
			return c.show(out, reports)
		})
	}
	positions, err := c.positions(ctx, s)
	if err := orInterrupted(ctx, err, s.err, "; nothing was measured"); err != nil {
		return err
	}
	return c.write(s.out, func(out io.Writer) error { // opened first, so that its errors appear before the measuring
		reports, err := c.measure(ctx, s, subjects, positions)
		if err != nil {
			return err
		}
		return c.show(out, reports)
	})
}

// ofSearches refuses flags of searches if nothing searches.
func (c *scoreCmd) ofSearches(line *kong.Context) error {
	for _, f := range ask.Fields(ask.Python) { // which may set all
		switch {
		case f.Name == "visits" || f.Name == "seed" || !flagGiven(line, f.Name): // which score has for itself
		case len(c.Agent) > 0:
			return usage("--%s does nothing with --agent", f.Name)
		case !flagGiven(line, "visits"):
			return usage("--%s does nothing without --visits", f.Name)
		}
	}
	return nil
}

func (c *scoreCmd) measure(ctx context.Context, s streams, subjects []ask.Subject, positions scoreSet) (reports []namedReport, err error) {
	for _, subject := range subjects {
		progress, done := newProgress(s.err, 0), 0
		show := progress.counting(subject.Name, 0, len(positions.all))
		r, err := score.Measure(ctx, subject.Evaluator, positions.all, func(n int) {
			done = n
			show(n)
		})
		progress.clear()
		err = orInterrupted(ctx, err, s.err, "; %s had answered %d of %d positions; a table is of all, so there is none", subject.Name, done, len(positions.all))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", subject.Name, err)
		}
		for i, b := range r.Boards {
			if positions.left[b.Rules] {
				r.Boards[i].Solved = positions.solved[b.Rules]
			}
		}
		reports = append(reports, c.report(subject, r))
	}
	return reports, nil
}

// show writes the reports, and draws the one of the last subject of the evaluator.
func (c *scoreCmd) show(out io.Writer, reports []namedReport) error {
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

// kinds returns the names of the files, with their folders if two files have the same name.
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

// distinct returns the names of the files, and an error if two are the same.
func distinct(files []string, name func(file string) string) (names []string, err error) {
	for i, file := range files {
		if other := slices.Index(names, name(file)); other >= 0 {
			return nil, fmt.Errorf("%s and %s would both be called %s: rename one", files[other], files[i], names[other])
		}
		names = append(names, name(file))
	}
	return names, nil
}

// scoreSet has the positions of all files.
type scoreSet struct {
	all    []score.Position
	solved map[game.Rules][]score.Solved // by thirds of the number of stones
	left   map[game.Rules]bool           // whether a file reports positions of this game that it left out
}

// positions reads all files. With several files, the kind of a position is its file's name.
func (c *scoreCmd) positions(ctx context.Context, s streams) (set scoreSet, err error) {
	names, err := kinds(c.Files)
	if err != nil {
		return set, err
	}
	set.solved, set.left = map[game.Rules][]score.Solved{}, map[game.Rules]bool{}
	for n, file := range c.Files {
		kind := ""
		if len(c.Files) > 1 {
			kind = names[n]
		}
		if err := c.read(ctx, file, s, kind, &set); err != nil {
			return set, err
		}
	}
	return set, nil
}

// read adds a file's positions to a set.
func (c *scoreCmd) read(ctx context.Context, file string, s streams, kind string, set *scoreSet) error {
	in, err := s.open(file, "positions with exact scores")
	if err != nil {
		return err
	}
	defer in.Close()
	reader := c.reader(ctx, in, score.Place{})
	positions, err := reader.All()
	if err == nil && len(positions) == 0 {
		err = errors.New("no positions")
	}
	if err == nil {
		err = set.count(positions, reader.LeftOut)
	}
	if err == nil && positions[0].Scores == nil {
		err = solveMoves(ctx, positions, filepath.Base(file), s.err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for i := range positions {
		positions[i].Kind = kind
	}
	set.all = append(set.all, positions...)
	return nil
}

// reader returns a reader of positions that may be unsolved.
func (c *scoreCmd) reader(ctx context.Context, in io.Reader, at score.Place) *score.Reader {
	r := score.NewReader(stream.Interruptible(ctx, in), at)
	r.Parser.AnyPosition, r.Unsolved = c.AnyPosition, true
	return r
}

// count adds the numbers of a file's positions, and of the positions that it says were left out.
func (s *scoreSet) count(positions []score.Position, left []score.LeftOut) (err error) {
	games := map[game.Rules][]score.Position{}
	for _, p := range positions {
		rules := p.State.Board.Rules()
		games[rules] = append(games[rules], p)
	}
	if len(games) > 1 && len(left) > 0 {
		return fmt.Errorf("has positions of %d games, and says how many of one were left out: make a file of each game", len(games))
	}
	for rules, some := range games {
		if s.solved[rules], err = score.AddSolved(s.solved[rules], some, left); err != nil {
			return err
		}
		s.left[rules] = s.left[rules] || len(left) > 0
	}
	return nil
}

// solveMoves solves all moves of a file's positions.
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

// report returns the report of a subject. Agents have moves and no values.
func (c *scoreCmd) report(subject ask.Subject, r score.Report) namedReport {
	if len(c.Agent) > 0 {
		r.DropValues()
	}
	return namedReport{subject.Name, r}
}

// subjects returns the agents of --agent or, without it, the evaluator's policy and the searches with it. closeAll closes the evaluator.
func (c *scoreCmd) subjects(notes io.Writer) (all []ask.Subject, closeAll func(), err error) {
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
		name := spec.String()
		if play.Named(spec) {
			name = text
		}
		all = append(all, ask.Subject{Name: name, Evaluator: agent.NewEvaluator(a)})
	}
	if len(all) > 0 {
		return all, func() {}, nil
	}
	e, err := c.choose(notes)
	if err != nil {
		return nil, nil, err
	}
	c.opened = e
	all, err = ask.Search{How: c.How}.Subjects(e.Evaluator, e.Model, c.Visits, c.Raw)
	if err != nil {
		e.Close()
		return nil, nil, usage("--%w", err)
	}
	return all, func() { e.Close() }, nil
}

func scoreTable(w io.Writer, model string, r score.Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s\tpositions\tperfect %%\tgood %%\tregret\tresult %%\tBrier\tdecisive\tsign %%\tcritical\tcrit. perfect %%\tcrit. good %%\t\n", model)
	for _, b := range slices.Concat(r.Kinds, boardRows(r), r.Bands, []score.Summary{r.All}) {
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

// boardRows returns a row for each board, or none if there is only one.
func boardRows(r score.Report) (rows []score.Summary) {
	if len(r.Boards) == 1 {
		return nil
	}
	for _, b := range r.Boards {
		rows = append(rows, b.Summary)
	}
	return rows
}

// percent formats a rate and the larger half of its confidence interval, with a ? if the interval is wider than 50%.
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

// writeWhole writes a file, which appears only when it is complete.
func writeWhole(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return durable.WriteFile(name, b.Bytes())
}
