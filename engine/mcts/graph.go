package mcts

import (
	"math/bits"

	"github.com/evald/evald/engine/game"
)

// Several move orders may lead to one position. The tree searches the position once (Czech et al., Monte-Carlo graph search for AlphaZero,
// 2020): each path to it has its own node, and these nodes share the nodes of the position's moves. The value of a node is then the mean of
// all visits to its position, not only of its own visits. When a visit through a node is backed up, the node also takes the earlier visits
// by other paths into account. See Config.Transpositions.

// unevaluated is node.raw if the position was not evaluated.
const unevaluated = -rawUnit - 1

// link looks for another node of position p that has moves. If it finds one, node at, which has no moves yet, shares them. It reports
// whether it found one.
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

func (t *Tree) moves(n *node) []node { return t.nodes[n.first : n.first+uint32(n.count)] }

// survey counts the visits of a position: 1 and those of its moves, including visits in progress. done reports whether the moves prove the
// position: one of them wins, or none is open. A visit by another path may have found that proof. In a plain search they prove nothing.
func (t *Tree) survey(moves []node) (visits uint32, done bool) {
	visits, done = 1, !t.config.Plain
	for i := range moves {
		c := &moves[i]
		if c.proof == won && !t.config.Plain {
			return 0, true
		}
		done = done && c.proof != open
		visits += c.visits + uint32(c.pending)
	}
	return visits, done
}

// value is the value of the position of n, -1..1 for the side that moved there. n must have moves. It is a mean, weighted by visits, of the
// moves' values and of the value that the position had before it had moves. The latter counts as one visit, or as the visits that belong to
// moves that Advance has dropped. Moves that are proved to lose do not count, because they are never played.
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
		return 0 // a forced move without visits
	}
	return sum / weight
}

// positions is an open hash table that maps the hash of a position with moves to one of its nodes. Hashes have 64 bits: even among millions
// of positions, the probability that two of one search have the same hash is one in millions.
type positions struct {
	slots []slot
	used  int
	epoch uint32 // a slot in use has this epoch; a slot with another epoch is empty
}

type slot struct {
	hash  uint64
	node  uint32
	epoch uint32
}

func (s *positions) reserve(n int) {
	old := *s
	s.slots, s.used, s.epoch = make([]slot, 1<<bits.Len(uint(2*n))), 0, 1
	for _, o := range old.slots {
		if o.epoch == old.epoch {
			s.add(o.hash, o.node)
		}
	}
}

func (s *positions) reset() {
	s.used = 0
	if s.epoch++; s.epoch == 0 {
		clear(s.slots)
		s.epoch = 1
	}
}

// find returns the node of the position with this hash, or 0.
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

// add stores the node of a position, which must not be in the table yet.
func (s *positions) add(hash uint64, node uint32) {
	if 2*s.used+2 > len(s.slots) { // at least half of the slots stay empty
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

// copy replaces all positions with those of from. moved maps a node to its new number, or to 0 if its position is omitted.
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
