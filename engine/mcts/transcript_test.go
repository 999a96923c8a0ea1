package mcts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
)

// Each file of testdata shows searches step by step: commands, and below ---- what they show. The files explain themselves.
// go test ./engine/mcts -run TestTranscripts -rewrite writes what the commands show now. Check each new number by hand.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			command := map[string]func(*testing.T, *datadriven.TestData) string{
				"new": s.begin, "descend": s.descend, "expand": s.expand, "abandon": s.abandon, "visit": s.visit, "search": s.search,
				"tree": s.tree, "scores": s.scores, "result": s.result, "advance": s.advance,
			}[d.Cmd]
			if command == nil {
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			return command(t, d)
		})
	})
}

// script is the state of a transcript.
type script struct {
	*Tree
	under map[string]*Leaf // leaves under way, by the name that descend gave them
	named int              // how many leaves have had a name
}

// begin is "new RULES:MOVES SELECTION OPTION=VALUE..": a new tree. It shows the board. C is 1, and all other options are off
// unless they are named.
func (s *script) begin(t *testing.T, d *datadriven.TestData) string {
	c := Config{C: 1, Discount: 1, Alpha: 1, Moves: 16, Visits: 16, CVisit: 50, CScale: 1, GumbelScale: 1, MaxNodes: 1000}
	var parser game.Parser
	at, err := parser.Parse(d.CmdArgs[0].Key)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	for _, arg := range d.CmdArgs[1:] {
		option := map[string]any{
			"c": &c.C, "fpu": &c.FPU, "discount": &c.Discount, "noise": &c.Noise, "alpha": &c.Alpha, "forced": &c.ForcedPlayouts,
			"moves": &c.Moves, "visits": &c.Visits, "nodes": &c.MaxNodes, "seed": &c.Seed,
		}[arg.Key]
		switch {
		case option != nil:
			d.ScanArgs(t, arg.Key, option)
		case arg.Key == "flat":
			c.FlatPriors = true
		case arg.Key == "transpositions":
			c.Transpositions = true
		default:
			c.Selection = Selection(slices.Index([]string{"puct", "uct", "gumbel"}, arg.Key))
		}
	}
	tree, err := New(at.Board, c)
	if err != nil {
		return err.Error()
	}
	tree.Reset(at.Position)
	s.Tree, s.under, s.named = tree, map[string]*Leaf{}, 0
	return drawBoard(tree.board, tree.root)
}

// descend makes one visit. A leaf that wants an evaluation is named by the next letter.
// Descend makes one visit; see arrive.
func (t *Tree) Descend(leaf *Leaf) (wants, free bool) {
	t.begin(context.Background(), leaf)
	for t.step(leaf) {
	}
	return t.arrive(leaf)
}

func (s *script) descend(*testing.T, *datadriven.TestData) string {
	leaf := new(Leaf)
	switch wants, free := s.Descend(leaf); {
	case wants:
		name := string(rune('a' + s.named))
		s.under[name] = leaf
		s.named++
		return fmt.Sprintf("leaf %s: %s, %s to move", name, s.way(leaf), stone(leaf.Position.Mover()))
	case free:
		return "known by the rules: " + s.way(leaf) + "\n" + s.text(s.rows(leaf))
	}
	return "nothing is free: every way leads to a leaf that is under way"
}

// expand is "expand LEAF value=V draw=D policy=(P..) network": the answer of an evaluator, a heuristic or a network, for the
// side to move at the leaf. It shows the nodes of the leaf's path. Without a policy all legal moves have the same prior.
func (s *script) expand(t *testing.T, d *datadriven.TestData) string {
	leaf := s.take(t, d)
	value, draw, source := 0.0, 0.0, eval.Bitsquares
	policy := s.uniform(leaf.Position)
	d.MaybeScanArgs(t, "value", &value)
	d.MaybeScanArgs(t, "draw", &draw)
	if d.HasArg("policy") {
		shares := make([]float64, len(policy))
		d.ScanArgs(t, "policy", &shares)
		for i, p := range shares {
			policy[i] = float32(p)
		}
	}
	if d.HasArg("network") {
		source = eval.CPU
	}
	s.Expand(leaf, triple(value, draw), policy, source)
	return s.text(s.rows(leaf))
}

// abandon is "abandon LEAF": the leaf is taken back.
func (s *script) abandon(t *testing.T, d *datadriven.TestData) string {
	leaf := s.take(t, d)
	s.Abandon(leaf)
	return s.text(s.rows(leaf))
}

// visit is "visit N": N visits, one after the other. It shows the way of each. A line "WAY: VALUE" below the command gives the
// value, for the side to move at the root, of all leaves whose way begins like this; the last such line counts. Other leaves
// have the value 0. All moves of a leaf have the same prior.
func (s *script) visit(t *testing.T, d *datadriven.TestData) string {
	n, err := strconv.Atoi(d.CmdArgs[0].Key)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	var out strings.Builder
	for range n {
		leaf := new(Leaf)
		wants, free := s.Descend(leaf)
		if !free {
			return out.String() + "nothing is free"
		}
		fmt.Fprint(&out, s.way(leaf))
		if wants {
			value := 0.0
			for line := range strings.Lines(d.Input) {
				begin, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
				v, err := strconv.ParseFloat(text, 64)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				if strings.HasPrefix(s.way(leaf), begin) {
					value = v
				}
			}
			if leaf.depth%2 == 1 {
				value = -value
			}
			s.Expand(leaf, triple(value, 0), s.uniform(leaf.Position), eval.Bitsquares)
		} else {
			fmt.Fprint(&out, ": known by the rules")
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}

// search is "search visits=N leaves=N batch=N decide": Search, with an evaluator that gives every position the value 0 and all
// moves the same prior.
func (s *script) search(t *testing.T, d *datadriven.TestData) string {
	limits := Limits{Batch: 1, Decide: d.HasArg("decide")}
	d.MaybeScanArgs(t, "visits", &limits.Visits)
	d.MaybeScanArgs(t, "leaves", &limits.Leaves)
	d.MaybeScanArgs(t, "batch", &limits.Batch)
	alike := evaltest.Stub{After: func(b *eval.Batch) {
		for i, p := range b.Pos {
			copy(b.WDLRow(i), triple(0, 0))
			copy(b.PolicyRow(i), s.uniform(p))
			b.Source[i] = eval.Uniform
		}
	}}
	if err := Search(t.Context(), evaltest.Raw(&alike), []*Tree{s.Tree}, limits); err != nil {
		return err.Error()
	}
	var batches []string
	for sizes := alike.Sizes(); len(sizes) > 0; {
		n := 1
		for n < len(sizes) && sizes[n] == sizes[0] {
			n++
		}
		batches = append(batches, fmt.Sprintf("%d of %d", n, sizes[0]))
		sizes = sizes[n:]
	}
	return fmt.Sprintf("batches: %s\n%d visits, %d nodes", cmp.Or(strings.Join(batches, ", "), "none"), s.Visits(), s.Nodes())
}

// advance is "advance MOVE". It shows how many nodes are kept.
func (s *script) advance(t *testing.T, d *datadriven.TestData) string {
	_, actions, err := s.board.ParseMoves(d.CmdArgs[0].Key)
	if err != nil || len(actions) != 1 {
		d.Fatalf(t, "%q is not a move", d.CmdArgs[0].Key)
	}
	had := s.Nodes()
	s.Advance(actions[0])
	return fmt.Sprintf("%d of %d nodes are kept\n%s", s.Nodes(), had, drawBoard(s.board, s.root))
}

// take is the leaf that a command names.
func (s *script) take(t *testing.T, d *datadriven.TestData) *Leaf {
	leaf := s.under[d.CmdArgs[0].Key]
	if leaf == nil {
		d.Fatalf(t, "no leaf %q is under way", d.CmdArgs[0].Key)
	}
	delete(s.under, d.CmdArgs[0].Key)
	return leaf
}

// uniform is the policy that gives all legal moves the same prior.
func (s *script) uniform(p game.Position) []float32 {
	policy := make([]float32, s.board.Actions())
	for l := s.board.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
		policy[s.board.Action(l.First())] = 1 / float32(s.board.Legal(p).OnesCount())
	}
	return policy
}

// triple is the probabilities of win, draw and loss that have this value.
func triple(value, draw float64) []float32 {
	return []float32{float32(1-draw+value) / 2, float32(draw), float32(1-draw-value) / 2}
}
