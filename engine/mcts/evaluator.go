package mcts

import (
	"context"
	"fmt"
	"sync"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// searcher is a backend that answers each position by a search of its own: the policy is Tree.Policy with temperature 1, the
// value Tree.WDL. The searches of a batch together fill the batches of the evaluator behind them.
type searcher struct {
	next   *eval.Evaluator
	config Config
	limits Limits
	forest sync.Pool // of *Forest
}

// NewEvaluator makes an Evaluator that answers each position by a search of its own, with Source eval.Searched. The searches
// ask next. limits.Visits must be 2 or more. The error names what is out of range.
func NewEvaluator(next *eval.Evaluator, c Config, limits Limits) (*eval.Evaluator, error) {
	if limits.Visits < 2 || limits.Batch < 1 {
		return nil, fmt.Errorf("mcts: %d visits in batches of %d: a policy needs 2 visits or more, a batch 1 row", limits.Visits, limits.Batch)
	}
	if err := limits.validate(); err != nil {
		return nil, err
	}
	return eval.New(&searcher{next: next, config: c, limits: limits}, eval.Options{OwnRules: true}), nil
}

// forestSize is how many trees a searcher searches at once, fewer if they would need more than forestNodes nodes together. No
// answer depends on it.
const (
	forestSize  = 256
	forestNodes = 1 << 24
)

// treesAtOnce is how many trees of a board are searched at once.
func (e *searcher) treesAtOnce(b *game.Board) int {
	return max(1, min(forestSize, forestNodes/min(e.config.MaxNodes, NodesFor(b, e.limits.Visits))))
}

// Attributes implements eval.Backend.
func (e *searcher) Attributes() eval.Attributes {
	return eval.Attributes{Rows: forestSize, Invariant: true}
}

// Compute implements eval.Backend.
func (e *searcher) Compute(ctx context.Context, b *eval.Batch) error {
	forest, _ := e.forest.Get().(*Forest)
	if forest == nil {
		forest = new(Forest)
	}
	defer e.forest.Put(forest)
	return searchParts(ctx, e.next, b, e.treesAtOnce(b.Board), e.config, e.limits, forest, nil)
}

// Forest is trees, and other memory, that searches use one after the other. The zero value has none. One goroutine may use it
// at a time.
type Forest struct {
	trees []*Tree
	waves []*wave
	todo  []*Tree

	// of the batch that is being searched: the trees and rows of the positions whose games are not over
	searched []*Tree
	rows     []int
}

// SearchBatch is one Evaluate of NewEvaluator, for callers who want more of a search than its answer: found, unless it is
// nil, sees the tree of each row that was searched, in their order, and can read its moves with their visits and values.
// AtOnce rows are searched at a time, in the trees of the forest. After 1 visit the policy is even over the moves that are
// not known to lose.
func SearchBatch(ctx context.Context, next *eval.Evaluator, b *eval.Batch, c Config, limits Limits, forest *Forest, found func(row int, t *Tree)) error {
	if err := b.Ready(ctx); err != nil {
		return err
	}
	return searchParts(ctx, next, b, AtOnce(len(b.Pos), limits.Batch), c, limits, forest, found)
}

// AtOnce is how many of n rows SearchBatch searches at a time: enough for two full batches.
func AtOnce(n, batch int) int { return min(n, max(forestSize, 2*batch)) }

// searchParts searches so many rows at a time.
func searchParts(ctx context.Context, next *eval.Evaluator, b *eval.Batch, size int, c Config, limits Limits, forest *Forest, found func(row int, t *Tree)) error {
	for from := 0; from < len(b.Pos); from += size {
		part := b.Slice(from, min(from+size, len(b.Pos)))
		err := searchBatch(ctx, next, &part, c, limits, forest, func(row int, t *Tree) {
			if found != nil {
				found(from+row, t)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// searchBatch searches each row in a tree of the forest, which grows as needed.
func searchBatch(ctx context.Context, next *eval.Evaluator, b *eval.Batch, c Config, limits Limits, forest *Forest, found func(int, *Tree)) error {
	trees, rows := forest.searched[:0], forest.rows[:0]
	for i, p := range b.Pos {
		breathe(i)
		if b.AnswerTerminal(i) {
			continue
		}
		t, err := forest.tree(len(trees), b.Board, c)
		if err != nil {
			return err
		}
		t.Reset(p)
		trees, rows = append(trees, t), append(rows, i)
	}
	forest.searched, forest.rows = trees, rows
	if err := searchWith(ctx, next, trees, limits, forest); err != nil {
		return err
	}
	for k, i := range rows {
		breathe(k)
		trees[k].WDL(b.WDLRow(i))
		trees[k].Policy(b.PolicyRow(i), 1)
		b.Source[i] = eval.Searched
		found(i, trees[k])
	}
	return nil
}

// tree is tree k of the forest, for a board and a configuration. The forest has k trees or more.
func (f *Forest) tree(k int, board *game.Board, c Config) (*Tree, error) {
	if k < len(f.trees) && f.trees[k].board.Rules() == board.Rules() && f.trees[k].config == c {
		return f.trees[k], nil
	}
	t, err := New(board, c)
	if err != nil {
		return nil, err
	}
	if k < len(f.trees) {
		f.trees[k] = t
	} else {
		f.trees = append(f.trees, t)
	}
	return t, nil
}
