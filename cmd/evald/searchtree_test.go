package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evald/evald/cmd/evald/internal/searchtree"
	"github.com/evald/evald/engine/game/gametest"
)

// The tree has the visits of the answer beside it, within the bounds of the flags.
func TestSearchTree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tree.json")
	args := strings.Fields("search --backend bitsquares --visits 400")
	out := must(t, "445\n", append(args, "--tree", path, "--tree-depth", "2", "--tree-nodes", "12", "--tree-visits", "1")...)
	var answer struct {
		Visits []int
		Best   int
		PV     string
	}
	var tree searchtree.Tree
	gametest.OK(t, json.Unmarshal([]byte(out), &answer))
	gametest.OK(t, json.Unmarshal(gametest.Must(os.ReadFile(path))(t), &tree))
	if out != must(t, "445\n", args...) {
		t.Error("--tree changes the answer")
	}
	nodes := len(tree.Moves)
	for _, m := range tree.Moves {
		nodes += len(m.Moves)
		if m.Visits != answer.Visits[m.Move[0]-'1'] || m.Player != 2 || m.Line != (m.Move[0]-'0' == byte(answer.Best)) {
			t.Errorf("%+v, want the answer's visits %v", m, answer.Visits)
		}
		for _, reply := range m.Moves {
			if len(reply.Moves) > 0 {
				t.Errorf("%s%s: the tree is deeper than 2", m.Move, reply.Move)
			}
		}
	}
	if nodes != 12 || tree.Line != answer.PV || tree.Position != "445" || tree.ToMove != 2 {
		t.Errorf("%d moves, %+v", nodes, tree)
	}
	path = filepath.Join(t.TempDir(), "tree.svg")
	must(t, "445\n", append(args, "--tree", path)...)
	if svg := string(gametest.Must(os.ReadFile(path))(t)); !strings.HasPrefix(svg, "<svg ") || !strings.Contains(svg, "Search tree of 445: 400 visits") {
		t.Error(svg)
	}
	refuses(t, exitUsage, "must end with .svg or .json", "44\n", append(args, "--tree", "tree.png")...)
	refuses(t, exitUsage, "--tree-depth", "44\n", append(args, "--tree-depth", "3")...)
	for in, want := range map[string]string{
		"44\n45\n":  "evald: line 2: --tree is for one position, which is that of line 1\n",
		"4151617\n": "evald: --tree: no position was searched, because the input has none whose game is not over\n",
	} {
		path := filepath.Join(t.TempDir(), "none.svg")
		status, _, stderr := evald(t, in, append(args, "--tree", path)...)
		if _, err := os.Stat(path); status != exitBadInput || stderr != want || err == nil {
			t.Errorf("%q: status %d, errors %q, file: %v", in, status, stderr, err)
		}
	}
}
