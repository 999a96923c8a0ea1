package main

import (
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/evald/evald/cmd/evald/internal/searchtree"
	"github.com/evald/evald/engine/mcts"
)

// treeFile has the flags that write a search tree to a file.
type treeFile struct {
	Tree       string `type:"path" placeholder:"FILE" help:"Also write the search tree of the only position, as SVG if FILE ends in .svg, else as JSON: visits, prior, value and proof of each move, and the principal line. A value is for the player who makes the move."`
	TreeDepth  int    `range:"1 to 128" needs:"tree" default:"4" help:"Depth of the tree, in moves from the position."`
	TreeVisits int    `range:"0 to 67108864" needs:"tree" help:"Minimum number of visits of a move in the tree, unless it is proved or on the principal line. 0 is a hundredth of --visits."`
	TreeNodes  int    `range:"1 to 5000" needs:"tree" default:"200" help:"Maximum number of moves in the tree; those after positions with more visits come first."`
}

// check refuses names that end neither in .svg nor in .json.
func (f treeFile) check() error {
	switch ending := strings.ToLower(filepath.Ext(f.Tree)); {
	case f.Tree == "", ending == ".svg", ending == ".json":
		return nil
	}
	return usage("--tree %s: must end with .svg or .json", f.Tree)
}

// keep stores the part of a line's tree that --tree shows.
func (r *searchRun) keep(l *searchLine, t *mcts.Tree) {
	if r.Tree == "" {
		return
	}
	least := r.TreeVisits
	if least == 0 {
		least = max(1, r.Visits/100)
	}
	tree := searchtree.Describe(l.Text, l.state, t, searchtree.Bounds{Depth: r.TreeDepth, Visits: least, Nodes: r.TreeNodes})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tree = tree
}

// write writes the tree to the file. t is nil if no position was searched.
func (f treeFile) write(t *searchtree.Tree) error {
	if t == nil {
		return errors.New("--tree: no position was searched, because the input has none whose game is not over")
	}
	text := t.SVG()
	if strings.EqualFold(filepath.Ext(f.Tree), ".json") {
		var err error
		if text, err = json.MarshalIndent(t, "", " "); err != nil {
			return err
		}
		text = append(text, '\n')
	}
	return outFile{Out: f.Tree}.write(nil, func(out io.Writer) error {
		_, err := out.Write(text)
		return err
	})
}
