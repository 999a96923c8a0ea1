package service

import (
	"context"
	"fmt"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/mcts"
)

// searchModel is the name under which the first model is searched with.
const searchModel = "search"

// search searches each position of a batch in a tree of its own, and writes the answers into the batch's rows. The leaves of
// all searches share batches.
func (s *Server) search(ctx context.Context, m *model, g *generation, c *call, b *eval.Batch) (*found, error) {
	visits := c.visits
	if visits == 0 {
		visits = s.config.Search.Visits
	}
	actions := b.Board.Actions()
	nodes := mcts.NodesFor(b.Board, visits) // of a tree
	bytes := len(b.Pos) * mcts.TreeBytes(b.Board, visits)
	if most := s.memory.most(); int64(bytes) > most {
		return nil, invalid("%d positions of %d visits take %d MiB, more than the %d that a request may have: ask for fewer", len(b.Pos), visits, bytes>>20, most>>20)
	}
	if err := c.paid.take(bytes); err != nil {
		return nil, err
	}
	defer c.paid.give(bytes)

	config := mcts.DefaultConfig()
	config.Visits, config.MaxNodes = visits, nodes
	var trees []*mcts.Tree
	var rows []int
	for i, p := range b.Pos {
		if b.AnswerTerminal(i) {
			continue
		}
		t, err := mcts.New(b.Board, config)
		if err != nil {
			return nil, err
		}
		t.Reset(p)
		trees, rows = append(trees, t), append(rows, i)
	}
	if len(trees) > 0 {
		limits := mcts.Limits{Visits: visits, Batch: min(s.config.Batching.MaxRows, len(trees))} // each tree has one leaf under way
		if err := mcts.Search(ctx, g.leaves, trees, limits); err != nil {
			return nil, fmt.Errorf("search: %w", err)
		}
	}
	f := &found{make([]int32, actions*len(b.Pos)), make([]float32, actions*len(b.Pos))}
	for k, i := range rows {
		t := trees[k]
		t.WDL(b.WDLRow(i))
		t.Policy(b.PolicyRow(i), 1)
		b.Source[i] = eval.Searched
		for _, move := range t.Moves(nil) {
			f.visits[i*actions+move.Action], f.q[i*actions+move.Action] = int32(move.Visits), float32(move.Q)
		}
	}
	m.stats.answered(b.Source)
	return f, nil
}
