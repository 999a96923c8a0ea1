package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/evald/evald/cmd/evald/internal/analyze"
	"github.com/evald/evald/cmd/evald/internal/stream"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
)

// searching are the flags of commands that search.
type searching struct {
	Visits    int    `default:"800" help:"Visits of each position's root."`
	Selection string `enum:"puct,uct,gumbel" default:"puct" help:"How visits choose among moves: ${enum}."`
	Batch     int    `default:"256" help:"Leaves that are evaluated together."`
	Seed      uint64 `help:"Of uct's and gumbel's random choices."`
}

func (f searching) config() mcts.Config {
	c := mcts.DefaultConfig()
	c.Visits, c.Seed = f.Visits, f.Seed
	switch f.Selection {
	case "uct":
		c.Selection = mcts.UCT
	case "gumbel":
		c.Selection = mcts.Gumbel
	}
	c.MaxNodes = max(c.MaxNodes, 1<<10)
	return c
}

// searchCmd is `evald search`.
type searchCmd struct {
	backend
	searching
	File string `arg:"" optional:"" help:"Positions, one a line, as for evald eval. Standard input where it is missing or -."`
}

// Run searches each line's position. Positions that wait together are searched together, so that they fill batches.
func (c *searchCmd) Run(ctx context.Context, s streams) error {
	e, err := c.choose(s.err)
	if err != nil {
		return err
	}
	in, err := openFile(c.File, s.in)
	if err != nil {
		return err
	}
	defer in.Close()
	r := &searchRun{searchCmd: c, evaluator: e, out: bufio.NewWriter(s.out)}
	reader := stream.NewReader(ctx, in)
	progress := newProgress(s.err, 0)
	defer progress.clear()
	var lines []stream.Line
	for more := true; more; {
		lines, more, err = reader.Next(lines[:0], c.Batch)
		// What was read is answered, also after an interrupt.
		if err := errors.Join(r.answer(context.WithoutCancel(ctx), lines), r.out.Flush(), err); err != nil {
			return err
		}
		progress.text(fmt.Sprintf("%d positions", r.total))
	}
	if r.bad > 0 {
		fmt.Fprintf(s.err, "evald: %d of %d lines refused; their answers say why\n", r.bad, r.total)
		return errBadLines
	}
	return nil
}

type searchRun struct {
	*searchCmd
	evaluator  choice
	out        *bufio.Writer
	total, bad int
}

// searched is the answer to one line, as JSON.
type searched struct {
	Line int `json:"line"`
	analyze.Answer
}

func (r *searchRun) answer(ctx context.Context, lines []stream.Line) error {
	states, trees := make([]game.State, len(lines)), make([]*mcts.Tree, len(lines))
	byGame := map[game.Rules][]*mcts.Tree{}
	var parser game.Parser
	for i := range lines {
		state, err := lines[i].Parse(&parser)
		if err != nil {
			continue
		}
		states[i] = state
		if state.Board.Result(state.Position) != game.Ongoing {
			continue
		}
		t, err := mcts.New(state.Board, r.config())
		if err != nil {
			return err
		}
		t.Reset(state.Position)
		trees[i] = t
		byGame[state.Board.Rules()] = append(byGame[state.Board.Rules()], t)
	}
	for _, group := range byGame {
		if err := mcts.Search(ctx, r.evaluator, group, mcts.Limits{Visits: r.Visits, Batch: r.Batch}); err != nil {
			return err
		}
	}
	for i := range lines {
		r.total++
		var text []byte
		if err := lines[i].Err; err != nil {
			r.bad++
			text = marshalLine(refused{lines[i].Number, err.Error()})
		} else {
			text = marshalLine(searched{lines[i].Number, analyze.Describe(lines[i].Text, r.evaluator.modelOn(states[i].Board.Rules()), states[i], trees[i])})
		}
		if _, err := r.out.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// refused is the answer to a line that has none.
type refused struct {
	Line  int    `json:"line"`
	Error string `json:"error"`
}
