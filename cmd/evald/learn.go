//go:build !first

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/cmd/evald/internal/plot"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/selfplay"
	"github.com/evald/evald/engine/solver"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/nn/cpu"
	"github.com/evald/evald/nn/learn"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/open"
)

// learnCmd is `evald learn`. Flags that are not given have the value in the run's folder, or the default for its board.
type learnCmd struct {
	Out         string `short:"o" required:"" type:"path" placeholder:"DIR" help:"The run's folder. An interrupted or killed run is resumed, and its other flags may then be left out. --generations, --backend and --trainer may be given anew, and from the next generation on --games, --visits, --fast-visits, --full-share, --selection, --window, --passes, --batch, --lr, --q-share, --gate-games and --opponent-games; changes.jsonl in the folder has all changes."`
	Generations *int   `range:"0 to 1000000" placeholder:"10" help:"Number of generations of the whole run."`

	Preset  *string `enum:"fast" placeholder:"fast" help:"Settings for a purpose, which other flags override. fast is for a short run without a GPU: it sets --exact, and if the game is 7x6x4 a network of pattern tables and many games."`
	Rules   *string `placeholder:"7x6x4" help:"The game: columns x rows x in-a-row; or several, each with its share of games, training steps and matches, such as 5x4x4,6x5x4=2,7x6x4=2.5; or any: 48 games. One network learns all of them."`
	Init    string  `placeholder:"NAME|PATH" help:"Begin with this network instead of random weights. It also plays the games of the first generation instead of the heuristic, and is the opponent in the first match for promotion. The run keeps a copy."`
	Network *string `placeholder:"6x64" help:"Shape of the network: blocks x channels. Default: that of --init, else by the size of the board. A network of --init may get more blocks. On 7x6x4 also pattern tables, lanes x hidden x hidden: pattern128x32x32."`
	Seed    *uint64 `placeholder:"N" help:"Random seed: the same seed and flags give the same networks."`

	FirstGames  *int     `range:"1 to 1000000000" without:"init" placeholder:"N" help:"Games of the first generation, played by the bitsquares heuristic."`
	FirstFactor *int     `range:"1 to 10000" without:"init" placeholder:"N" help:"Factor for the visits of the first generation's searches."`
	Games       *int     `range:"1 to 1000000000" placeholder:"N" help:"Games of each later generation, played by the best network. If --rules has several games, they share this number."`
	Visits      *int     `range:"2 to 1000000" placeholder:"N" help:"Visits of a full search, from which the policy learns."`
	FastVisits  *int     `range:"2 to 1000000" placeholder:"N" help:"Visits of the other searches."`
	FullShare   *float64 `range:"0 to 1" placeholder:"X" help:"Share of the moves that have a full search."`
	Selection   *string  `placeholder:"puct" help:"How full searches choose at the root: puct or gumbel."`
	Policy      *bool    `without:"labels=solver" help:"Record the policy of each full search in floats, and learn it in place of the visits: gumbel's improved policy, or the shares of the visits."`
	Labels      *string  `placeholder:"outcome" help:"outcome: learn from searches and how games ended. solver: from exact scores of the positions met, for experiments."`

	Exact *solver.Nodes `help:"End a game as soon as its result is proved, by the search or by a solver within ${exactNodes} nodes, or =NODES; =false plays to the end."`

	Window *int     `range:"1 to 1000000000" placeholder:"N" help:"Learn from the last N games, or from the last half of all games if that is more."`
	Passes *float64 `range:"0.001 to 1000" placeholder:"X" help:"Number of times that training uses each new position."`
	Batch  *int     `range:"1 to 65536" placeholder:"N" help:"Positions per training step."`
	LR     *float64 `range:"1e-09 to 10" placeholder:"X" help:"Learning rate at the start of generation 1. Generation g begins with this divided by the square root of g, and ends at 0."`
	QShare *float64 `range:"0 to 1" placeholder:"X" help:"Share of the search's value in the target of win, draw and loss; the rest is the game's outcome."`

	GateVisits    *int     `range:"1 to 1000000" placeholder:"N" help:"Visits per move in the matches."`
	GateGames     *int     `range:"2 to 1000000" placeholder:"N" help:"Maximum number of games in the match against the best network."`
	Opponent      []string `sep:"none" placeholder:"AGENT" help:"Fixed opponents; the first has rating 0."`
	OpponentGames *int     `range:"4 to 1000000" placeholder:"N" help:"Games against each fixed opponent."`
	Positions     *int     `range:"1 to 1000000" placeholder:"N" help:"Positions that measure the networks: this number for each game of random play, of plausible play and of openings. Those with more than 30 empty cells are left out, because solving them takes long."`

	Backend *string `enum:"auto,gpu,cpu" placeholder:"auto" help:"Device of the networks: ${enum}."`
	processors
	Trainer *string `enum:"gorgonia,torch" placeholder:"gorgonia" help:"Trainer: ${enum}. torch needs a Python with PyTorch (EVALD_PYTHON, or python3), and uses a GPU if there is one. A run may be resumed with the other trainer."`
	clusterFlags
	JSON bool `help:"Write one line of JSON per generation instead of text."`
}

func (c *learnCmd) Run(ctx context.Context, s streams) error {
	config, err := c.config()
	if err != nil {
		return err
	}
	if err := config.Validate(); err != nil {
		return usageError{err}
	}
	progress := newProgress(s.err, 0)
	c.CPUPath = config.SelfPlay.Path
	run, err := learn.Open(c.Out, config, evaluators(config.Backend, c.processors, s.err), compute(config.Trainer), progress.text)
	if err != nil {
		return err
	}
	defer run.Close()
	run.Log = func(text string) {
		progress.clear()
		fmt.Fprintln(s.err, "evald learn: "+text)
	}
	for _, change := range run.Changed {
		fmt.Fprintf(s.err, "evald learn: %s: %s\n", filepath.Join(c.Out, "changes.jsonl"), change)
	}
	if c.Cluster {
		play, done, err := c.clusterFlags.open(ctx, c.Out, s.err)
		if err != nil {
			return err
		}
		defer done()
		run.PlayBy(play)
	}
	fmt.Fprintf(s.err, "evald learn: %s, network %s, seed %d, %d threads; %s; %s has all settings\n", config.Rules, config.Network, config.Seed,
		runtime.GOMAXPROCS(0), plan(len(run.Generations()), config.Generations), filepath.Join(c.Out, "config.json"))
	printed := -1
	err = run.Learn(ctx, func(g learn.Generation) error {
		if g.Number > printed { // it is called again if the disk was full
			progress.clear()
			if err := c.line(s.out, g); err != nil {
				return err
			}
			printed = g.Number
		}
		return c.plot(run)
	})
	progress.clear()
	if wasInterrupted(ctx, err) {
		fmt.Fprintf(s.err, "evald: interrupted after %d of %d generations; evald learn -o %s resumes it\n", len(run.Generations()), config.Generations, c.Out)
		return errInterrupted
	}
	if err != nil {
		return err
	}
	if len(run.Generations()) > 0 {
		if err := c.plot(run); err != nil {
			return err
		}
	}
	if c.JSON {
		return nil
	}
	_, err = fmt.Fprintf(s.out, "network  %s\ncurves   %s\n", filepath.Join(c.Out, "best.safetensors"), filepath.Join(c.Out, curvesFile))
	return err
}

// plan describes how many generations are complete and how many remain.
func plan(done, all int) string {
	generations := func(n int) string {
		if n == 1 {
			return "1 generation"
		}
		return fmt.Sprintf("%d generations", n)
	}
	switch {
	case done == 0:
		return generations(all) + " to learn"
	case done < all:
		return fmt.Sprintf("%s learnt, %d to go", generations(done), all-done)
	}
	return generations(done) + " learnt, none to go"
}

const curvesFile = "curves.svg"

func (c *learnCmd) plot(run *learn.Run) error {
	games := run.Config.Rules
	if n := 1 + strings.Count(games, ","); n > 5 { // the title is as long as the picture is wide
		games = fmt.Sprintf("%d games", n)
	}
	title := fmt.Sprintf("evald learn, %s, %s", games, run.Config.Network)
	return writeWhole(filepath.Join(c.Out, curvesFile), func(w io.Writer) error { return plot.Learning(w, title, run.Generations()) })
}

func (c *learnCmd) line(w io.Writer, g learn.Generation) error {
	if c.JSON {
		return json.NewEncoder(w).Encode(g)
	}
	text := fmt.Sprintf("%3d  %d games by %s", g.Number, g.Games, g.Player)
	if g.Proved > 0 {
		text += fmt.Sprintf(", %.1f%% ended by proof", 100*float64(g.Proved)/float64(g.Games))
	}
	text += fmt.Sprintf(", %d records, %d steps", g.Records, g.Steps)
	for _, a := range g.Accuracy {
		if !a.Whole() {
			continue // generations.jsonl has the others
		}
		text += fmt.Sprintf("; %s %.1f%% good, %.1f%% perfect", a.Player(), 100*a.Good.Value, 100*a.Perfect.Value)
	}
	if g.TooFew {
		text += "; too few games for a rating"
	} else {
		text += fmt.Sprintf("; Elo %+.0f ± %.0f", g.Elo, g.EloError)
	}
	for _, m := range g.Matches {
		text += fmt.Sprintf(", %g of %d against %s", m.Points, m.Games, m.Against)
	}
	if g.Gate != nil {
		text += fmt.Sprintf(", %g of %d against %s", g.Gate.Points, g.Gate.Games, g.Gate.Against)
	}
	verdict := "not better"
	if g.Promoted {
		verdict = "promoted"
	}
	_, err := fmt.Fprintf(w, "%s: %s; %.0f s\n", text, verdict, g.Seconds.SelfPlay+g.Seconds.Train+g.Seconds.Measure)
	return err
}

func (c *learnCmd) config() (learn.Config, error) {
	config, begun, err := learn.ReadConfig(c.Out)
	switch {
	case err != nil:
		return config, err
	case begun:
		how := selfplay.DefaultConfig()
		config.SelfPlay.Parallel, config.SelfPlay.Batch = how.Parallel, how.Batch
		if err := c.same(&config); err != nil {
			return config, err
		}
	default:
		if config, err = c.begin(); err != nil {
			return config, err
		}
		if c.Preset != nil {
			if err := config.Use(*c.Preset); err != nil {
				return config, err
			}
		}
	}
	set(&config.Generations, c.Generations)
	if config.Generations == learn.NotKept {
		config.Generations = defaultGenerations
	}
	set(&config.Backend, c.Backend)
	set(&config.Trainer, c.Trainer)
	set(&config.Preset, c.Preset)
	set(&config.Network, c.Network)
	set(&config.Seed, c.Seed)
	set(&config.FirstGames, c.FirstGames)
	set(&config.FirstFactor, c.FirstFactor)
	set(&config.Games, c.Games)
	set(&config.SelfPlay.Visits, c.Visits)
	set(&config.SelfPlay.FastVisits, c.FastVisits)
	set(&config.SelfPlay.FullShare, c.FullShare)
	set(&config.SelfPlay.Selection, c.Selection)
	set(&config.SelfPlay.Policy, c.Policy)
	if c.Exact != nil {
		config.SelfPlay.Exact = max(0, *c.Exact)
	}
	set(&config.Labels, c.Labels)
	set(&config.Window, c.Window)
	set(&config.Passes, c.Passes)
	set(&config.Batch, c.Batch)
	set(&config.LR, c.LR)
	set(&config.QShare, c.QShare)
	set(&config.GateVisits, c.GateVisits)
	set(&config.GateGames, c.GateGames)
	set(&config.OpponentGames, c.OpponentGames)
	set(&config.Positions, c.Positions)
	if c.Cluster && c.Continuous {
		config.Continuous = true
	}
	if len(c.Opponent) > 0 {
		config.Opponents = c.Opponent
	}
	return config, c.choosePath(&config, begun)
}

// defaultGenerations is for runs that an older version of this program began, which did not keep
// --generations.
const defaultGenerations = 10

// begin returns the configuration of a new run, with the defaults for its games.
func (c *learnCmd) begin() (config learn.Config, err error) {
	games, err := c.games()
	if err != nil {
		return config, err
	}
	config = learn.DefaultConfig(games)
	network, err := c.initial()
	if network.Content == nil {
		return config, err
	}
	return config, config.BeginWith(network.Content)
}

// same overwrites the games and the initial network of a resumed run's configuration with those of --rules and --init, if given. The run
// refuses to resume if they differ from its own.
func (c *learnCmd) same(config *learn.Config) error {
	if c.Rules != nil {
		games, err := c.games()
		if err != nil {
			return err
		}
		config.Rules, config.SelfPlay.Rules = games.String(), games.String()
	}
	network, err := c.initial()
	if network.Content == nil {
		return err
	}
	if config.Init == network.SHA256 {
		config.Initial = network.Content
	}
	config.Init = network.SHA256
	return nil
}

func (c *learnCmd) games() (game.Mix, error) {
	rules := game.Connect4.String()
	set(&rules, c.Rules)
	games, err := game.ParseMix(rules)
	if err != nil {
		return nil, usage("--rules: %w", err)
	}
	if len(games) == 1 {
		games[0].Share = 1 // a single game gets everything, so 7x6x4=2 means the same as 7x6x4
	}
	return games, nil
}

// initial returns the network of --init. Its Content is nil if the flag was not given.
func (c *learnCmd) initial() (network open.Stored, err error) {
	if c.Init == "" {
		return network, nil
	}
	network, n, err := open.Any(c.Init)
	switch {
	case err != nil:
		return open.Stored{}, fmt.Errorf("--init: %w", err)
	case n.Trains() != nil:
		return open.Stored{}, usage("--init %s is %s, %w: name a network of its own", c.Init, n.What(), n.Trains())
	}
	return network, nil
}

// choosePath sets the path (instructions) with which the CPU computes the run's networks. A resumed run keeps its path.
func (c *learnCmd) choosePath(config *learn.Config, begun bool) error {
	path := &config.SelfPlay.Path
	_, noGPU := driver.Find()
	switch {
	case kernel.Path(c.CPUPath).Int8():
		return usage("--cpu-path %s: the networks of a run have no ranges of activations, which it needs", c.CPUPath)
	case c.CPUPath != "":
		*path = c.CPUPath
		return c.check()
	case begun && *path != "":
		return missing(filepath.Join(c.Out, "config.json"), *path)
	case !begun && (config.Backend == open.CPU || config.Backend == open.Auto && noGPU != nil):
		if shape, err := net.ParseConfig(config.Network); err == nil { // Validate reports it
			*path = string(cpu.Choose(shape, false).Path)
		}
	}
	return nil
}

// set copies a flag's value to field if the flag was given.
func set[T any](field, flag *T) {
	if flag != nil {
		*field = *flag
	}
}

// evaluators returns a function that makes evaluators of networks on the device that flags name.
func evaluators(backend string, on processors, notes io.Writer) learn.Evaluators {
	say := linesTo(notes)
	o := options()
	o.Backend, o.GPUs, o.CPUPath, o.Note, o.Event = backend, on.GPUs.list(), on.CPUPath, eachOnce(say), say
	return func(file, name string) (*eval.Evaluator, func(), error) {
		_, n, err := open.File(file)
		if err != nil {
			return nil, nil, err
		}
		e, err := n.Open(name, o)
		if err != nil {
			return nil, nil, flagged(err)
		}
		return e.Evaluator, func() { e.Close() }, nil
	}
}

// eachOnce returns a function that passes only new texts to say, because every network of a run causes the same texts.
func eachOnce(say func(string)) func(string) {
	said := play.Once(func(text string) (struct{}, error) { say(text); return struct{}{}, nil })
	return func(text string) { _, _ = said(text) }
}
