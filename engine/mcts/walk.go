package mcts

import (
	"errors"
	"math"

	"github.com/evald/evald/engine/game"
)

// Step is a node of Walk: a position that has visits. Values are for the side to move there.
type Step struct {
	Parent int // the number of the position before it, in the order of Walk; -1 at the root
	Action int // by which it was reached; -1 at the root
	Over   bool
	Visits int
	Value  float64 // mean of its visits, -1..1; the game's result if it is over
	Raw    float64 // the evaluator's answer, -1..1; 0 if the game is over
}

// Walk calls f for each position with visits, level by level, with the moves there, as MovesAfter has
// them, and with the number of the position after each move, or -1 if it has no visits. moves and next
// are valid until f returns. It is for plain searches without transpositions, in which every visit
// adds one position, so there are as many as the root has visits.
func (t *Tree) Walk(f func(s Step, moves []Move, next []int)) error {
	if !t.config.Plain || t.shares {
		return errors.New("mcts: only a search without lookahead and transpositions has a tree of positions")
	}
	if t.nodes[rootNode].visits == 0 {
		return nil
	}
	type entry struct {
		node           uint32
		parent, action int
	}
	queue := []entry{{rootNode, -1, -1}}
	var moves []Move
	var next []int
	for i := 0; i < len(queue); i++ {
		e := queue[i]
		n := &t.nodes[e.node]
		s := Step{e.parent, e.action, n.proof != open, int(n.visits), 0 - t.mean(n), 0}
		if !s.Over {
			s.Raw = t.raw(n)
		}
		moves, next = t.movesOf(n, moves[:0]), next[:0]
		for k := range moves {
			next = append(next, -1)
			if moves[k].Visits > 0 {
				next[k] = len(queue)
				queue = append(queue, entry{n.first + uint32(k), i, moves[k].Action})
			}
		}
		f(s, moves, next)
	}
	return nil
}

// Arrays are the trees of N searches with room for M positions each, under the names of mctx's Tree.
// A is the number of actions. Values are for the side to move at the position, and 0 where the game is
// over: the result is the reward of the move that ended it, for the side that made it. So the value of
// a move is children_rewards + children_discounts * children_values, as in mctx.
type Arrays struct {
	NodeVisits, Parents, ActionFromParent []int32   // [N,M]; 0, -1 and -1 where there is no position
	NodeValues, RawValues                 []float32 // [N,M]
	ChildrenIndex, ChildrenVisits         []int32   // [N,M,A]; an index is -1 for a move without visits
	ChildrenPriorLogits                   []float32 // [N,M,A] logarithms of priors; noLogit for illegal moves
	ChildrenRewards, ChildrenDiscounts    []float32 // [N,M,A] a discount is -1 for a move after which the other side moves, else 0
	ChildrenValues                        []float32 // [N,M,A]
}

// noLogit is mctx's logarithm of the prior 0.
const noLogit = -math.MaxFloat32

// Write fills row i of N with a tree, which must not have more than m visits.
func (a Arrays) Write(t *Tree, i, m int) error {
	actions, at := t.board.Actions(), i*m
	for k := at; k < at+m; k++ {
		a.Parents[k], a.ActionFromParent[k] = -1, -1
	}
	for k := at * actions; k < (at+m)*actions; k++ {
		a.ChildrenIndex[k], a.ChildrenPriorLogits[k] = -1, noLogit
	}
	return t.Walk(func(s Step, moves []Move, next []int) {
		a.NodeVisits[at], a.Parents[at], a.ActionFromParent[at] = int32(s.Visits), int32(s.Parent), int32(s.Action)
		if !s.Over {
			a.NodeValues[at], a.RawValues[at] = float32(s.Value), float32(s.Raw)
		}
		for k, move := range moves {
			c := at*actions + move.Action
			a.ChildrenIndex[c], a.ChildrenVisits[c] = int32(next[k]), int32(move.Visits)
			if move.Prior > 0 {
				a.ChildrenPriorLogits[c] = float32(math.Log(move.Prior))
			}
			switch {
			case move.Visits == 0:
			case move.Result == game.Ongoing:
				a.ChildrenDiscounts[c], a.ChildrenValues[c] = -1, float32(0-move.Q)
			default:
				a.ChildrenRewards[c] = float32(move.Result.Value())
			}
		}
		at++
	})
}
