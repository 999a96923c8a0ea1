package main

import (
	"context"
	"io"

	"github.com/evald/evald/cmd/evald/internal/analyze"
	"github.com/evald/evald/engine/mcts"
)

type analyzeCmd struct {
	backend
	searching
	anyPosition
	outFile
	AtOnce int    `range:"1 to 1048576" aliases:"parallel" default:"512" help:"Positions searched at once; fewer where their trees would have more than 16 million nodes together."`
	Queue  int    `range:"1 to 1073741824" default:"10000" help:"Queries that may wait; where there are as many, reading waits too."`
	Format string `enum:"jsonl,table" default:"jsonl" help:"Output: ${enum}. A table is for people; it has the best line of each answer, the moves that the search expects."`
	File   string `arg:"" optional:"" help:"Queries, one a line. Standard input where it is missing or -."`
}

func (*analyzeCmd) Help() string {
	return `A query is a JSON object on a line of its own:
  - id: text that the answers repeat
  - moves: the position, columns in the order of play, such as "44554", "-" or "9x5x4:4455"
  - rules: of moves without a prefix, such as "9x5x4"
  - board, mark: in place of moves, Kaggle's observation, with rows, columns, inarow, gravity where they differ
  - visits: of the root, in place of --visits
  - exact: probes of leaves, in place of --exact: true, false, or a number of nodes
  - seconds: the search ends after this time too
  - priority: a whole number; higher ones begin first
  - report_every: seconds; what is known so far, again and again

{"id":"t","action":"terminate","terminate_id":"a"} ends the search of a query, {"id":"t","action":"terminate_all"}
all of them; they are answered with what they have. Answers are those of evald search, with the id, the seconds and
"ended", which says why: visits, seconds, proved, game over, terminated. Reports have no "ended".

A tree has room for all visits of its query, up to 16 million nodes, which are a million visits of 7x6 or more; where the
query has seconds, for a million nodes. What comes after counts, and makes the tree no larger.

An interrupt drops the queries that wait and terminates the others a second later.`
}

func (c *analyzeCmd) Run(ctx context.Context, s streams) error {
	e, err := c.choose(s.err)
	if err != nil {
		return err
	}
	defer e.Close()
	search := c.config(e.Evaluator)
	search.MaxNodes = mcts.NodesAtOnce
	return c.answer(ctx, s, c.File, "queries", func(in io.Reader, out io.Writer) (tally, error) {
		done, err := analyze.Run(ctx, analyze.Config{
			Evaluator: e.Evaluator, Model: e.ModelOn, Search: search, Parallel: c.AtOnce, Batch: c.Batch, Leaves: c.Leaves, Queue: c.Queue,
			Table: c.Format == "table", AnyPosition: c.AnyPosition,
		}, in, out)
		return tally{done.Queries, done.Refused, done.GivenUp}, err
	})
}
