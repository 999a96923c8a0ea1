package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/evald/evald/cmd/evald/internal/analyze"
	"github.com/evald/evald/engine/ask"
)

type analyzeCmd struct {
	backend
	ask.Search
	anyPosition
	outFile
	AtOnce int    `range:"1 to 1048576" aliases:"parallel" default:"512" help:"Maximum number of positions searched at once. Together their trees have at most 16 million nodes."`
	Queue  int    `range:"1 to 1073741824" default:"10000" help:"Maximum number of queries that wait. At this number evald pauses reading."`
	Format string `enum:"jsonl,table" default:"jsonl" help:"Output: ${enum}. A table is for people, and shows the moves that the search expects."`
	File   string `arg:"" optional:"" help:"Queries, one a line. Default, or -: standard input."`
}

func (*analyzeCmd) Help() string {
	return fmt.Sprintf(`A query is a JSON object on a line of its own:
  - id: text that is repeated in the answers
  - moves: the position, columns in the order of play, such as "44554", "-" or "9x5x4:4455"
  - rules: the game of moves without a prefix, such as "9x5x4"
  - board, mark: Kaggle's observation, instead of moves; rows, columns, inarow, gravity if they differ from 7x6x4
  - %s: of this search, instead of the flags of these names
  - seconds: a time limit of the search
  - priority: a whole number; queries with a higher one begin first
  - report_every: seconds between reports of the search so far

{"id":"t","action":"terminate","terminate_id":"a"} ends one search and {"id":"t","action":"terminate_all"} ends all;
each is answered with its results so far. An answer has the fields of evald search, the id, the seconds, and the reason
why the search ended in "ended": visits, seconds, proved, game over, or terminated. Reports have no "ended".

A tree has room for all visits of its query, or for a million nodes if the query has seconds. If that is more than 16
million nodes, the query is searched alone. When a tree is full, further visits count, but add no nodes.

An interrupt drops the queries that wait, and terminates the others a second later.`, strings.Join(ask.Names(ask.Queries), ", "))
}

func (c *analyzeCmd) Run(ctx context.Context, s streams) error {
	e, err := c.choose(s.err)
	if err != nil {
		return err
	}
	defer e.Close()
	return c.answer(ctx, s, c.File, "queries", func(in io.Reader, out io.Writer) (tally, error) {
		done, err := analyze.Run(ctx, analyze.Config{
			Evaluator: e.Evaluator, Model: e.ModelOn, Search: c.Search, Parallel: c.AtOnce, Queue: c.Queue,
			Table: c.Format == "table", AnyPosition: c.AnyPosition,
		}, in, out)
		return tally{done.Queries, done.Refused, done.GivenUp}, err
	})
}
