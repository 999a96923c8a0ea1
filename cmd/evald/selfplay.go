package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/sample"
	"github.com/evald/evald/engine/selfplay"
	"github.com/evald/evald/engine/solver"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/nn/open"
)

type selfplayCmd struct {
	backend
	selfplayFlags
	joinFlags
	Out string `short:"o" without:"join" type:"path" placeholder:"DIR" help:"Folder of the records. The same command, also with more --games, resumes an interrupted or killed run. With several games, each has a folder of its own in it."`
	copyFlag
	Games int `range:"1 to 1000000000" without:"join" default:"1000" help:"Number of games."`
}

// selfplayFlags describe how games are played.
type selfplayFlags struct {
	Rules            string  `without:"join" default:"7x6x4" help:"The game: columns x rows x in-a-row. selfplay also takes several, each with its share of the games, such as 5x4x4,6x5x4=2,7x6x4=2.5; or any, which is 48 games."`
	Visits           int     `without:"join" range:"2 to 1000000" default:"${visits}" help:"Visits of a full search, from which the policy learns."`
	FastVisits       int     `range:"2 to 1000000" without:"join,full-share=1" default:"${fastVisits}" help:"Visits of the other searches, from which only the values learn."`
	FullShare        float64 `without:"join" range:"0 to 1" default:"${fullShare}" help:"Share of the moves that have a full search."`
	Selection        string  `without:"join" enum:"puct,gumbel" default:"puct" help:"How full searches choose at the root: ${enum}."`
	Explore          float64 `range:"0 to 1000" aliases:"cpuct" without:"join" default:"${explore}" help:"Exploration constant of puct: a larger one spreads the visits over more moves."`
	Noise            float64 `range:"0 to 1" without:"join,selection=gumbel" default:"${noise}" help:"Share of Dirichlet noise in the root's priors, for puct."`
	Alpha            float64 `range:"1e-06 to 1e+06" without:"join,selection=gumbel,noise=0" default:"${alpha}" help:"Concentration of the noise."`
	Discount         float64 `without:"join" range:"0.5 to 1" default:"${discount}" help:"Discount of a value for each ply that it is backed up: it prefers early wins and late losses."`
	Openings         string  `without:"join" enum:"random,plausible,openings,mixed" default:"random" help:"First moves of the games: ${enum}. plausible: a small search with bitsquares draws the moves; openings: a few moves of either kind; mixed: a third of the games each."`
	OpeningPlies     int     `without:"join" range:"-1 to 100" default:"-1" help:"Maximum number of these first moves; a game has 0 to this number. -1 is a seventh of the board's cells: 6 on 7x6."`
	Temperature      float64 `range:"0 to 100" without:"join,temperature-plies=0" default:"${temperature}" help:"Moves are drawn in proportion to visits^(1/temperature) for --temperature-plies; then the best are played."`
	TemperaturePlies int     `without:"join" range:"-1 to 1000" default:"-1" help:"Plies of a game whose moves are drawn; -1 is two sevenths of the board's cells: 12 on 7x6."`
	Resign           float64 `without:"join" range:"0 to 1" default:"0" help:"Resign if the value of a full search is below minus this; 0 never resigns."`
	Policy           bool    `without:"join" help:"Also record the policy of each full search in floats, which evald train then learns in place of the visits: gumbel's improved policy, which few visits round away, or the shares of the visits."`
	Seed             uint64  `without:"join" help:"Random seed: the same seed, evaluator and flags give the same records."`
	AtOnce           int     `range:"0 to 1048576" aliases:"parallel" default:"0" help:"Games at once; 0 is two batches for each processor."`
	Batch            int     `range:"0 to 1048576" default:"0" help:"Leaves that are evaluated together; 0 is ${batch}, and 512 with a GPU."`

	Remember int `without:"join" range:"0 to 1073741824" default:"${remembered}" help:"Number of the network's answers that are cached; 0 is none. It does not change the games. With a small network on a fast GPU, 0 can be faster."`

	Exact solver.Nodes `without:"join" help:"End a game as soon as its result is proved, by the search or by a solver within ${exactNodes} nodes, or =NODES. The last record has the exact result and the moves that keep it."`
}

// selfplayValues returns the defaults, and what stands for them in flags.
func selfplayValues() []string {
	c := selfplay.DefaultConfig()
	return []string{
		"${visits}", fmt.Sprint(c.Visits), "${fastVisits}", fmt.Sprint(c.FastVisits), "${fullShare}", fmt.Sprint(c.FullShare), "${explore}", fmt.Sprint(c.C),
		"${noise}", fmt.Sprint(c.Noise), "${alpha}", fmt.Sprint(c.Alpha), "${discount}", fmt.Sprint(c.Discount), "${temperature}", fmt.Sprint(c.Temperature),
		"${batch}", fmt.Sprint(selfplay.DefaultBatch), "${remembered}", fmt.Sprint(selfplay.Remembered),
	}
}

func (f selfplayFlags) config(network string, board *game.Board) selfplay.Config {
	c := selfplay.DefaultConfig()
	c.Network, c.Rules, c.Seed, c.Selection = network, board.Rules().String(), f.Seed, f.Selection
	c.Visits, c.FastVisits, c.FullShare = f.Visits, f.FastVisits, f.FullShare
	c.C, c.Noise, c.Alpha, c.Discount, c.Resign, c.Policy = f.Explore, f.Noise, f.Alpha, f.Discount, f.Resign, f.Policy
	if f.Openings != string(sample.Random) {
		c.Openings = f.Openings
	}
	c.OpeningPlies, c.Temperature, c.TemperaturePlies = f.OpeningPlies, f.Temperature, f.TemperaturePlies
	opening, temperature := selfplay.PliesFor(board)
	if c.OpeningPlies < 0 {
		c.OpeningPlies = opening
	}
	if c.TemperaturePlies < 0 {
		c.TemperaturePlies = temperature
	}
	c.Exact, c.Parallel, c.Batch = max(0, f.Exact), f.AtOnce, f.Batch
	return c
}

// visits describes the number of visits in a configuration's searches.
func visits(c selfplay.Config) string {
	if c.FullShare == 1 {
		return fmt.Sprintf("%d visits a move", c.Visits)
	}
	return fmt.Sprintf("%d visits for %g of the moves, %d for the others", c.Visits, c.FullShare, c.FastVisits)
}

func (c *selfplayCmd) Run(ctx context.Context, s streams) error {
	if c.Join != "" {
		return c.work(ctx, s)
	}
	if c.Out == "" {
		return usage("missing flags: --out=DIR, or --join=URL")
	}
	const node = 32 // bytes; a visit makes one or more
	if err := fitsMemory("at-once", min(c.AtOnce, c.Games), node*c.Visits); err != nil {
		return err
	}
	runs, err := c.runs()
	if err != nil {
		return err
	}
	e, path, err := c.resume(runs[0].dir, s.err)
	if err != nil {
		return err
	}
	defer e.Close()
	for _, r := range runs {
		if err := e.Supports(r.board); err != nil {
			return err
		}
	}
	for _, r := range runs {
		if err := c.play(ctx, s, e, path, r); err != nil {
			return err
		}
	}
	return nil
}

// boardRun has the games to play on one of the boards of --rules.
type boardRun struct {
	board *game.Board
	games int
	dir   string
	copyFlag
}

// runs divides --games among the boards by the shares of --rules.
func (c *selfplayCmd) runs() (runs []boardRun, err error) {
	mix, boards, err := boardsOf(c.Rules)
	if err != nil {
		return nil, err
	}
	counts := mix.Counts(c.Games)
	for i, board := range boards {
		if counts[i] > 0 {
			runs = append(runs, boardRun{board, counts[i], folderOf(mix, c.Out, board.Rules()), copyFlag{folderOf(mix, c.CopyTo, board.Rules())}})
		}
	}
	return runs, nil
}

// play plays the games on one board. path is the CPU path that the run records.
func (c *selfplayCmd) play(ctx context.Context, s streams, e *open.Opened, path string, r boardRun) error {
	model := e.ModelOn(r.board.Rules())
	config := c.config(model, r.board)
	config.Path = path
	config = config.Sized(e.Evaluator, r.games)
	if err := config.Validate(); err != nil {
		return usageError{err}
	}
	fmt.Fprintf(s.err, "evald selfplay: %s by %s, %d games; %s; %d games at once, batches of %d; seed %d; records in %s\n",
		config.Rules, model, r.games, visits(config), config.Parallel, config.Batch, config.Seed, r.dir)
	progress := newProgress(s.err, 0)
	var last selfplay.Progress
	err := selfplay.Run(ctx, selfplay.Remember(e.Evaluator, model, c.Remember), config, r.dir, r.games, func(p selfplay.Progress) {
		last = p
		rate := float64(p.Played) / p.Elapsed.Seconds()
		left := time.Duration(float64(p.All-p.Games) / rate * float64(time.Second))
		progress.text(fmt.Sprintf("%d of %d games, %.1f/s%s, %v left", p.Games, p.All, rate, p.Share(config), left.Round(time.Second)))
	})
	progress.clear()
	if err != nil && ctx.Err() != nil {
		fmt.Fprintf(s.err, "evald: interrupted; %d of %d games are kept, the same command resumes it\n", last.Games, r.games)
		return errInterrupted
	}
	if err != nil {
		return err
	}
	on := ""
	if r.dir != c.Out {
		on = config.Rules + ": "
	}
	if _, err = fmt.Fprintf(s.out, "%s%d games, of which %d were played now, in %v%s\n", on, r.games, last.Played, last.Elapsed.Round(time.Millisecond), last.Share(config)); err != nil || r.CopyTo == "" {
		return err
	}
	to := newRecordFiles(ctx)
	defer to.Close()
	return r.copyFiles(ctx, s, to, r.dir, "games-*.parquet")
}

// resume opens the evaluator with the CPU path of the run in dir. For a new run it chooses a path. It returns the path that the run
// records, which is empty on a GPU.
func (c *selfplayCmd) resume(dir string, notes io.Writer) (e *open.Opened, path string, err error) {
	file := filepath.Join(dir, selfplay.ConfigFile)
	var was selfplay.Config
	text, err := os.ReadFile(file)
	begun := err == nil && durable.Unmarshal(text, &was) == nil // the run itself refuses a damaged file later
	from := c.backend
	if from.CPUPath == "" && was.Path != "" {
		from.CPUPath = was.Path
		if err := missing(file, was.Path); err != nil {
			return nil, "", err
		}
	}
	e, err = from.choose(notes)
	switch {
	case err != nil:
		return nil, "", err
	case begun && c.CPUPath == "":
		return e, was.Path, nil
	case e.OnGPU:
		return e, "", nil
	}
	return e, e.CPUPath, nil
}

// missing returns an error if this machine lacks the CPU path that a run began with.
func missing(file, path string) error {
	if err := kernel.Path(path).Check(); err != nil {
		return fmt.Errorf("%s: the run's answers are those of one path, and %w: resume it on a machine that has it, or name another folder", file, err)
	}
	return nil
}
