package mcts

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/cockroachdb/datadriven"

	"github.com/evald/evald/engine/game"
)

// row is a line of a table: a node and how a transcript names it.
type row struct {
	node  *node
	way   []string // the moves that lead to it, such as x1 o2
	mover int      // who made the last of them: 1 or 2
	twin  string   // the way to another node with the same moves, if that was shown before
}

// way is the moves that lead to a leaf, such as x1 o2.
func (s *script) way(leaf *Leaf) string { return name(s.rows(leaf)[leaf.depth].way) }

// rows are the nodes of a leaf's path.
func (s *script) rows(leaf *Leaf) []row {
	rows := []row{{node: &s.nodes[rootNode], mover: 3 - s.root.Mover()}}
	for d := 1; d <= leaf.depth; d++ {
		rows = append(rows, s.child(rows[d-1], leaf.path[d]))
	}
	return rows
}

func (s *script) child(r row, at uint32) row {
	n := &s.nodes[at]
	move := stone(3-r.mover) + game.FormatMoves(s.board.Rules(), []int{int(n.action)})
	return row{node: n, way: append(slices.Clone(r.way), move), mover: 3 - r.mover}
}

// tree shows the moves of the root, and below them the nodes that have visits, finished or under way, or a proof. "tree all"
// shows all nodes, "tree moves" the root and its moves.
func (s *script) tree(_ *testing.T, d *datadriven.TestData) string {
	rows := s.allRows()
	return s.text(slices.DeleteFunc(rows, func(r row) bool {
		idle := r.node.visits == 0 && r.node.pending == 0 && r.node.proof == open
		return len(r.way) > 1 && (d.HasArg("moves") || idle && !d.HasArg("all"))
	}))
}

// allRows is all nodes from the root on, each before its moves. If several nodes share their moves, these follow the first.
func (s *script) allRows() (rows []row) {
	shown := map[uint32]string{}
	var add func(r row)
	add = func(r row) {
		r.twin = shown[r.node.first]
		rows = append(rows, r)
		if r.node.first == 0 || r.twin != "" {
			return
		}
		shown[r.node.first] = name(r.way)
		for i := range uint32(r.node.count) {
			add(s.child(r, r.node.first+i))
		}
	}
	add(row{node: &s.nodes[rootNode], mover: 3 - s.root.Mover()})
	return rows
}

// text is a table of nodes. Each value says whose it is.
func (s *script) text(rows []row) string {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "move\tvisits\tvalue\tprior\t")
	for _, r := range rows {
		n, move, value, prior := r.node, "root", "", ""
		if n.visits > 0 || n.proof != open {
			value = signed(s.mean(n)) + " for " + stone(r.mover)
		}
		if depth := len(r.way); depth > 0 {
			move, prior = strings.Repeat("  ", depth)+r.way[depth-1], fmt.Sprintf("%.4f", n.prior)
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", move, n.visits, value, prior, s.remarks(r))
	}
	table.Flush()
	return trimRight(out.String())
}

// remarks is what only some nodes have.
func (s *script) remarks(r row) string {
	var all []string
	n := r.node
	if n.pending > 0 {
		all = append(all, fmt.Sprintf("%d under way", n.pending))
	}
	switch n.proof {
	case won:
		all = append(all, fmt.Sprintf("%s wins, %d to go", stone(r.mover), n.plies))
	case lost:
		all = append(all, fmt.Sprintf("%s wins, %d to go", stone(3-r.mover), n.plies))
	case drawn:
		all = append(all, fmt.Sprintf("a draw, %d to go", n.plies))
	}
	if n.first != 0 && n.raw != unevaluated {
		all = append(all, "evaluated "+signed(float64(n.raw)/rawUnit))
	}
	if r.twin != "" {
		all = append(all, "has the moves of "+r.twin)
	}
	return strings.Join(all, ", ")
}

// scores shows by what Gumbel chooses at the root.
func (s *script) scores(*testing.T, *datadriven.TestData) string {
	var values, policy [game.MaxBits]float64
	root := &s.nodes[rootNode]
	s.completed(root, &values)
	s.improved(root, &policy)
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "move\tvisits\tnoise\tlog prior\tscaled value\tsum\timproved policy\t")
	for i := range int(root.count) {
		c := &s.nodes[root.first+uint32(i)]
		fmt.Fprintf(table, "%s\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.4f\n", game.FormatMoves(s.board.Rules(), []int{int(c.action)}), c.visits,
			s.gumbel.noise[i], logit(c), values[i], s.sampled(root, i)+values[i], policy[i])
	}
	table.Flush()
	return fmt.Sprintf("%sdue visits of the moves considered, from the first on: %v", trimRight(out.String()), s.gumbel.sequence)
}

// result shows what the tree says of its root.
func (s *script) result(*testing.T, *datadriven.TestData) string {
	wdl, policy := make([]float32, 3), make([]float32, s.board.Actions())
	s.WDL(wdl)
	s.Policy(policy, 1)
	return fmt.Sprintf("for %s, who is to move: %v, value %s, win %.4f, draw %.4f, loss %.4f\nbest %s, line %s, policy %.4f\n%d visits, %d nodes",
		stone(s.root.Mover()), s.Result(), signed(s.Value()), wdl[0], wdl[1], wdl[2],
		game.FormatMoves(s.board.Rules(), []int{s.Best()}), game.FormatMoves(s.board.Rules(), s.Line(nil)), policy, s.Visits(), s.Nodes())
}

// drawBoard draws the stones. x is the player with the first move of the game. Without gravity empty cells show their numbers.
func drawBoard(b *game.Board, p game.Position) string {
	var out strings.Builder
	x, o := p.Own, p.Other()
	if p.Mover() == 2 {
		x, o = o, x
	}
	for r := b.Rows() - 1; r >= 0; r-- {
		for c := range b.Columns() {
			cell := "."
			switch i := b.Index(c, r); {
			case x.Has(i):
				cell = stone(1)
			case o.Has(i):
				cell = stone(2)
			case !b.Rules().Gravity:
				cell = game.FormatMoves(b.Rules(), []int{b.Action(i)})
			}
			fmt.Fprint(&out, cell)
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}

func stone(player int) string { return [...]string{1: "x", 2: "o"}[player] }

func name(way []string) string {
	if len(way) == 0 {
		return "root"
	}
	return strings.Join(way, " ")
}

// signed is a value with four decimals, without the sign of a rounded zero.
func signed(v float64) string {
	if math.Abs(v) < 0.00005 {
		v = 0
	}
	return fmt.Sprintf("%+.4f", v)
}

func trimRight(s string) string {
	var out strings.Builder
	for line := range strings.Lines(s) {
		fmt.Fprintln(&out, strings.TrimRight(line, " \n"))
	}
	return out.String()
}
