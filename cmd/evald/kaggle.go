package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"github.com/evald/evald/cmd/evald/internal/kaggle"
	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/nn/open"
)

type kaggleCmd struct {
	Serve kaggleServeCmd `cmd:"" help:"Serve an agent at a URL, for any number of games at once."`
	Act   kaggleActCmd   `cmd:"" help:"Answer observations, one JSON object a line, as the child process of a submission."`
	Pack  kagglePackCmd  `cmd:"" help:"Pack this program and an agent into an archive to submit."`
}

// kaggleAgent has the flag of the agent.
type kaggleAgent struct {
	Agent string `placeholder:"SPEC" default:"solver:time=2s" help:"Agent or level, as in evald help match, such as proven or mcts:model=PATH,time=1s. Default: the exact solver; with more than 42 empty cells, or if half of the time is not enough for it, a search with the network that ships. Its time per move is at most that of the game, less a reserve."`
}

func (c kaggleAgent) players(s streams, games int) (*kaggle.Players, agent.Spec, error) {
	spec, err := play.ParseAgent(c.Agent)
	if err != nil {
		return nil, spec, usage("--agent: %w", err)
	}
	shared := shareAgents(processors{}, s.err)
	players, err := kaggle.NewPlayers(spec, shared, games)
	return players, shared.Choose(spec), err
}

type kaggleServeCmd struct {
	kaggleAgent
	Listen string `placeholder:"HOST:PORT" default:"127.0.0.1:8080" help:"Listen address, without encryption or password; port 0 is any free one."`
	AtOnce int    `range:"1 to 1048576" aliases:"games" default:"8" help:"Maximum number of moves computed at once; other requests wait. A long search takes up to 300 MiB, and the solver takes 256 MiB more on boards of more than 42 cells."`
}

func (c *kaggleServeCmd) Run(ctx context.Context, s streams) error {
	players, spec, err := c.players(s, c.AtOnce)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", c.Listen, err)
	}
	notes := log.New(s.err, "evald: ", 0)
	notes.Printf("%s plays at http://%s/", spec, l.Addr())
	return kaggle.Serve(ctx, l, kaggle.Handler{Players: players, Log: notes})
}

type kaggleActCmd struct{ kaggleAgent }

func (c *kaggleActCmd) Run(ctx context.Context, s streams) error {
	players, _, err := c.players(s, 1)
	if err != nil {
		return err
	}
	bad, err := kaggle.Act(ctx, s.in, s.out, players, log.New(s.err, "evald: ", 0))
	if err == nil && bad > 0 {
		return errBadLines
	}
	return err
}

type kagglePackCmd struct {
	kaggleAgent
	Out    string `short:"o" aliases:"output" type:"path" placeholder:"FILE" default:"submission.tar.gz" help:"The archive (${default})."`
	Binary string `type:"path" placeholder:"FILE" help:"The program to pack, for linux/amd64. Default: this one."`
}

// Run writes the archive after the packed program has played a move.
func (c *kagglePackCmd) Run(ctx context.Context, s streams) error {
	spec, err := play.ParseAgent(c.Agent)
	if err != nil {
		return usage("--agent: %w", err)
	}
	if c.Binary == "" {
		if c.Binary, err = os.Executable(); err != nil {
			return err
		}
	}
	if _, n, err := open.Any(spec.Model); spec.Model != "" && err == nil && n.Runtime() != "" {
		return fmt.Errorf("agent %s: an archive for Kaggle has no %s, which its network needs: name one of evald's own", spec, n.Runtime())
	}
	p, err := kaggle.Pack(ctx, kaggle.Submission{Agent: spec, Model: modelFile(spec.Model), Book: spec.Book, Program: c.Binary}, c.Out)
	if err != nil {
		return err
	}
	if p.Linked != "" {
		fmt.Fprintf(s.err, "evald: the program needs %s or later; one built with CGO_ENABLED=0 needs nothing, and evaluates networks ten to thirty times slower\n", p.Linked)
	}
	fmt.Fprintf(s.err, "evald: %s: %.1f MiB, agent %s; unpacked, it made the first move of a game in %v\n",
		c.Out, float64(p.Bytes)/(1<<20), p.Agent, p.Time.Round(time.Millisecond))
	return nil
}

// modelFile returns the path of an agent's model, or "" if the model is part of the program.
func modelFile(model string) string {
	if sortOf(model) != open.SortNetwork {
		return ""
	}
	if m, ok, err := open.Find(model); err == nil && ok {
		return m.Path
	}
	return model
}
