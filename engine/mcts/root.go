package mcts

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/evald/evald/engine/game"
)

// startRoot adds noise to the root's moves, or samples those that Gumbel considers. The root must have moves.
func (t *Tree) startRoot() {
	n := &t.nodes[rootNode]
	t.wins, t.consulted = false, false
	if t.config.Selection == PUCT && t.config.Noise > 0 && n.count > 0 {
		t.addNoise(t.moves(n))
	}
	if t.config.Selection == Gumbel {
		t.startGumbel(n)
	}
}

// SetPriors replaces the priors of the root's moves by those of policy [Actions], which are not
// negative, scaled to sum to 1. Moves that the rules have lost have 0; if all others have 0, they are
// equal. SetPriors returns false if the root has no moves yet, which one of the first visits finds.
func (t *Tree) SetPriors(policy []float32) bool {
	moves, total, open := t.rootMoves(), 0.0, 0.0
	for i := range moves {
		if moves[i].proof != lost {
			total += float64(policy[moves[i].action])
			open++
		}
	}
	for i := range moves {
		switch m := &moves[i]; {
		case m.proof == lost:
			m.prior = 0
		case total == 0:
			m.prior = float32(1 / open)
		default:
			m.prior = float32(float64(policy[m.action]) / total)
		}
	}
	return len(moves) > 0
}

// consults reports whether the tree will consult its root prober before its next visit: it has one, and the root has moves.
func (t *Tree) consults() bool {
	return t.rootProber != nil && !t.consulted && t.nodes[rootNode].first != 0
}

// consult marks the root's moves that give the root's result away as proved. All other moves stay open: the search, not a proof, finds
// which of them are best against a fallible opponent. It takes as long as many visits.
func (t *Tree) consult(ctx context.Context) {
	n := &t.nodes[rootNode]
	t.consulted = true
	result, draw, lose := t.rootProber.Away(ctx, t.root)
	t.wins = result == game.Win
	for i := range t.moves(n) {
		c := &t.nodes[n.first+uint32(i)]
		cell := t.board.Cell(t.root, int(c.action))
		switch {
		case c.proof != open:
			continue
		case !cell.And(lose).IsZero():
			c.proof = lost
		case !cell.And(draw).IsZero():
			c.proof = drawn
		default:
			continue
		}
		c.plies = uint8(t.board.Cells() - t.root.Plies() - 1)
	}
}

// consultRoots lets the trees of roots consult their root probers and moves them to todo, until none is left or the search is over. A
// goroutine for each core does this beside the workers, so that no batch waits for a probe. mu must not be held.
func (s *search) consultRoots() {
	s.guard(func() {
		for t := s.nextRoot(nil); t != nil; t = s.nextRoot(t) {
			t.consult(s.ctx)
		}
	})
}

// nextRoot moves the tree that has consulted, if not nil, to todo, and removes and returns the first tree of roots. It returns nil if the
// goroutine must end.
func (s *search) nextRoot(consulted *Tree) *Tree {
	over := s.over()
	s.mu.Lock()
	defer s.mu.Unlock()
	if consulted != nil {
		s.todo = append(s.todo, consulted)
		s.hire(1)
	}
	if over || len(s.roots) == 0 {
		s.consulting--
		s.close(over)
		return nil
	}
	t := s.roots[0]
	s.roots = slices.Delete(s.roots, 0, 1)
	return t
}

// gives reports whether a move of the root is proved to give the root's result away.
func (t *Tree) gives(c *node) bool { return c.proof == lost || c.proof == drawn && t.wins }

// addNoise mixes Dirichlet noise into the priors: gamma variates divided by their sum.
func (t *Tree) addNoise(moves []node) {
	var noise [game.MaxBits]float64
	total := 0.0
	for i := range moves {
		noise[i] = gamma(t.random, t.config.Alpha)
		total += noise[i]
	}
	if total == 0 {
		return // all variates underflowed, because Alpha is tiny: keep the priors
	}
	for i := range moves {
		p := &moves[i].prior
		*p = float32((1-t.config.Noise)*float64(*p) + t.config.Noise*noise[i]/total)
	}
}

// gamma draws from the gamma distribution with this shape and scale 1 (Marsaglia and Tsang, A simple method for generating gamma variables,
// 2000).
func gamma(r *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(r, shape+1) * math.Pow(1-r.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if u := 1 - r.Float64(); math.Log(u) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
