// Package mcts is Monte Carlo tree search: a Tree that is pure and deterministic, and a Search that drives many trees
// through one batched evaluator.
//
// A Tree has no goroutine, no clock and no global random source. Its caller drives it: Descend finds a leaf that wants an
// evaluation, Expand takes the answer. The same seed and answers give the same tree, bit for bit. The files of testdata
// show searches step by step.
//
// Read the files in this order:
//
//	config.go     Config: selection rules and their constants
//	tree.go       Tree: the pure core; root.go: what is done at the root alone; gumbel.go: the selection of Gumbel;
//	              graph.go: transpositions
//	result.go     what a tree has found; known.go: what searches have found of a position
//	search.go     Limits, Search: many trees through one evaluator
//	lanes.go      trees that take turns on a core
//	scheduler.go  positions that come one after the other; clock.go: searches that end by the clock
//	evaluator.go  a search as a Backend
//
// # Decisions
//
// A wave of leaves belongs to one tree (lanes.go). The tree chooses Limits.Leaves of them, 1 unless the caller asks for
// more, each a loss until all are answered (virtual loss), and rests until then. So the answer is the same in any
// company. If one tree had leaves in two alternating batches, timing would affect which leaves it chooses.
//
// Many trees are descended in turns. The trees of many games do not fit a processor's caches, and a visit reads a
// chain of nodes. A worker takes eight trees one step each while the nodes of the others are on their way (lanes.go).
//
// A tree looks two stones ahead by itself (game.Board.Safe): replies that let the other side win at once are lost
// before their first visit, and if only one is left the visit goes through it unevaluated. UCT stays the plain search
// of the literature.
//
// A transposition is two nodes that share their moves (graph.go). The nodes stay moves in a flat arena, and each way
// to a position keeps its own visits. Only the values flow together, and the other ways notice a proof when they are
// next visited. Self-play goes without: it remembers answers, and beside a fast device visits should cost little.
// engine/arena/LOG.md has the measured gain.
//
// A network's priors are flat (Config.FlatPriors): the square roots of its policy. Self-play takes the policy itself,
// because flat priors would make it flatter with each generation. engine/score/LOG.md has the measured gain.
package mcts

import (
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

// The selection rules. n is the visits of a move, N those of its node, q the move's mean value in -1..1, p its prior.
const (
	// PUCT takes the move with the most q + C * p * sqrt(N) / (1+n) (Silver et al., AlphaGo Zero, 2017).
	PUCT Selection = iota
	// UCT takes the move with the most q + C * sqrt(ln N / n), untried moves first (Kocsis and Szepesvari, 2006).
	UCT
	// Gumbel draws a sample of the root's moves by prior and Gumbel noise. It halves the sample again and again; in each
	// round the moves that are left have the same number of visits. Below the root visits follow a policy that the values
	// improve (Danihelka et al., Policy improvement by planning with Gumbel, 2022).
	Gumbel
)

var selectionNames = []string{"puct", "uct", "gumbel"}

func (s Selection) String() string { return selectionNames[s] }

// ParseSelection is the rule that String calls so.
func ParseSelection(name string) (s Selection, ok bool) {
	i := slices.Index(selectionNames, name)
	return Selection(max(0, i)), i >= 0
}

// Config is the configuration of a Tree. DefaultConfig is a good start.
type Config struct {
	Selection Selection
	C         float64 // exploration constant of PUCT and UCT

	// FPU lowers the value of moves without visits: q = (the node's value) - FPU * sqrt(sum of the priors of the moves with
	// visits). At the root nothing is taken off. PUCT only.
	FPU float64

	// FlatPriors makes the priors the square roots of a network's policy, scaled to sum to 1. A network that learns from
	// searches is surer of its moves than it should be. With flat priors the searches of the shipped network choose better
	// moves from some 400 visits on, and equally good ones with fewer. The policy of a heuristic is taken as it is. PUCT only.
	FlatPriors bool

	// Transpositions lets all orders of moves that lead to one position share its moves and their values. No position is
	// evaluated twice then, and the same number of visits finds more. If an evaluation costs next to nothing, visits take a
	// quarter longer. PUCT and Gumbel only.
	Transpositions bool

	// Discount, 0.5..1, multiplies a value at each ply that it is backed up. So the quicker of two wins is worth more, and the
	// later of two losses. 1 is no discount.
	Discount float64

	// Noise, 0..1, mixes Dirichlet noise into the root's priors: p = (1-Noise) * p + Noise * Dirichlet(Alpha). PUCT only.
	Noise, Alpha float64

	// ForcedPlayouts gives each root move with a visit at least sqrt(ForcedPlayouts * p * N) visits (Wu, Accelerating
	// self-play learning in Go, 2019). 0 forces none. PUCT only.
	ForcedPlayouts float64

	// Moves is how many root moves Gumbel considers, Visits how many visits it shares out among them.
	Moves, Visits int

	// Exact, if it is above 0 on the board (solver.Nodes.On), probes each position below the root that has its first visit.
	// If the probe finds the result, the position is proved and no evaluator is asked. Such a proof knows no distance: it
	// counts as if the game lasted until the board is full.
	Exact solver.Nodes

	// RootNodes is how many nodes solver.Prober.Away has to find the moves of the root that give away its result. They are left
	// out. 0 leaves out none; so does Exact if it is 0 on the board. PUCT only. RootNodesFor has the number that fits a search.
	RootNodes int

	// MaxNodes bounds the number of nodes, and so the memory: a node takes 32 bytes, and there is one for each move of an
	// expanded node. (With Transpositions a position with moves takes 32 to 64 bytes more.) If no nodes are left, leaves are
	// still evaluated and counted, but get no moves. Advance keeps a part of the nodes at most.
	MaxNodes int

	// Reserve is how many nodes have memory from the start. So no visit waits for the memory to grow.
	Reserve int

	Seed uint64
}

// DefaultConfig is the configuration of a selection rule, without noise. UCT explores with the constant of its paper.
func DefaultConfig(s Selection) Config {
	c := Config{Selection: s, C: 1.5, FPU: 0.2, FlatPriors: true, Transpositions: true, Discount: 1, Alpha: 1, Moves: 16, Visits: 64, MaxNodes: 1 << 20}
	if s == UCT {
		c.C = math.Sqrt2
	}
	return c
}

// For is the configuration for searches with a backend: PUCT takes the constants that the backend asks for, if it asks for some.
func (c Config) For(b eval.Backend) Config {
	if own := b.Attributes().Search; own != nil && c.Selection == PUCT {
		c.C, c.FPU = own.CPUCT, own.FPU
	}
	return c
}

// RootNodesFor returns the RootNodes that suit a search with this number of visits: about 4,000 a visit, at most 262,144. With that many, no
// search gave away the result of any of 3,000 positions of 7x6 (engine/score/LOG.md, "Probes"). The values are powers of two, so that
// there are few of them: each has its own tables.
func RootNodesFor(visits int) int {
	return solver.MoveNodes >> (7 - min(bits.Len(uint(max(1, visits))), 7))
}

// NodesFor is a value of Config.MaxNodes that is enough for this many visits. A visit gives moves to its leaf, and to each node
// of a forced line on the way there. So up to a fifth more nodes than visits have moves, and in a tree of few visits one line
// may be as long as the board.
func NodesFor(b *game.Board, visits int) int {
	return min(2*(visits+b.Cells())*(b.Actions()+1), maxNodes)
}

const maxNodes = 1 << 31

// TreeBytes is how many bytes a tree of this many visits takes at most, with a leaf. It uses about half of the
// nodes that NodesFor allows; slices that grow and the table of positions take the other half.
func TreeBytes(b *game.Board, visits int) int {
	return NodesFor(b, visits)*int(unsafe.Sizeof(node{})) + int(unsafe.Sizeof(Tree{})+unsafe.Sizeof(Leaf{})) + 2<<10
}

func (c Config) validate(b *game.Board) error {
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
		{"Selection", float64(c.Selection), 0, float64(Gumbel)},
		{"Reserve", float64(c.Reserve), 0, 1 << 31},
		{"Exact", float64(c.Exact), float64(solver.ByBoard), solver.MostNodes},
		{"RootNodes", float64(c.RootNodes), 0, float64(RootNodesFor(math.MaxInt))},
		{"MaxNodes", float64(c.MaxNodes), float64(b.Actions() + 1), maxNodes},
	} {
		if !(f.value >= f.min && f.value <= f.max) {
			return fmt.Errorf("mcts: %s is %v, must be %v to %v", f.name, f.value, f.min, f.max)
		}
	}
	if c.Selection == Gumbel && (c.Moves < 1 || c.Visits < 1) {
		return fmt.Errorf("mcts: Gumbel with %d moves and %d visits, must be 1 or more", c.Moves, c.Visits)
	}
	return nil
}
