// Package selfplay plays games of an evaluator against itself and stores them as training records.
//
// Game n of a run depends only on the run's configuration, its evaluator and n, not on anything that runs at the same time. So a killed run
// resumes with the games that are not in its files, and ends with the same files.
//
// # Decisions
//
// A run caches its network's answers. The search for a move meets half of the previous search's leaves again, and games share their
// openings. Records do not depend on which search evaluated a position first. Each move starts with an empty tree, so that a game depends
// only on its number. Games begin with random and plausible moves that searches would not choose, because users send such positions.
//
// With Exact, a game takes 0.5 times (default) to 1.2 times (bitsquares) the processor time of a game without; without probes of leaves,
// 0.55 to 0.65 times. Probes of leaves are worth their time: in 864 positions, a search of 48 visits by a network of two generations chose
// 98.1% good moves and found 95.7% of the results, instead of 96.8% and 89.0%. With 300 nodes instead of 100 these become 98.3% and 96.3%,
// but games by bitsquares take 1.7 times as long.
package selfplay

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/sample"
	"github.com/evald/evald/engine/solver"
)

// Config is the configuration of a run. All fields except the last three determine the games.
type Config struct {
	Rules   string `json:"rules"`
	Network string `json:"network"` // name of the network or heuristic, stored in the records
	Seed    uint64 `json:"seed"`

	// Path is the CPU's instruction set for the network (kernels/cpu.Path). It is recorded because answers differ slightly between
	// instruction sets. It is "" if the CPU does not compute a network. Play ignores it.
	Path string `json:"cpu_path,omitempty"`

	// Playout cap randomisation (Wu, Accelerating self-play learning in Go, 2019): with probability FullShare, a move is searched with
	// Visits and exploration, and its record trains the policy and the values. Other moves are searched with FastVisits and no exploration,
	// and their records train only the values.
	Visits     int     `json:"visits"`
	FastVisits int     `json:"fast_visits"`
	FullShare  float64 `json:"full_share"`

	Selection string  `json:"selection"` // puct or gumbel, for the root of full searches
	Noise     float64 `json:"noise"`     // puct: share of Dirichlet noise in the root's priors
	Alpha     float64 `json:"alpha"`     // puct: concentration of that noise
	C         float64 `json:"c"`         // puct: exploration constant
	Discount  float64 `json:"discount"`  // factor by which a value shrinks at each ply that it is backed up: prefers early wins and late losses

	// A game begins with 0 to OpeningPlies moves of a kind of play, each number equally likely. Then it chooses moves by
	// visits^(1/Temperature) for TemperaturePlies plies, and after that the best moves. Openings is a kind of package sample, Mixed for
	// each kind in a third of the games, or "" for sample.Random. Openings of the kind sample.Openings have at most as many plies as
	// sample.Kind.Plies.
	Openings         string  `json:"openings,omitempty"`
	OpeningPlies     int     `json:"opening_plies"`
	Temperature      float64 `json:"temperature"`
	TemperaturePlies int     `json:"temperature_plies"`

	// Resign ends a game if a full search values the position below -Resign for the side to move; with 0 no game is resigned.
	Resign float64 `json:"resign"`

	// Exact, if above 0, ends a game at the first position whose result is proved: by a solver.Prober with that maximum number of nodes, or
	// by the search, which probes its leaves with a tenth of it. Positions that the rules decide are played to the end.
	Exact solver.Nodes `json:"exact,omitempty"`

	// Policy adds the policy of full searches to the records, in floats (record.Record.Policy). The visits are rounded to whole numbers,
	// which with few visits loses most of Gumbel's improved policy. Positions that the rules or a proof decide have equal shares.
	Policy bool `json:"policy,omitempty"`

	Lab

	// The games do not depend on the other fields. Sized replaces zeros in them.
	Parallel int `json:"-"` // games at once
	Batch    int `json:"-"` // leaves per batch

	Details bool `json:"-"` // games have the details of each Ply
}

// Lab is what experiments change of the searches. Its zero value is the usual search. The fields are those of mcts.Config.
type Lab struct {
	Plain          bool     `json:"plain,omitempty"` // also, the rules do not make the targets of positions that they decide
	Reuse          bool     `json:"reuse,omitempty"` // the next search keeps what the last one has found of its position, and adds its visits
	FPU            *float64 `json:"fpu,omitempty"`
	ForcedPlayouts float64  `json:"forced_playouts,omitempty"` // of full searches
	Considered     int      `json:"considered,omitempty"`      // 0: 16
	CVisit         *float64 `json:"c_visit,omitempty"`
	CScale         *float64 `json:"c_scale,omitempty"`
	Rescale        bool     `json:"rescale,omitempty"`
	GumbelScale    *float64 `json:"gumbel_scale,omitempty"`
}

// apply changes the configuration of a search.
func (l Lab) apply(c *mcts.Config, full bool) {
	c.Plain, c.Rescale, c.Moves = l.Plain, l.Rescale, cmp.Or(l.Considered, c.Moves)
	if full {
		c.ForcedPlayouts = l.ForcedPlayouts
	}
	set(&c.FPU, l.FPU)
	set(&c.CVisit, l.CVisit)
	set(&c.CScale, l.CScale)
	set(&c.GumbelScale, l.GumbelScale)
}

func set(to, chosen *float64) {
	if chosen != nil {
		*to = *chosen
	}
}

// Mixed is the value of Config.Openings for all kinds of play.
const Mixed = "mixed"

func (c Config) kinds() []sample.Kind {
	switch c.Openings {
	case "":
		return []sample.Kind{sample.Random}
	case Mixed:
		return sample.Kinds()
	}
	return []sample.Kind{sample.Kind(c.Openings)}
}

// DefaultConfig of 7x6x4.
func DefaultConfig() Config {
	return Config{
		Rules: "7x6x4", Visits: 200, FastVisits: 40, FullShare: 0.25, Selection: "puct", Noise: 0.25, Alpha: 1, C: mcts.DefaultConfig(mcts.PUCT).C, Discount: 0.99,
		OpeningPlies: 6, Temperature: 1, TemperaturePlies: 12,
	}
}

// DefaultBatch is the number of leaves per batch, except for evaluators that prefer far more.
const DefaultBatch = 128

// Sized replaces a Parallel or a Batch of 0 by numbers that suit the given number of games by e. Each processor has two batches: it fills
// one while the other is evaluated. If the device prefers 1024 rows, as GPUs do, batches have 512 rows, and the device has several of them
// at once. If there are too few games for that, batches are smaller, so that all processors have work, but not below DefaultBatch. For
// heuristics, whose speed does not depend on the batch, they may be even smaller.
func (c Config) Sized(e *eval.Evaluator, games int) Config {
	rows, batches := e.Backend().Attributes().Rows, 2*runtime.GOMAXPROCS(0)
	batch := max(DefaultBatch, rows/2)
	if c.Parallel == 0 {
		c.Parallel = min(batches*cmp.Or(c.Batch, batch), max(1, games), mostAtOnce)
	}
	if c.Batch == 0 {
		least := DefaultBatch
		if rows == 1 {
			least = 1
		}
		c.Batch = min(batch, max(least, c.Parallel/batches))
	}
	return c
}

// mostAtOnce bounds Parallel and Batch.
const mostAtOnce = 1 << 20

// PliesFor returns the OpeningPlies and TemperaturePlies for a board: a seventh and two sevenths of its cells, as in DefaultConfig for 7x6.
func PliesFor(b *game.Board) (opening, temperature int) { return b.Cells() / 7, b.Cells() * 2 / 7 }

// Validate returns nil, or an error that names the field that is out of range.
func (c Config) Validate() error {
	if _, err := game.ParseRules(c.Rules); err != nil {
		return fmt.Errorf("selfplay: rules: %w", err)
	}
	if c.Selection != "puct" && c.Selection != "gumbel" {
		return fmt.Errorf("selfplay: selection is %q, want puct or gumbel", c.Selection)
	}
	switch {
	case c.Plain && c.Exact > 0:
		return errors.New("selfplay: exact does nothing without lookahead, because such a search proves nothing")
	case c.Reuse && c.Selection == "gumbel":
		return errors.New("selfplay: reuse does nothing with selection gumbel, whose visits are counted from 0")
	}
	if board, err := c.board(); err == nil {
		if err := c.tree(0, true).Check(board); err != nil {
			return fmt.Errorf("selfplay: %w", err)
		}
	}
	for _, kind := range c.kinds() {
		if !slices.Contains(sample.Kinds(), kind) {
			return fmt.Errorf("selfplay: openings is %q, want one of %v or %s", c.Openings, sample.Kinds(), Mixed)
		}
	}
	for _, f := range []struct {
		name            string
		value, min, max float64
	}{
		{"visits", float64(c.Visits), 2, 1e6},
		{"fast visits", float64(c.FastVisits), 2, 1e6},
		{"full share", c.FullShare, 0, 1},
		{"noise", c.Noise, 0, 1},
		{"alpha", c.Alpha, 1e-6, 1e6},
		{"c", c.C, 0, 1e6},
		{"discount", c.Discount, 0.5, 1},
		{"opening plies", float64(c.OpeningPlies), 0, 100},
		{"temperature", c.Temperature, 0, 100},
		{"temperature plies", float64(c.TemperaturePlies), 0, 1000},
		{"resign", c.Resign, 0, 1},
		{"exact", float64(c.Exact), 0, solver.MostNodes},
		{"parallel", float64(c.Parallel), 0, mostAtOnce},
		{"batch", float64(c.Batch), 0, mostAtOnce},
	} {
		if !(f.value >= f.min && f.value <= f.max) {
			digits := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
			return fmt.Errorf("selfplay: %s is %s, want %s to %s", f.name, digits(f.value), digits(f.min), digits(f.max))
		}
	}
	return nil
}

func (c Config) board() (*game.Board, error) {
	rules, err := game.ParseRules(c.Rules)
	if err != nil {
		return nil, err
	}
	return game.NewBoard(rules)
}

// leafShare is the quotient of Exact, the maximum number of nodes of the probes of games' positions, and the maximum for a tree's leaves.
const leafShare = 10

// tree returns the configuration of a full or a fast search.
func (c Config) tree(seed uint64, full bool) mcts.Config {
	m := mcts.DefaultConfig(mcts.PUCT)
	m.C, m.Discount, m.Alpha, m.Visits, m.Seed, m.MaxNodes = c.C, c.Discount, c.Alpha, c.Visits, seed, 1<<20
	m.Exact = c.Exact / leafShare
	m.FlatPriors = false     // a policy that learns from flat priors becomes flatter in each generation
	m.Transpositions = false // the network's answers are cached, and beside a fast device visits should cost little
	switch {
	case full && c.Selection == "gumbel":
		m.Selection = mcts.Gumbel
	case full:
		m.Noise = c.Noise
	}
	c.Lab.apply(&m, full)
	return m
}
