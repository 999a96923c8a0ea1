// Package learn is the loop from random weights, or from another network, to a strong network. In each generation the best
// network plays games against itself, a new network is trained on the latest games, exact scores and matches measure it, and
// it is promoted if it is better than the best one.
//
// A run is a folder. Everything in it follows from its configuration alone. So a run that was killed at any moment
// continues where it stopped, and ends with the same networks, bit for bit. In a continuous run (Config.Continuous) the number of
// games also depends on time.
//
//	config.json            the effective configuration
//	positions/random.txt   positions of each kind of play with their exact scores, which every network is measured on
//	000/games/             records of the generation's games
//	000/games-001/         further ones (Config.Continuous)
//	000/train/             its training run
//	000/gate.parquet       the match with the best network before it
//	000/opponent-1.parquet the match with a fixed opponent
//	000/generation.json    its results; if the file is there, the generation is complete
//	networks/000.safetensors  networks that were promoted; init.safetensors: the one that the run began with (Config.Init)
//	best.safetensors       the last of them
//	generations.jsonl      one line a generation, with ratings over all matches so far
//	events.out.tfevents.*  the same for TensorBoard
//
// A run of several games has one network for all of them. Then positions, games and labels have a folder for each game, such
// as 000/games/5x4x4, and each match has a file for each game, such as 000/gate-5x4x4.parquet.
//
//	config.go              Config: what a run depends on, its defaults and presets
//	run.go                 Run: the folder of a run, and the loop
//	initial.go             the network that a run begins with
//	positions.go           positions with exact scores
//	generation.go          one turn of the loop, accuracy
//	games.go               games, and which of them a generation learns from
//	continuous.go          games while a network is trained (Config.Continuous)
//	labels.go              exact scores of the positions of games, if a run learns from them
//	training.go            the training of a generation's network
//	match.go               matches and ratings
//	lines.go               generations.jsonl and the curves of TensorBoard
//
// # Decisions
//
// The first generation's games are the heuristic's: a random network's games teach less, and cost more. The loop
// searches by Gumbel with few visits: a record costs a fraction, and many positions teach more than better targets
// for few. A match's verdict is asked for after whole rounds of games, so that a run does not depend on which game
// ended first.
//
// Several games divide the numbers of games and steps by the shares in Config.Rules, and each has at least one game. The
// configuration has no table of the values that depend on the board's size, but ByBoard in their place. The test and the ratings
// count a match's games on all boards together, because one network is promoted for all of them.
//
// A run that begins with a network lets it play the first games and the first gate. So a network that became worse by the
// training, for instance because of a large learning rate, is not promoted.
//
// A continuous run has the steps of its configured number of games, however many are played. With steps for all games, a training
// would be longer if more games came during the one before, and the next one even more so.
//
// The preset fast takes networks of pattern tables, because a network of convolutions (3x32) that learned from the same
// records for twice the processor time was no better with a search of 100 visits. Half of its games begin where a
// probe proves the result at once: no game would come to such positions.
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

// Config is everything that decides what a run learns. The number of generations is not part of it.
type Config struct {
	Preset  string `json:"preset,omitempty"` // whose settings the run began with; it has no effect of its own
	Rules   string `json:"rules"`            // game.ParseMix: a game, or several with their shares
	Network string `json:"network"`          // net.ParseConfig, or pattern.ParseShape on 7x6x4
	Seed    uint64 `json:"seed"`

	// Init is the SHA-256 of the file of the network that the run begins with, in hexadecimal; "" if it begins with random
	// weights. Initial is the content of that file; it may be nil if the run's folder has the copy. See BeginWith.
	Init    string `json:"init,omitempty"`
	Initial []byte `json:"-"`

	// FirstGames are played by the bitsquares heuristic, because a random network knows nothing. In each later generation
	// the best network plays Games. With Init all generations have Games. The heuristic is fast, so its searches have
	// FirstFactor times the visits; FirstFactor may be ByBoard. The run sets Rules, Network and Seed of SelfPlay, of which
	// OpeningPlies and TemperaturePlies may be ByBoard. Several games share these numbers of games.
	FirstGames  int             `json:"first_games"`
	FirstFactor int             `json:"first_factor"`
	Games       int             `json:"games"`
	SelfPlay    selfplay.Config `json:"selfplay"`

	Labels string `json:"labels"` // Outcome or Solver

	// Continuous lets others (Run.PlayBy) play the games of the next generation while a generation's network is trained and
	// measured, by the best network before it. So the heuristic plays the first two generations, and a generation has at least
	// its number of games: further ones are played until the network is ready. How many depends on time. So such a run cannot be
	// repeated.
	Continuous bool `json:"continuous,omitempty"`

	// A network learns from the last Window games, or from half of all games if that is more, in whole files. Several games
	// share the Window. The number of steps is that of Passes passes over the new positions alone. Several games share the
	// steps, and each step is of one game.
	Window int     `json:"window"`
	Passes float64 `json:"passes"`
	Batch  int     `json:"batch"`
	LR     float64 `json:"lr"` // of the first generations; see rate
	L2     float64 `json:"l2"`
	QShare float64 `json:"q_share"` // train.RecordOptions

	// A network is promoted if it wins a match against the best one: by the sequential test between Elo0 and Elo1, or by
	// points if the test has no verdict after GateGames. Several games share the games of a match.
	GateVisits int     `json:"gate_visits"` // may be ByBoard
	GateGames  int     `json:"gate_games"`
	Elo0       float64 `json:"elo0"`
	Elo1       float64 `json:"elo1"`

	Positions int   `json:"positions"` // of each game and kind of play (engine/sample); those with at most 30 empty cells are solved
	Visits    []int `json:"visits"`    // of the searches that are measured on them; 0 is the network without a search

	Opponents     []string `json:"opponents"` // agents that each network plays against, with GateVisits
	OpponentGames int      `json:"opponent_games"`
}

// The values of Config.Labels.
const (
	Outcome = "outcome" // learn what the search found and how the game ended
	Solver  = "solver"  // learn exact scores of the positions of the games, for experiments
)

// ByBoard, in place of a number, gives each game of a run the number that DefaultConfig has for that game alone.
const ByBoard = -1

// DefaultConfig is the configuration for one game or several. Small boards have fewer games, smaller networks and shorter
// searches. Several games have the defaults of the largest board, except for the values that may be ByBoard, which are.
func DefaultConfig(games game.Mix) Config {
	cells := 0
	for _, p := range games {
		cells = max(cells, p.Rules.Cells())
	}
	c := Config{
		Rules: games.String(), Network: "6x64", FirstGames: 12000, FirstFactor: 10, Games: 12000, SelfPlay: selfplay.DefaultConfig(),
		Labels: Outcome, Window: 24000, Passes: 2.5, Batch: 512, LR: 0.002, L2: 0.01, QShare: 0.5,
		GateVisits: 64, GateGames: 200, Elo0: 0, Elo1: 40,
		Positions: 1000, Visits: []int{0, 100}, Opponents: []string{"uct-bitsquares:sims=2000", "negamax"}, OpponentGames: 40,
	}
	// With 48 visits Gumbel finds what PUCT needs about 100 visits for, so all searches can be full.
	c.SelfPlay.Selection, c.SelfPlay.Visits, c.SelfPlay.FullShare = "gumbel", 48, 1
	// A network is good at positions like those it has seen. So it must also see play that no search would choose.
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

// byBoard are the values that may be ByBoard.
func (c *Config) byBoard() []*int {
	return []*int{&c.FirstFactor, &c.GateVisits, &c.SelfPlay.OpeningPlies, &c.SelfPlay.TemperaturePlies}
}

// on is the configuration of one of the run's games, in which no value is ByBoard.
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

// Fast is the preset for learning in little time on a processor: games end where they are proved, and on 7x6x4 a network of
// pattern tables plays and learns many of them.
const Fast = "fast"

// Use puts the settings of a preset in place of those of DefaultConfig. If the run begins with a network, BeginWith comes first.
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
	// Half of these openings are proved at once, and cost a probe. Plausible ones would cost five times as much as their games.
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
		first = 0 // there are none
	}
	for _, f := range []struct {
		name            string
		value, min, max float64
	}{
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

// games is the number of games of a generation, of all games of the run together.
func (c Config) games(generation int) int {
	if generation == 0 && c.Init == "" {
		return c.FirstGames
	}
	return c.Games
}

// test is the sequential test of the gate.
func (c Config) test() arena.SPRT {
	return arena.SPRT{Elo0: c.Elo0, Elo1: c.Elo1, Alpha: 0.05, Beta: 0.05}
}

// rate is the learning rate at the start of a generation; within the generation it falls to 0. The network before knows most
// of what a generation learns, so later generations take smaller steps, to become more exact.
func (c Config) rate(generation int) float64 { return c.LR / math.Sqrt(float64(max(1, generation))) }

// seed is the seed of a generation.
func (c Config) seed(generation int) uint64 { return c.Seed*1_000_003 + uint64(generation) }
