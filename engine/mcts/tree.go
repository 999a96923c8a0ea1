package mcts

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
)

// node is a move and the position after it. All its values are for the side that made the move.
type node struct {
	sum     float64 // sum of the values of its visits; if positions are shared: visits times Tree.value
	visits  uint32
	first   uint32 // its moves are nodes[first : first+count]; 0 if it has none yet
	prior   float32
	draw    float32 // mean probability of a draw over its visits
	raw     int16   // its value before it had moves, -1..1 in units of 1/rawUnit; or unevaluated
	pending uint16  // visits without answers; each counts as a loss until it is answered
	count   uint8
	action  uint8
	proof   proof
	plies   uint8 // if proof is not open: plies from here to the end of the game, by the best play that the search has seen
}

// rawUnit is the int16 for the value 1.
const rawUnit = math.MaxInt16

// proof is a proved result, for the side that made the move.
type proof int8

const (
	open proof = iota
	lost
	drawn
	won
)

func (p proof) value() float64 { return float64(p - drawn) }

// draw is the probability of a draw that a proof implies.
func (p proof) draw() float32 {
	if p == drawn {
		return 1
	}
	return 0
}

func (p proof) flip() proof { return 2*drawn - p }

// proofOf returns the proof of a node whose side to move has the given result.
func proofOf(r game.Result) proof {
	return [...]proof{game.Win: lost, game.Draw: drawn, game.Loss: won}[r]
}

// Tree is a search from one position. It is not safe for concurrent use.
type Tree struct {
	board  *game.Board
	config Config
	prober *solver.Prober // of leaves; nil without config.Exact
	root   game.Position
	wins   bool                      // the root is known to be won, so moves that draw count as losing
	nodes  []node                    // nodes[0] is unused, nodes[1] the root
	spare  []node                    // buffer for Advance
	copies []uint32                  // indexed by the first of a node's moves before the copy: the node that has the copied moves, or 0
	decay  [game.MaxBits + 1]float64 // config.Discount to the power of plies
	random *rand.Rand
	pcg    *rand.PCG
	gumbel gumbel

	rootProber *solver.Prober // nil without config.RootNodes
	consulted  bool           // rootProber has been asked about the root

	goal Goal // of the current search
	job  *Job // of a Scheduler; nil if it has none
	seat int  // in group.trees

	shares    bool      // nodes of one position share its moves
	positions positions // positions with moves; empty unless shares
	kept      positions // buffer for Advance

	sources []eval.Source // sources of the leaves since Reset, each once, in order of first appearance
}

const rootNode = 1

// New returns a tree whose root is the empty board; see Reset.
func New(board *game.Board, c Config) (*Tree, error) {
	c, err := c.complete(board)
	if err != nil {
		return nil, err
	}
	t := &Tree{board: board, pcg: rand.NewPCG(c.Seed, 0), nodes: make([]node, 0, min(c.Reserve, c.MaxNodes)+2)}
	t.random = rand.New(t.pcg)
	t.configure(c)
	if t.shares {
		t.positions.reserve(min(c.Reserve, c.MaxNodes) / board.Actions())
	}
	t.Reset(game.Position{})
	return t, nil
}

// Reset clears the tree and starts at p, whose game must not be over. It restarts the random source.
func (t *Tree) Reset(p game.Position) {
	t.root, t.wins, t.consulted = p, false, false
	t.nodes = append(t.nodes[:0], node{}, node{raw: unevaluated})
	t.positions.reset()
	t.sources = t.sources[:0]
	t.pcg.Seed(t.config.Seed, p.Hash())
	t.gumbel.reset()
}

// Reconfigure is Reset with another configuration.
func (t *Tree) Reconfigure(c Config, p game.Position) error {
	c, err := c.complete(t.board)
	if err != nil {
		return err
	}
	t.configure(c)
	t.Reset(p)
	return nil
}

// Retune changes the configuration and keeps the tree, for the next Advance. Plain and Transpositions must stay the same.
func (t *Tree) Retune(c Config) error {
	c, err := c.complete(t.board)
	if err == nil && (c.Plain != t.config.Plain || c.Transpositions != t.config.Transpositions) {
		err = errors.New("mcts: a tree with visits keeps its lookahead and transpositions")
	}
	if err == nil {
		t.configure(c)
	}
	return err
}

func (t *Tree) configure(c Config) {
	t.config, t.prober, t.rootProber = c, c.Exact.For(t.board), nil
	if t.prober != nil && c.Selection == PUCT {
		t.rootProber = solver.Nodes(c.RootNodes).For(t.board)
	}
	t.shares = c.Transpositions && c.Selection.Shares()
	for i, x := 0, 1.0; i < len(t.decay); i++ {
		t.decay[i] = x
		x *= c.Discount
	}
}

// Sources lists the sources of the leaves that Search or Drive evaluated since Reset, each once. The tree owns the slice, which is valid
// until its next search.
func (t *Tree) Sources() []eval.Source { return t.sources }

// Board and Root are the game and the position that the tree searches.
func (t *Tree) Board() *game.Board  { return t.board }
func (t *Tree) Root() game.Position { return t.root }

// Visits is the number of visits of the root.
func (t *Tree) Visits() int { return int(t.nodes[rootNode].visits) }

// Nodes is the number of nodes in use.
func (t *Tree) Nodes() int { return len(t.nodes) - 1 }

// Leaf is a visit that waits for an evaluation.
type Leaf struct {
	Position game.Position // its game is not over, and no move wins at once; see Tree.look
	safe     game.Bits     // Tree.safe of Position
	depth    int           // path[:depth+1] leads from the root to the leaf; -1 if no move was free
	path     [game.MaxBits + 1]uint32
}

// A visit calls begin, then step until it returns false, then arrive. So a worker can descend several trees in turns.
func (t *Tree) begin(ctx context.Context, leaf *Leaf) {
	if t.consults() { // the rules alone gave the root its moves, or this visit is not one of Search
		t.consult(ctx)
	}
	leaf.Position, leaf.depth, leaf.path[0] = t.root, 0, rootNode
}

// step descends by one move. It returns false if the visit ends here.
func (t *Tree) step(leaf *Leaf) (more bool) {
	at := leaf.path[leaf.depth]
	if n := &t.nodes[at]; n.proof != open || n.first == 0 && !t.link(at, leaf.Position) && !t.look(n, leaf) {
		return false
	}
	child := t.choose(at, leaf.depth)
	switch child {
	case noneFree:
		leaf.depth = -1
		return false
	case decided:
		t.prove(leaf.path[:leaf.depth+1])
		return false
	}
	leaf.depth++
	leaf.path[leaf.depth] = child
	leaf.Position = t.board.Play(leaf.Position, int(t.nodes[child].action))
	return true
}

// look applies the rules, and perhaps a probe, to a node without moves, in place of an evaluation:
//   - if the next stone wins, it proves the node;
//   - if the other side can win with the next stone after every reply, it proves the node too;
//   - if a single reply prevents that, it gives the node its moves;
//   - if a probe finds the result of another node, it proves that node.
//
// It reports whether the visit continues with a move.
//
// UCT looks only one stone ahead. It gives a node its moves at the second visit, because it does not use priors, and most nodes never have
// a second visit. A plain search applies no rules.
func (t *Tree) look(n *node, leaf *Leaf) (more bool) {
	if n.blocked() {
		return false
	}
	if n.visits == 0 && !t.config.Plain && !t.board.Wins(leaf.Position).IsZero() {
		t.settle(leaf, lost, 1)
		return false
	}
	at := leaf.path[leaf.depth]
	leaf.safe = t.safe(leaf.Position)
	switch {
	case t.config.Selection == UCT:
		if n.visits == 0 {
			t.probe(n, leaf)
			return false
		}
	case at == rootNode, n.visits > 0, t.config.Plain, !leaf.safe.WithoutFirst().IsZero():
		t.probe(n, leaf)
		return false // the root needs priors for its moves; a node with visits has no moves only because memory is full
	case leaf.safe.IsZero():
		t.settle(leaf, won, 2)
		return false
	}
	t.grow(at, leaf.Position, leaf.safe, nil, false)
	if t.nodes[at].first == 0 {
		return false
	}
	t.prove(leaf.path[:leaf.depth+1])
	return t.nodes[at].proof == open
}

// probe proves a node at its first visit, if the tree has a prober and it finds the result.
func (t *Tree) probe(n *node, leaf *Leaf) {
	if t.prober == nil || n.visits > 0 || leaf.depth == 0 {
		return
	}
	if r := t.prober.Probe(leaf.Position); r != game.Ongoing {
		t.settle(leaf, proofOf(r), uint8(t.board.Cells()-leaf.Position.Plies()))
	}
}

// safe is the set of cells whose moves do not lose within the stones that the search looks ahead.
func (t *Tree) safe(p game.Position) game.Bits {
	if t.config.Selection == UCT || t.config.Plain {
		return t.board.Legal(p)
	}
	return t.board.Safe(p)
}

// settle proves the last node of the leaf's path.
func (t *Tree) settle(leaf *Leaf, p proof, plies uint8) {
	n := &t.nodes[leaf.path[leaf.depth]]
	n.proof, n.plies = p, plies
	t.prove(leaf.path[:leaf.depth])
}

// arrive ends a visit at the node that step has reached. If the rules decide that node, the visit is counted at once, and wants is false.
// If wants is true, the caller must pass the leaf to Expand or Abandon. free is false if no visit was possible, because every line leads to
// a pending leaf.
func (t *Tree) arrive(leaf *Leaf) (wants, free bool) {
	if leaf.depth < 0 {
		return false, false
	}
	path := leaf.path[:leaf.depth+1]
	n := &t.nodes[path[leaf.depth]]
	if n.blocked() {
		return false, false
	}
	if n.proof != open {
		t.backUp(path, t.known(n), n.proof.draw())
		return false, true
	}
	for _, i := range path {
		t.nodes[i].pending++
	}
	return true, true
}

// Expand answers a leaf and counts its visit. wdl [3] and policy [Actions] are an Evaluator's answer for the side to move at the leaf;
// source is the row's Source.
func (t *Tree) Expand(leaf *Leaf, wdl, policy []float32, source eval.Source) {
	path := leaf.path[:leaf.depth+1]
	for _, i := range path {
		t.nodes[i].pending--
	}
	at := path[leaf.depth]
	if n := &t.nodes[at]; n.visits == 0 {
		n.raw = int16(rawUnit * (wdl[2] - wdl[0]))
	}
	if (at == rootNode || t.config.Selection != UCT) && !t.link(at, leaf.Position) {
		t.grow(at, leaf.Position, leaf.safe, policy, t.config.FlatPriors && t.config.Selection == PUCT && source.Network())
	}
	if at == rootNode {
		t.startRoot()
	}
	if t.nodes[at].first != 0 {
		t.prove(path)
	}
	t.backUp(path, float64(wdl[2]-wdl[0]), wdl[1])
}

// Abandon ends a leaf's visit without counting it.
func (t *Tree) Abandon(leaf *Leaf) {
	for _, i := range leaf.path[:leaf.depth+1] {
		t.nodes[i].pending--
	}
}

// grow gives node at its moves, if it has none and there is room. p is the node's position; only in a plain search may a move win at once.
// Moves that are not safe are lost. The priors of the others sum to 1. They are proportional to the policy or, if flat is set, to its square roots
// (Config.FlatPriors); they are equal if policy is nil.
func (t *Tree) grow(at uint32, p game.Position, safe game.Bits, policy []float32, flat bool) {
	legal := t.board.Legal(p)
	count := legal.OnesCount()
	if t.nodes[at].first != 0 || len(t.nodes)+count > t.config.MaxNodes+1 {
		return
	}
	first, total := uint32(len(t.nodes)), float32(0)
	var wins game.Bits
	if t.config.Plain {
		wins = t.board.Wins(p)
	}
	for l := legal; !l.IsZero(); l = l.WithoutFirst() {
		n := node{action: uint8(t.board.Action(l.First())), raw: unevaluated}
		switch {
		case safe.And(l.LowBit()).IsZero():
			n.proof, n.plies = lost, 1
		case policy == nil:
			n.prior = 1
		case flat:
			n.prior = float32(math.Sqrt(float64(policy[n.action])))
		default:
			n.prior = policy[n.action]
		}
		switch {
		case !wins.And(l.LowBit()).IsZero():
			n.proof = won
		case n.proof == open && p.All.Or(l.LowBit()) == t.board.Full():
			n.proof = drawn
		}
		total += n.prior
		t.nodes = append(t.nodes, n)
	}
	if flat || safe != legal || policy == nil {
		for i := first; i < uint32(len(t.nodes)); i++ {
			switch n := &t.nodes[i]; {
			case n.proof == lost:
			case total > 0:
				n.prior /= total
			default:
				n.prior = 1 / float32(safe.OnesCount())
			}
		}
	}
	t.nodes[at].first, t.nodes[at].count = first, uint8(count)
	if t.shares {
		t.positions.add(p.Hash(), at)
	}
}

// prove carries proofs from the end of a path towards the root, and stops at the first node that stays open (Winands et al., Monte-Carlo
// tree search solver, 2008). A move is lost if the other side has a winning reply. If all replies are proved, the move's result follows
// from the best of them. Of several wins, the fastest counts; of several losses, the slowest. In a plain search only the end of a game is
// a proof.
func (t *Tree) prove(path []uint32) {
	if t.config.Plain {
		return
	}
	for d := len(path) - 1; d >= 0; d-- {
		n := &t.nodes[path[d]]
		best, plies := lost, uint8(0)
		for i := range uint32(n.count) {
			c := &t.nodes[n.first+i]
			switch {
			case c.proof == open:
				if best != won {
					best = open
				}
			case c.proof == won && best == won:
				plies = min(plies, c.plies)
			case c.proof == won, best != open && c.proof > best:
				best, plies = c.proof, c.plies
			case c.proof == best:
				plies = max(plies, c.plies)
			}
		}
		if best == open || n.count == 0 {
			return
		}
		n.proof, n.plies = best.flip(), plies+1
	}
}

// backUp counts a visit along a path. value, -1..1, is for the side that moved to the end of the path; draw is the probability of a draw,
// 0..1. If positions are shared, the value of a node with moves is Tree.value instead of the mean of its own visits.
func (t *Tree) backUp(path []uint32, value float64, draw float32) {
	for i := len(path) - 1; i >= 0; i-- {
		n := &t.nodes[path[i]]
		n.visits++
		if n.first != 0 && n.proof == open && t.shares {
			value = t.value(n)
			n.sum = value * float64(n.visits)
		} else {
			n.sum += value
		}
		n.draw += (draw - n.draw) / float32(n.visits)
		value *= -t.config.Discount
	}
}

// known is the value of a proved node, -1..1 for the side that moved there.
func (t *Tree) known(n *node) float64 { return n.proof.value() * t.decay[n.plies] }

// mean is the value of a node, -1..1 for the side that moved there. n must have visits or a proof.
func (t *Tree) mean(n *node) float64 {
	if n.proof != open {
		return t.known(n)
	}
	return n.sum / float64(n.visits)
}

// choose returns these values in place of a node.
const (
	noneFree = 0              // all moves that do not lose lead to pending leaves
	decided  = math.MaxUint32 // the moves prove the node: a visit by another path to its position has found the proof
)

// choose returns the node of the move that a visit makes from node at, or noneFree, or decided. It never chooses a move that is proved to
// lose.
func (t *Tree) choose(at uint32, depth int) uint32 {
	n := &t.nodes[at]
	switch {
	case t.config.Selection == UCT:
		return t.chooseUCT(n)
	case t.config.Selection == Gumbel && depth == 0:
		return t.chooseGumbelRoot(n)
	case t.config.Selection == Gumbel:
		return t.chooseGumbel(n)
	case t.config.Selection == Flat:
		return t.chooseFlat(n, depth)
	}
	return t.choosePUCT(n, depth)
}

func (t *Tree) choosePUCT(n *node, depth int) uint32 {
	moves := t.moves(n)
	total := max(n.visits+uint32(n.pending), 1)
	if t.shares {
		var done bool
		if total, done = t.survey(moves); done {
			return decided
		}
	}
	scale := t.config.C * math.Sqrt(float64(total))
	best, most := -1, math.Inf(-1)
	tried := float32(0)                   // sum of the priors of the moves with visits
	untried, likeliest := -1, float32(-1) // the move without visits with the largest prior; moves without visits differ only by their priors
	for i := range moves {
		c := &moves[i]
		visits := float64(c.visits + uint32(c.pending))
		if c.visits > 0 {
			tried += c.prior
		}
		q := 0.0
		switch {
		case c.proof == lost || c.blocked() || depth == 0 && t.gives(c):
			continue
		case c.proof != open && !t.unseen(c):
			q = t.known(c)
		case visits == 0:
			if c.prior > likeliest {
				untried, likeliest = i, c.prior
			}
			continue
		default:
			q = (c.sum - float64(c.pending)) / visits
		}
		if depth == 0 && t.config.ForcedPlayouts > 0 && visits > 0 &&
			visits*visits < t.config.ForcedPlayouts*float64(c.prior)*float64(total) {
			return n.first + uint32(i)
		}
		if u := q + scale*float64(c.prior)/(1+visits); u > most {
			best, most = i, u
		}
	}
	if untried >= 0 {
		// The node's value is for the other side.
		q := -n.sum / float64(max(n.visits, 1))
		if t.shares && n.visits == 0 {
			q = -t.value(n)
		}
		if depth > 0 {
			q -= t.config.FPU * math.Sqrt(float64(tried))
		}
		if q+scale*float64(likeliest) > most {
			best = untried
		}
	}
	if best < 0 {
		return 0
	}
	return n.first + uint32(best)
}

// unseen reports whether the search does not know the move's result yet, although the rules do: in a plain search a game ends at the first
// visit.
func (t *Tree) unseen(n *node) bool { return t.config.Plain && n.visits == 0 }

// blocked reports whether the node's first visit is pending, so that no result is known. The leaf of that visit is the node itself or lies
// at the end of a forced line. (If memory is full, leaves have no moves, and several visits to one may be pending.)
func (n *node) blocked() bool {
	return n.pending > 0 && n.visits == 0 && n.proof == open
}

func (t *Tree) chooseUCT(n *node) uint32 {
	best, most, untried := uint32(0), math.Inf(-1), 0
	log := math.Log(float64(max(n.visits, 1)) + float64(n.pending))
	for i := range uint32(n.count) {
		c := &t.nodes[n.first+i]
		if c.proof == lost || c.blocked() {
			continue
		}
		visits := float64(c.visits) + float64(c.pending)
		if visits == 0 {
			// All untried moves are equally likely.
			untried++
			if t.random.IntN(untried) == 0 {
				best = n.first + i
			}
			continue
		}
		if untried > 0 {
			continue
		}
		q := 0.0
		if c.proof != open {
			q = t.known(c)
		} else {
			q = (c.sum - float64(c.pending)) / visits
		}
		if u := q + t.config.C*math.Sqrt(log/visits); u > most {
			best, most = n.first+i, u
		}
	}
	return best
}

// chooseFlat chooses the root's move with the fewest visits, the first of equals, and below the root any move with equal probability. If the
// chosen move waits for its first answer, no other move takes its turn: that would change the shares.
func (t *Tree) chooseFlat(n *node, depth int) uint32 {
	moves, next := t.moves(n), 0
	if depth > 0 {
		next = t.random.IntN(len(moves))
	} else {
		for i := range moves {
			if moves[i].visits+uint32(moves[i].pending) < moves[next].visits+uint32(moves[next].pending) {
				next = i
			}
		}
	}
	if moves[next].blocked() {
		return noneFree
	}
	return n.first + uint32(next)
}
