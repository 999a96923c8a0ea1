// Package mcts is Monte Carlo tree search: a Tree that is pure and deterministic, and a Search that drives many of
// them through one batched evaluator.
//
// A Tree has no goroutine, clock or global random source. It is driven from outside: Descend finds a leaf that wants
// an evaluation, Expand takes the answer. The same seed and answers give the same tree, bit for bit.
//
// # Decisions
//
// A wave of leaves belongs to one tree (lanes.go). The tree chooses Limits.Leaves of them, 1 unless somebody asks for
// more, each a loss until all are answered (virtual loss), and rests until then. So the answer is the same in any
// company. Leaves of one tree in two batches that take turns would know of each other by what else these wait for.
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
// engine/arena/LOG.md has what it is worth.
//
// A network's priors are flat (Config.FlatPriors): the square roots of its policy. Self-play takes the policy itself,
// because flat priors would make it flatter with each generation. engine/score/LOG.md has what it is worth.
package mcts

import (
	"fmt"
	"unsafe"

	"github.com/evald/evald/engine/game"
)

// Selection is the rule by which a visit chooses among the moves of a node.
type Selection uint8

// The selection rules; n is the visits of a move, N those of its node, q the move's mean value in -1..1, p its prior.
const (
	// PUCT takes the move with the most q + C * p * sqrt(N) / (1+n) (Silver et al., AlphaGo Zero, 2017).
	PUCT Selection = iota
	// UCT takes the move with the most q + C * sqrt(ln N / n), untried moves first (Kocsis and Szepesvari, 2006).
	UCT
	// Gumbel halves a sample of the root's moves again and again, drawn by prior and Gumbel noise, with as many visits
	// for each that is left; below the root visits follow the policy that the values improve (Danihelka et al., Policy
	// improvement by planning with Gumbel, 2022).
	Gumbel
)

func (s Selection) String() string { return [...]string{"puct", "uct", "gumbel"}[s] }

// Config of a Tree. DefaultConfig is a start.
type Config struct {
	Selection Selection
	C         float64 // exploration constant of PUCT and UCT

	// FPU is what an untried move's value falls behind its node's: q = (the node's value) - FPU * sqrt(the priors of
	// the moves tried). At the root nothing is taken off. PUCT only.
	FPU float64

	// FlatPriors makes the priors the square roots of a network's policy, scaled to sum to 1. A network that learns from
	// searches is surer of its moves than it should be: with flat priors the shipped one's searches choose better moves
	// from some 400 visits on, and as good ones with fewer. A heuristic's policy is taken as it is. PUCT only.
	FlatPriors bool

	// Transpositions lets all orders of moves that lead to a position share what is found of it. No position is evaluated
	// twice then, and the same visits know more; but they take a quarter longer where an evaluation costs next to nothing.
	// PUCT and Gumbel only.
	Transpositions bool

	// Discount multiplies a value for each ply that it is backed up, so that of two wins the sooner is preferred, and
	// of two losses the later. 1 is none.
	Discount float64

	// Noise mixes Dirichlet noise into the root's priors: p = (1-Noise) * p + Noise * Dirichlet(Alpha). PUCT only.
	Noise, Alpha float64

	// ForcedPlayouts gives each root move that was tried at least sqrt(ForcedPlayouts * p * N) visits (Wu, Accelerating
	// self-play learning in Go, 2019). 0 forces none.
	ForcedPlayouts float64

	// Moves is how many root moves Gumbel considers; Visits how many visits it shares out.
	Moves, Visits int

	// MaxNodes bounds the memory, 32 bytes each; a node has one for each of its moves. (A position that transpositions
	// find takes 32 to 64 more.) When they are used up, leaves are still evaluated and count, but get no children. Advance keeps at most a keptPart of them.
	MaxNodes int

	// Reserve is for how many nodes there is memory from the start, so that no visit waits for it to grow.
	Reserve int

	Seed uint64
}

// DefaultConfig searches with PUCT, without noise.
func DefaultConfig() Config {
	return Config{Selection: PUCT, C: 1.5, FPU: 0.2, FlatPriors: true, Transpositions: true, Discount: 1, Alpha: 1, Moves: 16, Visits: 64, MaxNodes: 1 << 20}
}

// NodesFor is how many nodes a tree of so many visits has room enough with. A visit gives one leaf
// its moves, and each node of a forced line that it meets on its way there: a tree has up to a fifth more of them than visits,
// and one of few visits may meet a line as long as the board.
func NodesFor(b *game.Board, visits int) int {
	return min(2*(visits+b.Cells())*(b.Actions()+1), maxNodes)
}

const maxNodes = 1 << 31

// TreeBytes is how many bytes a tree of so many visits takes at most, with the leaves that it has under way. Of the nodes that
// it has room for it uses about half; slices that grow and the table of positions take the other half.
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
