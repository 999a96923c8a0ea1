package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/engine/solver"
)

// SolveSet is a set of positions to solve, each with an empty table.
type SolveSet struct {
	Name   string
	States []game.State
	Scores []int // the exact scores, or nil if unknown
	Public float64
}

// SolveFigure is the measurement of a set.
type SolveFigure struct {
	Set           string  `json:"set"`
	Positions     int     `json:"positions"`
	Nodes         uint64  `json:"nodes"`         // sum over all positions; it changes only with the search algorithm
	Wrong         int     `json:"wrong"`         // number of scores that differ from the known ones; -1 if none are known
	MeanSeconds   float64 `json:"mean_seconds"`  // per position
	MeanNodes     float64 `json:"mean_nodes"`    // calls of the search function per position
	NodesPerSec   float64 `json:"nodes_per_sec"` // of one thread
	PublicNodes   float64 `json:"public_nodes,omitempty"`
	MedianSeconds float64 `json:"median_seconds"`
}

// publicNodes are the lowest mean numbers of nodes that public solvers report for Pascal Pons' sets, with his way of counting.
var publicNodes = map[string]float64{
	"Test_L3_R1": 51, "Test_L2_R1": 309, "Test_L2_R2": 9400, "Test_L1_R1": 3300, "Test_L1_R2": 372e3, "Test_L1_R3": 4.4e6,
}

// BuiltInSets returns sets of pseudo-random positions of 7x6x4, from late to early ones, the same each time.
func BuiltInSets() []SolveSet {
	board := game.MustBoard(game.Connect4)
	var sets []SolveSet
	for _, s := range []struct {
		name     string
		plies, n int
	}{{"late, 30 plies", 30, 300}, {"middle, 22 plies", 22, 200}, {"early, 16 plies", 16, 30}} {
		set := SolveSet{Name: s.name}
		for _, p := range randomPositions(board, uint64(s.plies), s.plies, s.n) {
			set.States = append(set.States, game.State{Board: board, Position: p, Mark: p.Mover()})
		}
		sets = append(sets, set)
	}
	return sets
}

// ReadSet reads lines of moves and a score: all of them if most is 0, else the first most.
func ReadSet(path string, most int) (SolveSet, error) {
	f, err := os.Open(path)
	if err != nil {
		return SolveSet{}, err
	}
	defer f.Close()
	name := strings.TrimSuffix(filepath.Base(path), "_first500")
	set := SolveSet{Name: name, Public: publicNodes[name]}
	var parser game.Parser
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan() && (most == 0 || len(set.States) < most); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		state, err := parser.Parse(words[0])
		if err != nil {
			return SolveSet{}, fmt.Errorf("%s line %d: %w", path, n, err)
		}
		set.States = append(set.States, state)
		if len(words) > 1 {
			score, err := strconv.Atoi(words[1])
			if err != nil {
				return SolveSet{}, fmt.Errorf("%s line %d: score %s is not a whole number", path, n, short.Quote(words[1]))
			}
			set.Scores = append(set.Scores, score)
		}
	}
	if err := lines.Err(); err != nil {
		return SolveSet{}, fmt.Errorf("%s: %w", path, err)
	}
	if len(set.States) == 0 || set.Scores != nil && len(set.Scores) != len(set.States) {
		return SolveSet{}, fmt.Errorf("%s: %d positions with %d scores; want lines of moves and score", path, len(set.States), len(set.Scores))
	}
	return set, nil
}

// Solve measures a set with one thread and no book. The time for emptying the table does not count.
func Solve(ctx context.Context, set SolveSet, tableMiB int, progress Progress) (SolveFigure, error) {
	f := SolveFigure{Set: set.Name, Positions: len(set.States), PublicNodes: set.Public, Wrong: -1}
	if set.Scores != nil {
		f.Wrong = 0
	}
	var s *solver.Solver
	var seconds []float64
	total := 0.0
	for i, state := range set.States {
		var err error
		if s == nil || s.Board().Rules() != state.Board.Rules() {
			if s, err = solver.New(state.Board, solver.Options{TableMiB: tableMiB, Threads: 1}); err != nil {
				return f, err
			}
		}
		s.Reset()
		start := time.Now()
		r, err := s.Solve(ctx, state.Position)
		if err != nil {
			return f, err
		}
		took := time.Since(start).Seconds()
		seconds, total, f.Nodes = append(seconds, took), total+took, f.Nodes+r.Nodes
		if set.Scores != nil && r.Score != set.Scores[i] {
			f.Wrong++
		}
		progress.show("%s: %d of %d", set.Name, i+1, len(set.States))
	}
	n, nodes := float64(len(set.States)), float64(f.Nodes)
	f.MeanSeconds, f.MedianSeconds, f.MeanNodes, f.NodesPerSec = total/n, median(seconds), nodes/n, nodes/total
	return f, nil
}

// SolveTable writes figures as a table.
func SolveTable(w io.Writer, figures []SolveFigure) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "set\tpositions\twrong\tmean time\tmean nodes\tbest public\tnodes/s\t")
	for _, f := range figures {
		wrong, public := "-", "-"
		if f.Wrong >= 0 {
			wrong = strconv.Itoa(f.Wrong)
		}
		if f.PublicNodes > 0 {
			public = si(f.PublicNodes)
		}
		took := time.Duration(f.MeanSeconds * float64(time.Second))
		fmt.Fprintf(t, "%s\t%d\t%s\t%v\t%s\t%s\t%s\t\n", f.Set, f.Positions, wrong, took.Round(max(took/1000, 1)), si(f.MeanNodes), public, si(f.NodesPerSec))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "signature: %d nodes\n", signature(figures))
	return err
}

// signature returns the sum of all nodes. With one thread it is the same on every machine, so it shows whether the search has changed.
func signature(figures []SolveFigure) uint64 {
	var nodes uint64
	for _, f := range figures {
		nodes += f.Nodes
	}
	return nodes
}
