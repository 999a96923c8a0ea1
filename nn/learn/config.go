// Package learn trains strong networks by self-play, from random weights or from another network. In each generation, the best network
// plays games against itself, a new network is trained on the latest games, and exact scores and matches measure the new network. It is
// promoted if it beats the best network.
//
// A run is a folder. Its contents depend only on the configuration and its recorded changes, so a
// run that was killed at any time can be resumed, and ends with the same networks, bit for bit. In
// a continuous run (Config.Continuous), the number of games also depends on time.
//
//	config.json            the effective configuration with which the run began
//	changes.jsonl          a line for each time that a resumed run changed settings, with the first generation that has the new values
//	positions/random.txt   positions of each kind of play with their exact scores, on which every network is measured
//	000/games/             records of the generation's games
//	000/games-001/         further games (Config.Continuous)
//	000/train/             its training run
//	000/gate.parquet       the match with the best network before it
//	000/opponent-1.parquet the match with a fixed opponent
//	000/generation.json    its results; written when the generation is complete
//	networks/000.safetensors  promoted networks; init.safetensors: the network that the run began with (Config.Init)
//	best.safetensors       the last promoted network
//	generations.jsonl      one line per generation, with ratings over all matches so far
//	events.out.tfevents.*  the same for TensorBoard
//
// A run on several boards has one network for all of them. Positions, games and labels then have a folder for each board, such as
// 000/games/5x4x4, and each match has a file for each board, such as 000/gate-5x4x4.parquet.
//
//	config.go              Config: what a run depends on, its defaults and presets
//	changes.go             settings that a resumed run may change, and its record of changes
//	run.go                 Run: the folder of a run, and the loop
//	initial.go             the network that a run begins with
//	positions.go           positions with exact scores
//	generation.go          one turn of the loop, accuracy
//	room.go                waits while the disk is full
//	games.go               games, and which of them a generation learns from
//	continuous.go          games while a network is trained (Config.Continuous)
//	labels.go              exact scores of the positions of games, if a run learns from them
//	training.go            the training of a generation's network
//	match.go               matches and ratings
//	lines.go               generations.jsonl and the curves of TensorBoard
//
// # Decisions
//
// The heuristic plays the first generation's games, because games of a random network teach less and take longer. Searches use Gumbel and
// few visits: each record takes a fraction of the time, and many positions teach more than better targets for few. The sequential test is
// evaluated after whole rounds of games, so that a run does not depend on which game ends first.
//
// With several boards, the numbers of games and steps are divided among them by the shares in Config.Rules; each board has at least one
// game. Values that depend on the board's size are ByBoard rather than tables. The test and the ratings count a match's games on all boards
// together, because one network is promoted for all of them.
//
// In a run that begins with a network, that network plays the first games and the first gate match. So if training makes the network worse,
// for example because of a large learning rate, the new network is not promoted.
//
// A continuous run trains for the number of steps that its configured number of games requires, even if more games are played. Otherwise
// more games during one training would make the next training longer, and even more games would be played during that.
//
// The preset fast uses networks of pattern tables. A network of convolutions (3x32) that was trained on the same records for twice the
// processor time was no stronger in a search of 100 visits. Half of the preset's games begin at positions whose result a probe proves at
// once, because no game would reach such positions.
package learn

import (
	"fmt"
	"math"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/arena"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/selfplay"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/pattern"
)

// Config determines what a run learns. A resumed run may change some of its fields (midway).
type Config struct {
	Preset  string `json:"preset,omitempty"` // the preset that set the other fields; for information only
	Rules   string `json:"rules"`            // game.ParseMix: a game, or several with their shares
	Network string `json:"network"`          // net.ParseConfig, or pattern.ParseShape on 7x6x4
	Seed    uint64 `json:"seed"`

	Generations int `json:"generations"` // number of generations of the whole run

	// Backend and Trainer are names of what computes the networks' answers and the training steps.
	// The caller of Open interprets them; the run only keeps them, so that a program can resume it
	// with the same.
	Backend string `json:"backend"`
	Trainer string `json:"trainer"`

	// Init is the SHA-256, in hexadecimal, of the file of the network with which the run begins; "" for random weights. Initial is that
	// file's content; it may be nil if the run's folder contains a copy. See BeginWith.
	Init    string `json:"init,omitempty"`
	Initial []byte `json:"-"`

	// FirstGames is the number of games of the first generation. The bitsquares heuristic plays them, because a random network knows
	// nothing. It is fast, so its searches have FirstFactor times as many visits. The best network plays Games games in each later
	// generation, and in all generations if Init is set. With several boards, these numbers are totals. The run sets Rules, Network and
	// Seed of SelfPlay. FirstFactor, OpeningPlies and TemperaturePlies may be ByBoard.
	FirstGames  int             `json:"first_games"`
	FirstFactor int             `json:"first_factor"`
	Games       int             `json:"games"`
	SelfPlay    selfplay.Config `json:"selfplay"`

	Labels string `json:"labels"` // Outcome or Solver

	// Continuous makes other machines (Run.PlayBy) play the next generation's games while a network is trained and measured. The previous
	// best network plays them, so the heuristic plays the first two generations. A generation has at least the configured number of games;
	// further games are played until the network is ready. Their number depends on time, so such a run is not repeatable.
	Continuous bool `json:"continuous,omitempty"`

	// A network is trained on the last Window games, or on half of all games if that is more, in whole files. The number of steps is that
	// of Passes passes over the new positions alone. With several boards, Window and the steps are totals; each step is for one board.
	Window int     `json:"window"`
	Passes float64 `json:"passes"`
	Batch  int     `json:"batch"`
	LR     float64 `json:"lr"` // learning rate of the first generations; see the method rate
	L2     float64 `json:"l2"`
	QShare float64 `json:"q_share"` // train.RecordOptions

	// A network is promoted if it wins a match against the best network: by the sequential test between Elo0 and Elo1, or by points if the
	// test is still undecided after GateGames games. With several boards, the numbers of games are totals.
	GateVisits int     `json:"gate_visits"` // may be ByBoard
	GateGames  int     `json:"gate_games"`
	Elo0       float64 `json:"elo0"`
	Elo1       float64 `json:"elo1"`

	Positions int   `json:"positions"` // number for each board and kind of play (engine/sample); only positions with at most 30 empty cells are solved
	Visits    []int `json:"visits"`    // visits of the searches that are measured on the positions, with and without a solver; 0 is the network without search

	Opponents     []string `json:"opponents"` // agents against which each network plays, with GateVisits
	OpponentGames int      `json:"opponent_games"`
}

// The values of Config.Labels.
const (
	Outcome = "outcome" // learn the results of searches and games
	Solver  = "solver"  // learn exact scores of the positions of the games, for experiments
)

// The defaults of Config.Backend and Config.Trainer.
const (
	DefaultBackend = "auto"
	DefaultTrainer = "gorgonia"
)

// ByBoard, in place of a number, stands for each board's own default in DefaultConfig.
const ByBoard = -1

// DefaultConfig returns the defaults for one or several boards. Small boards have fewer games, smaller networks and shorter searches.
// Several boards have the defaults of the largest one, with ByBoard where it is allowed.
func DefaultConfig(games game.Mix) Config {
	cells := 0
	for _, p := range games {
		cells = max(cells, p.Rules.Cells())
	}
	c := Config{
		Rules: games.String(), Network: "6x64", Generations: 10, Backend: DefaultBackend, Trainer: DefaultTrainer, FirstGames: 12000, FirstFactor: 10, Games: 12000, SelfPlay: selfplay.DefaultConfig(),
		Labels: Outcome, Window: 24000, Passes: 2.5, Batch: 512, LR: 0.002, L2: 0.01, QShare: 0.5,
		GateVisits: 64, GateGames: 200, Elo0: 0, Elo1: 40,
		Positions: 1000, Visits: []int{0, 100}, Opponents: []string{"uct-bitsquares:sims=2000", "negamax"}, OpponentGames: 40,
	}
	// With 48 visits, Gumbel is as strong as PUCT with about 100, so all searches can be full.
	c.SelfPlay.Selection, c.SelfPlay.Visits, c.SelfPlay.FullShare = "gumbel", 48, 1
	// A network is accurate only in positions like those of its training, so it must also see play that no search would choose.
	c.SelfPlay.Openings = selfplay.Mixed
	c.SelfPlay.OpeningPlies, c.SelfPlay.TemperaturePlies = cells*3/7, cells*2/5
	if cells <= 24 {
		c.Network, c.FirstGames, c.Games, c.GateVisits = "2x16", 2000, 1000, 32
		c.FirstFactor, c.Window, c.Passes = 1, 4000, 4
		c.Batch, c.LR, c.Positions = 256, 0.004, 500
	}
	c.SelfPlay.Rules = c.Rules
	if len(games) > 1 {
		for _, value := range c.byBoard() {
			*value = ByBoard
		}
	}
	return c
}

// byBoard returns pointers to the fields that may be ByBoard.
func (c *Config) byBoard() []*int {
	return []*int{&c.FirstFactor, &c.GateVisits, &c.SelfPlay.OpeningPlies, &c.SelfPlay.TemperaturePlies}
}

// on returns the configuration for one of the run's boards, with ByBoard replaced.
func (c Config) on(rules game.Rules) Config {
	own := DefaultConfig(game.Mix{{Rules: rules, Share: 1}})
	c.Rules, c.SelfPlay.Rules = own.Rules, own.Rules
	for i, value := range c.byBoard() {
		if *value == ByBoard {
			*value = *own.byBoard()[i]
		}
	}
	return c
}

// Fast is the preset for learning in little time on a CPU. Games end when their results are proved; on 7x6x4 a network of pattern tables
// plays many games and is trained on them.
const Fast = "fast"

// Use applies the settings of a preset to DefaultConfig's. If the run begins with a network, call BeginWith first.
func (c *Config) Use(preset string) error {
	if preset != Fast {
		return fmt.Errorf("learn: preset is %q, want %s", preset, Fast)
	}
	c.Preset, c.SelfPlay.Exact = preset, solver.ProbeNodes
	if c.Rules != game.Connect4.String() || c.Init != "" && !pattern.IsShape(c.Network) {
		return nil
	}
	c.Batch, c.LR, c.Passes, c.QShare = 1024, 0.002, 3, 0.5
	c.Games, c.Window = 150_000, 450_000
	if c.Init == "" {
		c.Network, c.FirstGames, c.FirstFactor = "pattern128x32x32", 200_000, 1
	}
	c.SelfPlay.Visits, c.SelfPlay.FastVisits, c.SelfPlay.FullShare = 24, 6, 0.3
	// A probe proves half of these openings at once. Plausible openings would take five times as long as their games.
	c.SelfPlay.Openings, c.SelfPlay.OpeningPlies, c.SelfPlay.TemperaturePlies = "", 34, 8
	c.GateGames, c.Positions, c.OpponentGames = 100, 500, 20
	return nil
}

// Validate returns an error that names a field that is out of range, or nil.
func (c Config) Validate() error {
	games, err := game.ParseMix(c.Rules)
	if err != nil {
		return fmt.Errorf("learn: rules: %w", err)
	}
	for _, p := range games {
		if _, err := game.NewBoard(p.Rules); err != nil {
			return fmt.Errorf("learn: rules: %w", err)
		}
	}
	if !pattern.IsShape(c.Network) {
		_, err = net.ParseConfig(c.Network)
	} else if _, _, _, err = pattern.ParseShape(c.Network); err == nil && (len(games) > 1 || games[0].Rules != game.Connect4) {
		instead := "name a shape of convolutions, such as 6x64"
		if c.Init != "" {
			instead = "begin with a network of convolutions"
		}
		err = fmt.Errorf("%s is of pattern tables, which know %v alone: for %v %s", c.Network, game.Connect4, games, instead)
	}
	if err != nil {
		return fmt.Errorf("learn: network: %w", err)
	}
	if err := c.checkInitial(); err != nil {
		return fmt.Errorf("learn: init: %w", err)
	}
	if c.Labels != Outcome && c.Labels != Solver {
		return fmt.Errorf("learn: labels is %q, want %s or %s", c.Labels, Outcome, Solver)
	}
	first := 1.0
	if c.Init != "" {
		first = 0 // there are no first games
	}
	for _, f := range []struct {
		name            string
		value, min, max float64
	}{
		{"generations", float64(c.Generations), 0, 1e6},
		{"first games", float64(c.FirstGames), first, 1e9},
		{"games", float64(c.Games), 1, 1e9},
		{"window", float64(c.Window), 1, 1e9},
		{"passes", c.Passes, 1e-3, 1e3},
		{"batch", float64(c.Batch), 1, 1 << 16},
		{"lr", c.LR, 1e-9, 10},
		{"l2", c.L2, 0, 1},
		{"q share", c.QShare, 0, 1},
		{"gate games", float64(c.GateGames), 2, 1e6},
		{"positions", float64(c.Positions), 1, 1e6},
		{"opponents", float64(len(c.Opponents)), 1, 100},
		{"opponent games", float64(c.OpponentGames), 4, 1e6},
	} {
		if !(f.value >= f.min && f.value <= f.max) {
			return fmt.Errorf("learn: %s is %v, want %v to %v", f.name, f.value, f.min, f.max)
		}
	}
	for _, p := range games {
		own := c.on(p.Rules)
		switch {
		case own.FirstFactor < int(first) || own.FirstFactor > 1e4:
			return fmt.Errorf("learn: first factor is %d, want %v to 10000", c.FirstFactor, first)
		case own.GateVisits < 1 || own.GateVisits > 1e6:
			return fmt.Errorf("learn: gate visits is %d, want 1 to 1000000", c.GateVisits)
		}
		if err := own.SelfPlay.Validate(); err != nil {
			return err
		}
	}
	for _, v := range c.Visits {
		if v < 0 || v > 1e6 {
			return fmt.Errorf("learn: visits is %d, want 0 to 1000000", v)
		}
	}
	for _, o := range c.Opponents {
		if _, err := agent.Parse(o); err != nil {
			return fmt.Errorf("learn: opponent: %w", err)
		}
	}
	if err := c.test().Validate(); err != nil {
		return fmt.Errorf("learn: gate: %w", err)
	}
	return nil
}

// games returns the number of games of a generation on all boards together.
func (c Config) games(generation int) int {
	if generation == 0 && c.Init == "" {
		return c.FirstGames
	}
	return c.Games
}

func (c Config) test() arena.SPRT {
	return arena.SPRT{Elo0: c.Elo0, Elo1: c.Elo1, Alpha: 0.05, Beta: 0.05}
}

// rate returns the learning rate at the start of a generation; it falls to 0 within the generation. Later generations have lower rates,
// because the previous network already knows most of what they learn.
func (c Config) rate(generation int) float64 { return c.LR / math.Sqrt(float64(max(1, generation))) }

func (c Config) seed(generation int) uint64 { return c.Seed*1_000_003 + uint64(generation) }
