package service

import (
	"context"
	"fmt"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/mcts"
)

// searchModel is the name of the model that searches with the first configured model.
const searchModel = "search"

// keptForest is the maximum size in bytes of trees that a pool keeps for the next search. Otherwise each request of few visits would cost a
// garbage collection.
const keptForest = 16 << 20

// firstReport is the number of visits, summed over the positions of a request, at which a search first reports results. It reports again
// whenever this number has doubled.
const firstReport = 64

// search searches each position of a batch in a tree of its own, and writes the answers into the batch's rows. The leaves of all searches
// share batches. With r.progress it also reports intermediate results; rows that have not begun have no visits.
func (s *Server) search(ctx context.Context, m *model, r *request, b *eval.Batch, names []string) (*found, error) {
	visits, actions := r.search.Visits, b.Board.Actions()
	limits := mcts.Limits{Visits: visits, Batch: max(1, min(m.MaxRows, len(b.Pos)))} // each tree has one leaf in progress
	config := r.search.Config(m.evaluator.Backend())
	r.rule = r.search.Rule(m.evaluator.Backend(), b.Board)
	f := founds.Get().(*found)
	f.visits, f.q = zeros(f.visits, actions*len(b.Pos)), zeros(f.q, actions*len(b.Pos))
	forest, _ := s.forests.Get().(*mcts.Forest)
	if forest == nil {
		forest = new(mcts.Forest)
	}
	if r.work <= keptForest {
		defer s.forests.Put(forest)
	}
	report, total := firstReport, 0 // visits at which to report next, and visits so far
	if r.progress {
		limits.Report = firstReport
		clear(b.WDL)
		clear(b.Policy)
		clear(b.Source)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var moves []mcts.Move
	err := mcts.SearchBatch(ctx, r.evaluator(m, r.caller(true), nil), b, config, limits, forest, func(row int, t *mcts.Tree) {
		moves = t.Moves(moves[:0])
		for _, move := range moves {
			total += move.Visits - int(f.visits[row*actions+move.Action])
			f.visits[row*actions+move.Action], f.q[row*actions+move.Action] = int32(move.Visits), float32(move.Q)
		}
		if so := total + len(b.Pos); r.progress && so >= report && so < len(b.Pos)*visits { // the visits of moves do not include the first visit of each root
			report = 2 * so
			r.answer = encode(m.Version, names, b, f, r.wrong)
			err := r.report()
			r.answer.release()
			if err != nil {
				cancel()
			}
		}
	})
	if err != nil {
		founds.Put(f)
		return nil, fmt.Errorf("search: %w", err)
	}
	m.stats.answered(b.Source)
	return f, nil
}
