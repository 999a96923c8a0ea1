package answer

import (
	"cmp"
	"context"

	"github.com/evald/evald/cmd/evald/internal/searchtree"
	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
)

// treeRequest asks for the tree of a search.
type treeRequest struct {
	Position string `json:"position"`
	Model    string `json:"model"`    // which evaluates leaves; as of opinionRequest
	Visits   int    `json:"visits"`   // of the search; 0: treeVisits
	Depth    int    `json:"depth"`    // maximum depth shown, in moves; 0: treeDepth
	Nodes    int    `json:"nodes"`    // maximum number of moves shown; 0: treeNodes
	Least    int    `json:"least"`    // minimum number of visits of a move shown; 0: a hundredth of Visits
	Unproved bool   `json:"unproved"` // search as the papers do, without a solver and without looking ahead: nothing is proved
}

// Defaults and limits of a tree.
const (
	treeVisits, mostTreeVisits = 2000, 100_000
	treeDepth, mostTreeDepth   = 8, 40
	treeNodes, mostTreeNodes   = 200, 1000
)

// bounds fills in the defaults. The error names a field that is out of range.
func (q *treeRequest) bounds(l Limits) error {
	most := min(mostTreeVisits, l.Visits)
	q.Visits, q.Depth, q.Nodes = cmp.Or(q.Visits, min(treeVisits, most)), cmp.Or(q.Depth, treeDepth), cmp.Or(q.Nodes, treeNodes)
	q.Least = cmp.Or(q.Least, max(1, q.Visits/100))
	for _, n := range []struct {
		name        string
		value, most int
	}{{"visits", q.Visits, most}, {"depth", q.Depth, mostTreeDepth}, {"nodes", q.Nodes, mostTreeNodes}, {"least", q.Least, most}} {
		if n.value < 1 || n.value > n.most {
			return bad(n.name, "%s is %d, must be 1 to %d", n.name, n.value, n.most)
		}
	}
	return nil
}

// tree searches a position and answers with a part of the tree (searchtree.Tree). The search is the one of evald search with the same
// number of visits; if Limits.Time is over first, the tree has fewer visits.
func (a *Answerer) tree(ctx context.Context, q *treeRequest) (any, error) {
	b, moves, err := ParsePosition(q.Position)
	if err != nil {
		return nil, err
	}
	p := b.PlayMoves(moves)
	if b.Result(p) != game.Ongoing {
		return nil, bad("position", "the game is over")
	}
	if err := q.bounds(a.config.Limits); err != nil {
		return nil, err
	}
	e, err := a.evaluator(q.Model)
	if err != nil {
		return nil, err
	}
	asked := ctx
	ctx, end, err := a.begin(ctx, a.config.Limits.Time)
	if err != nil {
		return nil, err
	}
	defer end()
	search := ask.Search{Visits: q.Visits}
	if q.Unproved {
		search.Lookahead = new(bool)
	}
	t, err := mcts.New(b, search.Config(e.Backend()))
	if err != nil {
		return nil, err
	}
	t.Reset(p)
	err = mcts.Search(ctx, e, []*mcts.Tree{t}, mcts.Limits{Visits: q.Visits, Batch: 1})
	if err != nil && (t.Visits() == 0 || asked.Err() != nil || ctx.Err() == nil) {
		return nil, why(ctx, err)
	}
	state := game.State{Board: b, Position: p, Mark: p.Mover()}
	return searchtree.Describe(Canonical(b, moves), state, t, searchtree.Bounds{Depth: q.Depth, Visits: q.Least, Nodes: q.Nodes}), nil
}
