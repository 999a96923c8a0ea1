package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/prove"
	"github.com/evald/evald/nn/open"
)

type proveCmd struct {
	exactBook
	Agent  string `arg:"" help:"The agent: a level such as proven, or NAME:KEY=VALUE,KEY=VALUE, as in evald help match. It must be deterministic: agents that choose at random or have a time for each move are refused."`
	Out    string `short:"o" required:"" type:"path" placeholder:"DIR" help:"Folder of the run. The same command resumes an interrupted or killed one. The first mistakes are in DIR/GAME/mistakes-NUMBER.parquet, with the exact result of each move, for evald train."`
	Side   string `enum:"first,second" default:"first" help:"Whether the agent moves first or second in the game. If the other side is to move at the start, each of its moves is a game of its own."`
	Rules  string `default:"7x6x4" help:"The game: columns x rows x in-a-row, at most 64 bits: (rows + 1) * columns."`
	From   string `default:"-" placeholder:"MOVES" help:"Begin after these moves, such as 44554."`
	Memory memory `placeholder:"SIZE" help:"Memory for positions, such as 2GiB; the rest are sorted on the disk. Agents and solvers need memory besides. Default: 1GiB, or a quarter of the machine's memory if that is less."`
	Sample int    `range:"0 to 10000000" default:"0" placeholder:"N" help:"Also write N positions of each number of stones in which the agent moves, evenly spaced among all of them, with the exact result of each move, to DIR/GAME/sample-STONES.parquet, for evald train."`
	JSON   bool   `help:"Write JSON instead of tables."`
	processors
}

// proveConfig has the settings that a resumed run must share with the folder.
type proveConfig struct {
	Agent   string `json:"agent"`
	Network string `json:"network,omitempty"` // checksum of the agent's network
	Rules   string `json:"rules"`
	Side    string `json:"side"`
	From    string `json:"from"`
	Sample  int    `json:"sample,omitempty"`
}

// proveReport is what --json writes.
type proveReport struct {
	Agent string       `json:"agent"`
	Rules string       `json:"rules"`
	Side  string       `json:"side"`
	Games []provedGame `json:"games"`
}

// provedGame is the tree of all play from one position, in which the agent is to move or the game is over.
type provedGame struct {
	Moves string `json:"moves"` // from the empty board
	*prove.Report

	name  string // of its folder
	start game.Position
}

func (c *proveCmd) Run(ctx context.Context, s streams) error {
	if most := machineMemory(); c.Memory != 0 && (c.Memory < leastMemory || most > 0 && uint64(c.Memory) > most) {
		return usage("--memory %v: must be at least %v and at most %v, the memory of this machine", c.Memory, memory(leastMemory), memory(most))
	}
	board, err := boardOf(c.Rules)
	if err != nil {
		return err
	}
	spec, err := play.ParseAgent(c.Agent)
	if err == nil {
		err = spec.Deterministic()
	}
	if err != nil {
		return usageError{err}
	}
	books, err := c.books()
	if err != nil {
		return err
	}
	games, err := c.games(board, spec.Symmetric())
	if err != nil {
		return err
	}
	o := prove.Options{
		Board: board, Symmetric: spec.Symmetric(), Book: books(board.Rules()),
		Memory: int64(cmp.Or(c.Memory, min(1<<30, ownMemory()/2))), Sample: c.Sample,
	}
	shared := shareAgents(c.processors, s.err)
	for range runtime.GOMAXPROCS(0) {
		a, err := agent.New(spec, shared)
		if err == nil {
			err = agent.Supports(a, board)
		}
		if err != nil {
			return err
		}
		o.Agents = append(o.Agents, a)
	}
	config := proveConfig{Agent: spec.String(), Rules: c.Rules, Side: c.Side, From: c.From, Sample: c.Sample}
	if config.Network, err = networkOf(spec, board.Rules()); err != nil {
		return err
	}
	dir, err := durable.OpenDir(c.Out)
	if err != nil {
		return err
	}
	if err = durable.KeepConfig(dir.Path("prove.json"), config); err == nil {
		err = c.run(ctx, s, dir, games, o)
	}
	return errors.Join(err, dir.Close())
}

// run proves all games and writes the report. The caller holds the lock of dir.
func (c *proveCmd) run(ctx context.Context, s streams, dir *durable.Dir, games []provedGame, o prove.Options) error {
	progress := newProgress(s.err, 0)
	defer progress.clear()
	for i := range games {
		g := &games[i]
		o.Progress = func(work string, done, total int64) {
			progress.text(fmt.Sprintf("%s, %s: %d of %d positions", g.name, work, done, total))
		}
		var err error
		g.Report, err = prove.Run(ctx, dir.Path(g.name), g.start, o)
		progress.clear()
		if err := orInterrupted(ctx, err, s.err, "; the same command resumes it"); err != nil {
			return err
		}
		if !c.JSON {
			if err := g.write(s.out, dir); err != nil {
				return err
			}
		}
	}
	if !c.JSON {
		return nil
	}
	return writeJSON(s.out, proveReport{c.Agent, c.Rules, c.Side, games})
}

func (c *proveCmd) games(b *game.Board, symmetric bool) ([]provedGame, error) {
	at, moves, err := b.ParseMoves(c.From)
	if err == nil && b.Result(at) != game.Ongoing {
		err = errors.New("the game is over")
	}
	if err != nil {
		return nil, usage("--from %s: %w", c.From, err)
	}
	if (c.Side == "second") == (at.Plies()%2 == 1) {
		return []provedGame{{Moves: c.From, name: "game", start: at}}, nil
	}
	var games []provedGame
	seen := map[game.Position]bool{}
	for a := range b.Actions() {
		if !b.CanPlay(at, a) {
			continue
		}
		next := b.Play(at, a)
		key := next
		if symmetric {
			key, _ = b.Canonical(next)
		}
		if !seen[key] {
			seen[key] = true
			name := "game-" + game.FormatMoves(b.Rules(), []int{a})
			games = append(games, provedGame{Moves: game.FormatMoves(b.Rules(), append(moves[:len(moves):len(moves)], a)), name: name, start: next})
		}
	}
	return games, nil
}

// networkOf returns the checksum of the network with which the agent plays a game, or "" if this machine has no such network.
func networkOf(s agent.Spec, r game.Rules) (string, error) {
	model := cmp.Or(s.Model, open.Shipped(r))
	if sort := sortOf(model); s.Name != "policy" && s.Name != "mcts" || sort == open.SortHeuristic || sort == open.SortService {
		return "", nil
	}
	m, _, err := open.Any(model)
	return m.SHA256, err
}

// write writes the report of a game for people.
func (g *provedGame) write(w io.Writer, dir *durable.Dir) error {
	result := map[int]string{1: "a win, held", 0: "a draw, held", -1: "a loss, so there is nothing to hold"}[g.Result]
	if !g.Held {
		result = strings.Replace(result, "held", fmt.Sprintf("NOT HELD; first mistakes: %d, in %s", g.All.Mistakes, dir.Path(g.name, "mistakes-*.parquet")), 1)
	}
	if _, err := fmt.Fprintf(w, "after %s: %s\n", g.Moves, result); err != nil {
		return err
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tab, "stones\tpositions\twon\tdrawn\tlost\tfirst mistakes\t")
	row := func(name any, l prove.Layer) {
		fmt.Fprintf(tab, "%v\t%d\t%d\t%d\t%d\t%d\t\n", name, l.Positions, l.Won, l.Drawn, l.Lost, l.Mistakes)
	}
	for _, l := range g.Layers {
		row(l.Stones, l)
	}
	row("all", g.All)
	return tab.Flush()
}
