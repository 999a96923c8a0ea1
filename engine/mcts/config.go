// Package mcts is Monte Carlo tree search: a Tree, which is pure and deterministic, and a Search, which drives many trees with one batched
// evaluator.
//
// A Tree has no goroutine, no clock and no global random source. Its driver makes visits (begin, step, arrive), which find leaves that need
// an evaluation, and passes the answers to Expand. The same seed and answers give the same tree, bit for bit. The files of testdata show
// searches step by step.
//
// Read the files in this order:
//
//	config.go     Config: selection rules and their constants
//	tree.go       Tree: the pure core; root.go: the root's special treatment; gumbel.go: the selection of Gumbel;
//	              graph.go: transpositions
//	result.go     results of a tree; walk.go: all its positions; known.go: results of searches, by position
//	search.go     Limits, Search: many trees through one evaluator
//	lanes.go      trees that take turns on a core
//	scheduler.go  positions that arrive one after the other; clock.go: searches that end at a deadline
//	evaluator.go  a search as a Backend
//
// # Decisions
//
// A wave of leaves belongs to one tree (lanes.go). The tree chooses Limits.Leaves leaves, 1 unless the caller asks for more, and waits
// until all are answered; meanwhile each counts as a loss (virtual loss). So its result does not depend on other trees. If one tree had
// leaves in several batches at once, timing would affect which leaves it chooses.
//
// A worker descends eight trees in turns (lanes.go): it advances one tree by a step while the nodes of the others are loaded. The trees of
// many games do not fit a processor's caches, and a visit reads a chain of nodes.
//
// A tree itself looks two stones ahead (game.Board.Safe). Moves that let the other side win at once are lost before their first visit. If
// only one other move is left, the visit continues through it without an evaluation. UCT looks one stone ahead. With Config.Plain no search
// looks ahead: it is that of the papers, with which a network is judged by itself.
//
// A transposition is two nodes that share their moves (graph.go). The nodes remain moves in a flat arena, and each path to a position keeps
// its own visits. Paths share only the values; another path notices a proof at its next visit. Self-play does not use transpositions: it
// caches answers, and beside a fast device visits should cost little. engine/arena/LOG.md has the measured gain.
//
// A network's priors are flat (Config.FlatPriors): the square roots of its policy. Self-play uses the policy itself, because with flat
// priors the policy would become flatter in each generation. engine/score/LOG.md has the measured gain.
package mcts

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
)

// Selection is the rule by which a visit chooses among the moves of a node.
type Selection uint8

// The selection rules. n is the number of visits of a move, N that of its node, q the move's mean value in -1..1, p its prior.
const (
	// PUCT chooses the move that maximizes q + C * p * sqrt(N) / (1+n) (Silver et al., AlphaGo Zero, 2017).
	PUCT Selection = iota
	// UCT chooses the move that maximizes q + C * sqrt(ln N / n), untried moves first (Kocsis and Szepesvari, 2006).
	UCT
	// Gumbel samples some of the root's moves by prior and Gumbel noise. It repeatedly halves the sample; in each round the remaining moves
	// get equal numbers of visits. Below the root, visits follow a policy that the values have improved (Danihelka et al., Policy
	// improvement by planning with Gumbel, 2022).
	Gumbel
	// Flat is flat Monte Carlo: all moves of the root get equal shares of the visits, whatever their values, and the move with the best mean
	// is played. Below the root all moves are equally likely. So with random games as evaluator (heuristic.Rollout) a move's mean is, in
	// expectation exactly, the result of a game in which both sides play at random: the moves up to the first new position are random, and so
	// is the game from there. (Equal shares below the root would favour the first moves until a round is complete.) Ties go to the first
	// move in the order of Tree.Moves. It needs Plain.
	Flat
)

var selectionNames = []string{"puct", "uct", "gumbel", "flat"}

func (s Selection) String() string { return selectionNames[s] }

// Shares reports whether all orders of moves to a position can share its visits (Config.Transpositions).
func (s Selection) Shares() bool { return s == PUCT || s == Gumbel }

// ParseSelection is the inverse of String.
func ParseSelection(name string) (s Selection, ok bool) {
	i := slices.Index(selectionNames, name)
	return Selection(max(0, i)), i >= 0
}

// Config is the configuration of a Tree; DefaultConfig returns one to start from.
type Config struct {
	Selection Selection
	C         float64 // exploration constant of PUCT and UCT

	// FPU (first play urgency) lowers the value of moves without visits: q = (the node's value) - FPU * sqrt(sum of the priors of the moves
	// with visits). It does not apply at the root. PUCT only.
	FPU float64

	// FlatPriors makes the priors the square roots of a network's policy, scaled to sum to 1. A network that learns from searches is more
	// certain of its moves than is justified. With flat priors, searches of the shipped network choose better moves from about 400 visits
	// on, and equally good ones with fewer visits. The policy of a heuristic is used unchanged. PUCT only.
	FlatPriors bool

	// Transpositions lets all move orders that lead to a position share its moves and their values. Then no position is evaluated twice,
	// and the same number of visits finds more. Visits whose evaluation costs next to nothing take a quarter longer. PUCT and Gumbel only.
	Transpositions bool

	// Discount, 0.5..1, multiplies a value at each ply by which it is backed up, so that earlier wins and later losses are worth more. 1
	// means no discount.
	Discount float64

	// Noise, 0..1, mixes Dirichlet noise into the root's priors: p = (1-Noise) * p + Noise * Dirichlet(Alpha). PUCT only.
	Noise, Alpha float64

	// ForcedPlayouts gives each root move with a visit at least sqrt(ForcedPlayouts * p * N) visits (Wu, Accelerating
	// self-play learning in Go, 2019). 0 forces none. PUCT only.
	ForcedPlayouts float64

	// Moves is the number of root moves that Gumbel considers. Visits is the number of visits that it distributes among them.
	Moves, Visits int

	// CVisit and CScale are the paper's constants of Gumbel's scale of values relative to logits:
	// (CVisit + the most visits of a move) * CScale * q, where q is 0 for a loss and 1 for a win. With
	// Rescale, q is 0 for the node's least value and 1 for its largest. GumbelScale multiplies the noise
	// with which root moves are sampled; with 0 the search is the same for each Seed.
	CVisit, CScale, GumbelScale float64
	Rescale                     bool

	// Plain makes the search that of the papers: it looks no stone ahead and proves nothing. Each move
	// is a node, and a game that is over is a leaf with its result. All Visits are made. Exact and
	// RootNodes must be 0.
	Plain bool

	// Exact, if above 0 on the board (solver.Nodes.On), probes each position below the root at its first visit. If the probe finds the
	// result, the position is proved without an evaluation. The proof has no distance, so it counts as if the game lasted until the board
	// is full.
	Exact solver.Nodes

	// RootNodes is the maximum number of nodes with which solver.Prober.Away looks for root moves that give the root's result away. The
	// search omits these moves. With 0, or if Exact is 0 on the board, it omits none. PUCT only. RootNodesFor returns a suitable number for
	// a search.
	RootNodes int

	// MaxNodes bounds the number of nodes, and so the memory: a node takes 32 bytes, and there is one for each move of an expanded node.
	// 0 stands for NodesFor(board, Visits), with which all visits find room.
	// (With Transpositions, each position with moves takes 32 to 64 bytes more.) Once the tree has MaxNodes nodes, leaves are still
	// evaluated and counted, but get no moves. Advance keeps only a part of the nodes.
	MaxNodes int

	// Reserve is the number of nodes that are allocated at the start, so that no visit waits for the memory to grow.
	Reserve int

	Seed uint64
}

// DefaultConfig returns the configuration of a selection rule, without noise. UCT uses the exploration constant of its paper,
// and Flat is plain.
func DefaultConfig(s Selection) Config {
	c := Config{Selection: s, C: 1.5, FPU: 0.2, FlatPriors: true, Transpositions: true, Discount: 1, Alpha: 1, Moves: 16, Visits: 64, CVisit: 50, CScale: 1, GumbelScale: 1, MaxNodes: 1 << 20}
	switch s {
	case UCT:
		c.C = math.Sqrt2
	case Flat:
		c.Plain = true
	}
	return c
}

// For adapts the configuration to a backend: PUCT uses the backend's search constants, if it has any.
func (c Config) For(b eval.Backend) Config {
	if own := b.Attributes().Search; own != nil && c.Selection == PUCT {
		c.C, c.FPU = own.CPUCT, own.FPU
	}
	return c
}

// RootNodesFor returns the RootNodes for a search with the given number of visits: about 4,000 per visit, at most 262,144. With the
// maximum, no search gave away the result of any of 3,000 positions of 7x6 (engine/score/LOG.md, "Probes"). The values are powers of two,
// so there are few; each needs its own tables.
func RootNodesFor(visits int) int {
	return solver.MoveNodes >> (7 - min(bits.Len(uint(max(1, visits))), 7))
}

// NodesFor returns a Config.MaxNodes that suffices for the given number of visits. A visit gives moves to its leaf, and to each node on the
// forced line to it. So up to a fifth more nodes get moves than there are visits; in a tree of few visits, one line may be as long as the
// board.
func NodesFor(b *game.Board, visits int) int {
	return min(2*(visits+b.Cells())*(b.Actions()+1), maxNodes)
}

const maxNodes = 1 << 31

// TreeBytes is the maximum size in bytes of a tree with the given number of visits and of a leaf. Nodes use about half of the memory that
// NodesFor allows; growing slices and the table of positions use the other half.
func TreeBytes(b *game.Board, visits int) int {
	return NodesFor(b, visits)*int(unsafe.Sizeof(node{})) + int(unsafe.Sizeof(Tree{})+unsafe.Sizeof(Leaf{})) + 2<<10
}

// Check returns nil, or the error of New with this configuration.
func (c Config) Check(b *game.Board) error {
	_, err := c.complete(b)
	return err
}

// complete checks the configuration of a tree of b, and returns it with its MaxNodes.
func (c Config) complete(b *game.Board) (Config, error) {
	if c.MaxNodes == 0 {
		c.MaxNodes = NodesFor(b, c.Visits)
	}
	for _, f := range []struct {
		name     string
		value    float64
		min, max float64
	}{
		{"C", c.C, 0, 1e6},
		{"FPU", c.FPU, -2, 2},
		{"Discount", c.Discount, 0.5, 1},
		{"Noise", c.Noise, 0, 1},
		{"Alpha", c.Alpha, 1e-6, 1e6},
		{"ForcedPlayouts", c.ForcedPlayouts, 0, 1e6},
		{"Selection", float64(c.Selection), 0, float64(Flat)},
		{"CVisit", c.CVisit, 0, 1e6},
		{"CScale", c.CScale, 0, 1e6},
		{"GumbelScale", c.GumbelScale, 0, 1e6},
		{"Reserve", float64(c.Reserve), 0, 1 << 31},
		{"Exact", float64(c.Exact), float64(solver.ByBoard), solver.MostNodes},
		{"RootNodes", float64(c.RootNodes), 0, float64(RootNodesFor(math.MaxInt))},
		{"MaxNodes", float64(c.MaxNodes), float64(b.Actions() + 1), maxNodes},
	} {
		if !(f.value >= f.min && f.value <= f.max) {
			return c, fmt.Errorf("mcts: %s is %v, must be %v to %v", f.name, f.value, f.min, f.max)
		}
	}
	if c.Plain && (c.Exact.On(b) > 0 || c.RootNodes > 0) {
		return c, errors.New("mcts: a search without lookahead proves nothing: it cannot use a solver (exact)")
	}
	if c.Selection == Flat && !c.Plain {
		return c, errors.New("mcts: flat Monte Carlo (selection flat) gives all moves equal shares, so it has neither lookahead nor a solver (exact): leave both out")
	}
	if c.Selection == Gumbel && (c.Moves < 1 || c.Visits < 1) {
		return c, fmt.Errorf("mcts: Gumbel with %d moves and %d visits, must be 1 or more", c.Moves, c.Visits)
	}
	return c, nil
}
