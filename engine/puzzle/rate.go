package puzzle

import (
	"context"
	"math"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts"
)

// The scale of ratings.
const (
	Least       = 600     // the search plays the correct move at once
	PerDoubling = 100     // points for twice the visits
	MostVisits  = 1 << 12 // of the search
	Most        = 1900    // the search does not settle on the correct move
)

// rater rates puzzles of one board. It is not safe for concurrent use.
type rater struct {
	search *eval.Evaluator
	tree   *mcts.Tree
}

func newRater(b *game.Board) (*rater, error) {
	search, err := heuristic.New(eval.Bitsquares)
	if err != nil {
		return nil, err
	}
	c := mcts.DefaultConfig(mcts.PUCT)
	c.MaxNodes = mcts.NodesFor(b, MostVisits)
	tree, err := mcts.New(b, c)
	return &rater{search, tree}, err
}

// rate returns the rating of an unfinished position whose only correct move is given.
func (r *rater) rate(ctx context.Context, p game.Position, move int) (int, error) {
	found := 0 // visits from which on the search plays the move; 0 if it plays another one now
	r.tree.Reset(p)
	for step := 0; ; step++ {
		visits := int(math.Exp2(float64(step) / perOctave))
		if visits <= r.tree.Visits() {
			continue // small numbers would occur more than once
		}
		if err := mcts.Search(ctx, r.search, []*mcts.Tree{r.tree}, mcts.Limits{Visits: visits, Batch: 1}); err != nil {
			return 0, err
		}
		if r.tree.Best() != move {
			found = 0
		} else if found == 0 {
			found = visits
		}
		if visits >= MostVisits || r.tree.Result() != game.Ongoing {
			break
		}
	}
	if found == 0 {
		return Most, nil
	}
	return Least + int(math.Round(PerDoubling*math.Log2(float64(found))/10))*10, nil
}

// perOctave is the number of checks while the visits of the search double.
const perOctave = 8
