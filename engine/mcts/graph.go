package mcts

import (
	"math/bits"

	"github.com/evald/evald/engine/game"
)

// A position that several orders of moves lead to is searched once (Czech et al., Monte-Carlo graph search for AlphaZero,
// 2020): each way to it has a node, and all of these share the nodes of its moves. What a node is worth is then not the
// mean of its own visits but of all that its position has had. A node notices what came by other ways when a visit passes
// through it. See Config.Transpositions.

// unevaluated is node.raw where no evaluator was asked about the position.
const unevaluated = -rawUnit - 1

// link gives node at, which has no moves, those that its position p has by another way, and reports whether there are any.
func (t *Tree) link(at uint32, p game.Position) bool {
	if !t.shares {
		return false
	}
	twin := t.positions.find(p.Hash())
	if twin == 0 {
		return false
	}
	n, m := &t.nodes[at], &t.nodes[twin]
	n.first, n.count = m.first, m.count
	if n.raw == unevaluated {
		n.raw = m.raw
	}
	return true
}

// moves are the nodes of the moves of n.
func (t *Tree) moves(n *node) []node { return t.nodes[n.first : n.first+uint32(n.count)] }

// survey counts the visits of a position, those under way included, by those of its moves, and reports whether the moves
// prove it, as visits by another way may have found: one of them wins, or none is open.
func survey(moves []node) (visits uint32, done bool) {
	visits, done = 1, true
	for i := range moves {
		c := &moves[i]
		if c.proof == won {
			return 0, true
		}
		done = done && c.proof != open
		visits += c.visits + uint32(c.pending)
	}
	return visits, done
}

// had is how many visits the position of n has had, by whatever way.
func (t *Tree) had(n *node) uint32 {
	visits := uint32(0)
	if n.raw != unevaluated {
		visits = 1
	}
	for _, c := range t.moves(n) {
		visits += c.visits
	}
	return max(visits, n.visits)
}

// value is what the position of n, which has moves, is worth: the mean of what was found of it before it had them (one
// evaluation, or the visits that a book or a smaller tree has left) and of its moves, each by its visits. Moves that lose
// count for nothing, since nobody makes them.
func (t *Tree) value(n *node) float64 {
	visits, weight, sum := 0.0, 0.0, 0.0
	moves := t.moves(n)
	for i := range moves {
		c := &moves[i]
		visits += float64(c.visits)
		switch {
		case c.visits == 0 || c.proof == lost:
		case c.proof == open:
			weight += float64(c.visits)
			sum -= c.sum
		default:
			weight += float64(c.visits)
			sum -= t.known(c) * float64(c.visits)
		}
	}
	sum *= t.config.Discount
	if n.raw != unevaluated {
		before := max(1, float64(n.visits)-visits)
		weight += before
		sum += before * float64(n.raw) / rawUnit
	}
	if weight == 0 {
		return 0 // a forced move that nobody has made
	}
	return sum / weight
}

// positions finds one of the nodes of each position that has moves, by the position's hash: an open hash table. Of 64 bits
// two positions of a search share all with a chance of one in millions, even where it has millions.
type positions struct {
	slots []slot
	used  int
	epoch uint32 // of the slots in use; those of others are empty
}

type slot struct {
	hash  uint64
	node  uint32
	epoch uint32
}

// reserve makes room for n positions.
func (s *positions) reserve(n int) {
	old := *s
	s.slots, s.used, s.epoch = make([]slot, 1<<bits.Len(uint(2*n))), 0, 1
	for _, o := range old.slots {
		if o.epoch == old.epoch {
			s.add(o.hash, o.node)
		}
	}
}

// reset forgets all of them.
func (s *positions) reset() {
	s.used = 0
	if s.epoch++; s.epoch == 0 {
		clear(s.slots)
		s.epoch = 1
	}
}

// find is the node of a position, or 0.
func (s *positions) find(hash uint64) uint32 {
	if len(s.slots) == 0 {
		return 0
	}
	for i := hash; ; i++ {
		switch o := &s.slots[i&uint64(len(s.slots)-1)]; {
		case o.epoch != s.epoch:
			return 0
		case o.hash == hash:
			return o.node
		}
	}
}

// add notes the node of a position that has none yet.
func (s *positions) add(hash uint64, node uint32) {
	if 2*s.used+2 > len(s.slots) { // at least half are empty
		s.reserve(max(32, 2*s.used))
	}
	for i := hash; ; i++ {
		if o := &s.slots[i&uint64(len(s.slots)-1)]; o.epoch != s.epoch {
			*o = slot{hash, node, s.epoch}
			s.used++
			return
		}
	}
}

// copy takes over those positions of from whose nodes have another number, which moved says, or 0.
func (s *positions) copy(from *positions, moved func(uint32) uint32) {
	s.reset()
	for i := range from.slots {
		if o := &from.slots[i]; o.epoch == from.epoch {
			if at := moved(o.node); at != 0 {
				s.add(o.hash, at)
			}
		}
	}
}
