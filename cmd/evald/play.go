package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/evald/evald/cmd/evald/internal/gamefile"
	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/nn/open"
)

type playCmd struct {
	Agent    []string `complete:"levels" sep:"none" placeholder:"AGENT" help:"Your opponent: a level or an agent of the lists above, such as casual or mcts:model=NAME,visits=800. With --side none it may be given twice; the first one begins. Default: strong."`
	Side     string   `enum:"first,second,both,none" default:"first" help:"Which side you play: ${enum}."`
	Rules    string   `placeholder:"7x6x4" help:"The game: columns x rows x in-a-row; 3x3x3free is without gravity."`
	Position string   `placeholder:"MOVES" help:"Begin after these moves: 44554, or with the game 9x5x4:4455."`
	From     string   `type:"path" placeholder:"FILE" without:"position,rules" help:"Continue the game in a file of --save."`
	Save     string   `type:"path" placeholder:"FILE" help:"When you quit, write the last game to this file: rules, moves, players, result and date. All commands that read positions read it."`
	Evaluate string   `placeholder:"NAME|PATH" help:"Network or heuristic (${heuristicsInWords}) of the search that evaluates each move. Default: the network default on 7x6x4, any on the other boards that evald model show any lists, and the heuristic bitsquares on the rest."`
	Quiet    bool     `help:"Begin without the evaluation of the moves."`
	Seed     uint64   `help:"Random seed of agents without one."`
	Plain    bool     `help:"Play in lines of text, a move or a command each (help lists them). Default if input or output is no terminal, or TERM is dumb."`
	processors
}

func (*playCmd) Help() string { return new(matchCmd).Help() }

func (c *playCmd) Run(ctx context.Context, s streams) error {
	board, start, err := c.game()
	if err != nil {
		return err
	}
	config := play.Config{Board: board, Start: start, Evaluate: !c.Quiet, Book: solver.ShippedBook(board.Rules())}
	from := backend{Backend: "auto", Model: c.Evaluate, processors: c.processors}
	if sortOf(c.Evaluate) == open.SortHeuristic {
		from.processors = processors{} // they are for the agents' networks
	}
	e, err := from.choose(s.err)
	if err != nil {
		return fmt.Errorf("--evaluate: %w", err)
	}
	defer e.Close()
	if err := e.Supports(board); err != nil {
		return fmt.Errorf("--evaluate: %w", err)
	}
	config.Evaluator, config.Search = e.Evaluator, e.ModelOn(config.Board.Rules())
	if config.Players, err = c.players(board, shareAgents(c.processors, s.err)); err != nil {
		return err
	}
	if c.Evaluate != "" {
		config.Flags = append(config.Flags, "--evaluate", c.Evaluate)
	}
	if c.Save != "" {
		config.Save = func(moves []int, first, second play.Player) error {
			return c.save(&gamefile.Game{Board: board, Moves: moves, First: first.Name, Second: second.Name, Date: time.Now()})
		}
	}
	typed := isTerminal(s.in) && isTerminal(s.out)
	if typed && !c.Plain && os.Getenv("TERM") != "dumb" {
		out := s.out
		if b, ok := out.(beside); ok {
			out = b.File // the game uses the whole terminal
		}
		return play.Run(ctx, config, s.in, out)
	}
	lines := play.DefaultLines
	if typed {
		lines.Prompt = "> "
	}
	return play.Plain(ctx, config, lines, s.in, s.out)
}

// save writes the file of a game.
func (c *playCmd) save(g *gamefile.Game) error {
	text, err := g.Format()
	if err != nil {
		return fmt.Errorf("--save: %w", err)
	}
	return outFile{Out: c.Save}.write(nil, func(out io.Writer) error {
		_, err := out.Write(text)
		return err
	})
}

func (c *playCmd) game() (*game.Board, []int, error) {
	if c.From != "" {
		file, err := os.Open(c.From)
		if err != nil {
			return nil, nil, fmt.Errorf("--from: %w", err)
		}
		defer file.Close()
		g, err := gamefile.Read(file)
		if err != nil {
			return nil, nil, fmt.Errorf("--from %s: %w", c.From, err)
		}
		return g.Board, g.Moves, nil
	}
	rules, moves, flag := c.Rules, c.Position, "--rules"
	if prefix, rest, found := strings.Cut(c.Position, ":"); found && !strings.HasPrefix(prefix, "{") {
		if rules != "" && rules != prefix {
			return nil, nil, usage("--rules %s, --position %s: two different games", c.Rules, c.Position)
		}
		rules, moves, flag = prefix, rest, "--position"
	}
	board, err := new(game.Boards).Parse(cmp.Or(rules, game.Connect4.String()))
	if err != nil {
		return nil, nil, usage("%s: %w", flag, err)
	}
	if moves == "" {
		return board, nil, nil
	}
	_, start, err := board.ParseMoves(moves)
	if err != nil {
		return nil, nil, usage("--position: %w", err)
	}
	return board, start, nil
}

func (c *playCmd) players(board *game.Board, shared agent.Shared) (players [2]play.Player, err error) {
	you, names := play.Player{Name: "you"}, c.Agent
	if len(names) == 0 {
		names = []string{"strong"} // beats most people
	}
	if len(names) > 2 || len(names) == 2 && c.Side != "none" {
		return players, usage("%d agents: one plays against you, two play with --side none", len(names))
	}
	if c.Side == "both" {
		if len(c.Agent) > 0 {
			return players, usage("--side both is for two people: no --agent plays")
		}
		return [2]play.Player{{Name: "person"}, {Name: "person"}}, nil
	}
	first, err := c.player(names[0], board, shared)
	if err != nil {
		return players, err
	}
	switch c.Side {
	case "first":
		return [2]play.Player{you, first}, nil
	case "second":
		return [2]play.Player{first, you}, nil
	}
	second, err := c.player(names[len(names)-1], board, shared) // a separate agent, even if it is the same kind
	return [2]play.Player{first, second}, err
}

func (c *playCmd) player(text string, board *game.Board, shared agent.Shared) (play.Player, error) {
	spec, err := play.ParseAgent(text)
	if err != nil {
		return play.Player{}, usage("--agent: %w", err)
	}
	if spec.Seed == 0 {
		spec.Seed = c.Seed
	}
	a, err := agent.New(spec, shared)
	if err == nil {
		err = agent.Supports(a, board)
	}
	if err != nil {
		return play.Player{}, fmt.Errorf("--agent: %w", err)
	}
	return play.Player{Name: play.LevelOf(text), Agent: a}, nil
}
