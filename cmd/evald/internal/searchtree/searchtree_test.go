package searchtree

import (
	"encoding/xml"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts"
)

var update = flag.Bool("update", false, "write the golden files anew")

// search searches a position with bitsquares.
func search(t *testing.T, text string, visits int) (game.State, *mcts.Tree) {
	t.Helper()
	s := gametest.Must(new(game.Parser).Parse(text))(t)
	e := gametest.Must(heuristic.New(eval.Bitsquares))(t)
	c := mcts.DefaultConfig(mcts.PUCT)
	c.MaxNodes = mcts.NodesFor(s.Board, visits)
	tree := gametest.Must(mcts.New(s.Board, c))(t)
	tree.Reset(s.Position)
	gametest.OK(t, mcts.Search(t.Context(), e, []*mcts.Tree{tree}, mcts.Limits{Visits: visits, Batch: 1}))
	return s, tree
}

func describe(t *testing.T, text string, visits int, show Bounds) *Tree {
	t.Helper()
	s, tree := search(t, text, visits)
	return Describe(text, s, tree, show)
}

// each calls f with all shown moves, parents first.
func each(moves []*Node, depth int, f func(n *Node, depth int)) {
	for _, n := range moves {
		f(n, depth)
		each(n.Moves, depth+1, f)
	}
}

// What is shown is within the bounds, and is what the tree says of those moves.
func TestBounds(t *testing.T) {
	s, tree := search(t, "445", 2000)
	for _, show := range []Bounds{{1, 1, 100}, {4, 20, 60}, {30, 1, 500}, {5, 1, 7}, {3, 100000, 50}, {0, 1, 5}, {5, 1, 0}} {
		d := Describe("445", s, tree, show)
		shown := 0
		each(d.Moves, 1, func(n *Node, depth int) {
			shown++
			if depth > show.Depth || n.Visits < show.Visits && n.Proved == "" && !n.Line || n.Player != 1+(s.Position.Plies()+depth-1)%2 || len(n.path) != depth {
				t.Fatalf("%+v: depth %d, %+v", show, depth, n)
			}
			at := slices.IndexFunc(tree.MovesAfter(n.path[:depth-1], nil), func(m mcts.Move) bool { return m.Action == n.path[depth-1] })
			if m := tree.MovesAfter(n.path[:depth-1], nil)[at]; m.Visits != n.Visits || m.Q != n.Value || m.Prior != n.Prior {
				t.Fatalf("%v: %+v, want %+v", n.path, n, m)
			}
			if n.Left+len(n.Moves) != len(tree.MovesAfter(n.path, nil)) {
				t.Fatalf("%v: %d shown and %d left out", n.path, len(n.Moves), n.Left)
			}
		})
		if shown > show.Nodes || d.Left+len(d.Moves) != 7 {
			t.Errorf("%+v: %d moves", show, shown)
		}
	}
}

// The principal line is marked, and is there even if few visits followed it.
func TestPrincipalLine(t *testing.T) {
	d := describe(t, "445", 3000, Bounds{20, 1 << 20, 20})
	line := ""
	each(d.Moves, 1, func(n *Node, _ int) {
		if n.Line {
			line += n.Move
		}
	})
	if len(line) < 3 || !strings.HasPrefix(d.Line, line) {
		t.Errorf("line %s, want the start of %s", line, d.Line)
	}
}

// A won position has its proof and line, though the search keeps none of its moves.
func TestProved(t *testing.T) {
	d := describe(t, "121212", 50, Bounds{5, 1, 50})
	if d.Proved != "win" || d.Line != "1" || len(d.Moves) != 0 || d.ToMove != 1 {
		t.Errorf("%+v", d)
	}
	gametest.OK(t, xml.Unmarshal(d.SVG(), new(struct{})))
	d = describe(t, "12121", 500, Bounds{2, 1, 50})
	losses := 0
	each(d.Moves, 1, func(n *Node, depth int) {
		if depth == 1 && n.Proved == "loss" {
			losses++
		}
	})
	if losses != 6 {
		t.Errorf("%d moves are shown as losses, want all but the one that prevents the win", losses)
	}
}

func TestSVG(t *testing.T) {
	for name, d := range map[string]*Tree{
		"opening": describe(t, "44", 600, Bounds{4, 12, 40}),
		"free":    describe(t, "3x3x3free:51", 300, Bounds{3, 5, 25}),
	} {
		got := d.SVG()
		path := filepath.Join("testdata", name+".svg")
		if *update {
			gametest.OK(t, os.WriteFile(path, got, 0o644))
		}
		if diff := cmp.Diff(string(gametest.Must(os.ReadFile(path))(t)), string(got)); diff != "" {
			t.Errorf("%s (-want +got; go test ./cmd/evald/internal/searchtree -update writes it anew):\n%s", path, diff)
		}
		gametest.OK(t, xml.Unmarshal(got, new(struct{})))
	}
}
