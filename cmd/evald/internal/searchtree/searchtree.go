// Package searchtree describes the most visited part of a search tree as JSON, for programs and the page, and as SVG.
package searchtree

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
)

// Bounds limit the part of a tree that is shown.
type Bounds struct {
	Depth  int `json:"depth"`  // maximum number of moves from the root
	Visits int `json:"visits"` // minimum number of visits of a move, except on the principal line, and except for proved moves that were visited or are moves of the root
	Nodes  int `json:"nodes"`  // maximum number of moves; those after positions with more visits are preferred
}

// Tree is the shown part of a search. Values are -1..1.
type Tree struct {
	Position string  `json:"position"` // of the root: rules and moves, or as it was given
	ToMove   int     `json:"to_move"`  // 1 or 2
	Visits   int     `json:"visits"`
	Value    float64 `json:"value"`            // for the player to move
	Proved   string  `json:"proved,omitempty"` // win, draw or loss, for the player to move
	Line     string  `json:"pv"`               // principal variation, in the notation of moves; the tree may end before it
	Shown    Bounds  `json:"shown"`
	Moves    []*Node `json:"moves"`    // the most visited first
	Left     int     `json:"left_out"` // number of moves of the root that are not shown
}

// Node is a move, with the search's results for the position after it.
type Node struct {
	Move   string  `json:"move"`
	Player int     `json:"player"` // the player who makes the move: 1, who moved first, or 2
	Visits int     `json:"visits"`
	Prior  float64 `json:"prior"`            // the move's prior in the search, from the evaluator's policy
	Value  float64 `json:"value"`            // for the player who makes the move; 0 without visits and proof
	Proved string  `json:"proved,omitempty"` // win, draw or loss, for the player who makes the move
	Plies  int     `json:"plies,omitempty"`  // if proved: maximum number of moves to the end of the game, including this one
	Line   bool    `json:"line,omitempty"`   // whether it is on the principal line
	Moves  []*Node `json:"moves,omitempty"`  // the most visited first
	Left   int     `json:"left_out,omitempty"`

	path []int
}

// Describe returns the part of a search tree within bounds. text is the position as Tree shows it.
func Describe(text string, s game.State, t *mcts.Tree, show Bounds) *Tree {
	rules := s.Board.Rules()
	pv := t.Line(nil)
	tree := &Tree{Position: text, ToMove: s.Mark, Visits: t.Visits(), Value: t.Value(), Line: game.FormatMoves(rules, pv), Shown: show, Moves: []*Node{}}
	if r := t.Result(); r != game.Ongoing {
		tree.Proved = r.String()
	}
	shown := 0
	// grow returns the shown moves after a path, and the number of the moves that are left out.
	grow := func(path []int, player int) (nodes []*Node, left int) {
		onLine := len(path) < len(pv) && slices.Equal(path, pv[:len(path)])
		moves := t.MovesAfter(path, nil)
		slices.SortStableFunc(moves, func(a, b mcts.Move) int {
			mine := func(m mcts.Move) int {
				if onLine && m.Action == pv[len(path)] {
					return 1
				}
				return 0
			}
			return cmp.Or(mine(b)-mine(a), b.Visits-a.Visits, cmp.Compare(b.Prior, a.Prior))
		})
		for _, m := range moves {
			main := onLine && m.Action == pv[len(path)]
			if len(path) == show.Depth || shown == show.Nodes || m.Visits < show.Visits && !main && (m.Result == game.Ongoing || m.Visits == 0 && len(path) > 0) {
				left++
				continue
			}
			shown++
			n := &Node{
				Move: game.FormatMoves(rules, []int{m.Action}), Player: player, Visits: m.Visits, Prior: m.Prior, Value: m.Q, Plies: m.Plies, Line: main,
				path: append(path[:len(path):len(path)], m.Action),
			}
			if m.Result != game.Ongoing {
				n.Proved = m.Result.String()
			}
			nodes = append(nodes, n)
		}
		return nodes, left
	}
	var wait queue
	add := func(nodes []*Node) {
		for _, n := range nodes {
			heap.Push(&wait, n)
		}
	}
	moves, left := grow(nil, s.Mark)
	tree.Moves, tree.Left = append(tree.Moves, moves...), left
	for add(moves); len(wait) > 0; {
		n := heap.Pop(&wait).(*Node)
		n.Moves, n.Left = grow(n.path, 3-n.Player)
		add(n.Moves)
	}
	return tree
}

// queue is a heap: nodes of the principal line first, then those with more visits, then those nearer to the root.
type queue []*Node

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	a, b := q[i], q[j]
	if a.Line != b.Line {
		return a.Line
	}
	return cmp.Or(b.Visits-a.Visits, len(a.path)-len(b.path), slices.Compare(a.path, b.path)) < 0
}
func (q *queue) Push(x any) { *q = append(*q, x.(*Node)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
