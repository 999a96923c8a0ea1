package mcts

import (
	"math"
	"math/bits"

	"github.com/evald/evald/engine/game"
)

// gumbel is the state of the root's sequential halving.
type gumbel struct {
	noise    [game.MaxBits]float64 // Gumbel(0,1) of each root move; -Inf if the move is not considered
	sequence []uint32              // for each visit of the root: only moves with this number of earlier visits are considered
	visits   int                   // visits of the sequence so far
}

func (g *gumbel) reset() { g.visits, g.sequence = 0, g.sequence[:0] }

// startGumbel samples the root moves to consider, without replacement: those with the largest noise + log prior.
func (t *Tree) startGumbel(n *node) {
	g := &t.gumbel
	g.reset()
	count, alive := int(n.count), 0
	for i := range count {
		g.noise[i] = min(-math.Log(-math.Log(1-t.random.Float64())), math.MaxFloat64) * t.config.GumbelScale
		if t.nodes[n.first+uint32(i)].proof == lost {
			g.noise[i] = math.Inf(-1)
			continue
		}
		alive++
	}
	considered := min(t.config.Moves, alive)
	for out := alive - considered; out > 0; out-- {
		least := -1
		for i := range count {
			if !math.IsInf(g.noise[i], -1) && (least < 0 || t.sampled(n, i) < t.sampled(n, least)) {
				least = i
			}
		}
		g.noise[least] = math.Inf(-1)
	}
	if considered > 0 {
		visits := t.config.Visits
		if t.config.Plain {
			visits-- // the first visit of the root is its evaluation, which the paper does not count
		}
		g.sequence = halving(g.sequence, considered, visits)
	}
}

func (t *Tree) sampled(n *node, i int) float64 {
	return t.gumbel.noise[i] + logit(&t.nodes[n.first+uint32(i)])
}

func logit(c *node) float64 { return math.Log(max(float64(c.prior), 1e-9)) }

// halving lists, for each of n visits, the number of earlier visits that a move must have to be considered. In the first round all m moves
// get equal numbers of visits, in the second the better half of them, and so on until two are left.
func halving(sequence []uint32, m, n int) []uint32 {
	rounds := max(1, bits.Len(uint(m-1)))
	var visits [game.MaxBits]uint32
	for considered := m; len(sequence) < n; considered = max(min(2, m), considered/2) {
		for range max(1, n/(rounds*considered)) {
			for i := range considered {
				sequence = append(sequence, visits[i])
				visits[i]++
			}
		}
	}
	return sequence[:n]
}

// chooseGumbelRoot chooses the best move by noise + log prior + scaled value among those with the number of visits that the sequence
// requires.
func (t *Tree) chooseGumbelRoot(n *node) uint32 {
	g := &t.gumbel
	if g.visits >= len(g.sequence) {
		return t.chooseGumbel(n)
	}
	var values [game.MaxBits]float64
	t.completed(n, &values)
	best, most := uint32(0), math.Inf(-1)
	for i := range int(n.count) {
		c := &t.nodes[n.first+uint32(i)]
		if c.proof == lost || c.blocked() || c.visits+uint32(c.pending) != g.sequence[g.visits] {
			continue
		}
		if x := t.sampled(n, i) + values[i]; x > most {
			best, most = n.first+uint32(i), x
		}
	}
	if best == 0 {
		return t.chooseGumbel(n)
	}
	g.visits++
	return best
}

// completed writes the scaled value of each move of n. A move without visits gets the mean of the node's evaluation and of the moves with
// visits.
func (t *Tree) completed(n *node, values *[game.MaxBits]float64) {
	most, visits, weight, sum := uint32(0), 0.0, 0.0, 0.0
	for i := range uint32(n.count) {
		c := &t.nodes[n.first+i]
		most = max(most, c.visits)
		visits += float64(c.visits)
		if c.visits > 0 {
			weight += float64(c.prior)
			sum += float64(c.prior) * t.mean(c)
		}
	}
	mixed := t.raw(n)
	if weight > 0 {
		mixed = (mixed + visits*sum/weight) / (1 + visits)
	}
	least, largest := math.Inf(1), math.Inf(-1)
	if t.config.Rescale && int(n.count) < t.board.Actions() { // illegal moves count like moves without visits, as in mctx
		least, largest = mixed, mixed
	}
	for i := range uint32(n.count) {
		c := &t.nodes[n.first+i]
		q := mixed
		if c.visits > 0 || c.proof != open && !t.unseen(c) {
			q = t.mean(c)
		}
		values[i], least, largest = q, min(least, q), max(largest, q)
	}
	if !t.config.Rescale {
		least, largest = -1, 1
	}
	scale := (t.config.CVisit + float64(most)) * t.config.CScale / max(largest-least, 1e-8)
	for i := range int(n.count) {
		values[i] = scale * (values[i] - least)
	}
}

// raw is the evaluation of n's position before it had moves, -1..1 for its side to move; 0 if there was none. node.raw is a rounded value.
// In a plain search without transpositions n's sum is its evaluation and what the visits of its moves have added.
func (t *Tree) raw(n *node) float64 {
	switch {
	case n.raw == unevaluated:
		return 0
	case !t.config.Plain || t.shares:
		return 0 - float64(n.raw)/rawUnit // never -0
	}
	sum, own := 0-n.sum, n.visits
	for _, c := range t.moves(n) {
		sum -= t.config.Discount * c.sum
		own -= c.visits
	}
	return sum / float64(max(1, own)) // several if memory was full
}

// improved writes the improved policy of n's moves: the softmax of log prior + scaled value.
func (t *Tree) improved(n *node, policy *[game.MaxBits]float64) {
	t.completed(n, policy)
	most := math.Inf(-1)
	for i := range int(n.count) {
		policy[i] += logit(&t.nodes[n.first+uint32(i)])
		most = max(most, policy[i])
	}
	total := 0.0
	for i := range int(n.count) {
		policy[i] = math.Exp(policy[i] - most)
		total += policy[i]
	}
	for i := range int(n.count) {
		policy[i] /= total
	}
}

// chooseGumbel chooses the move whose share of the visits is furthest below its probability in the improved policy.
func (t *Tree) chooseGumbel(n *node) uint32 {
	visits, done := t.survey(t.moves(n))
	if done {
		return decided
	}
	total := float64(visits)
	var policy [game.MaxBits]float64
	t.improved(n, &policy)
	best, most := uint32(0), math.Inf(-1)
	for i := range uint32(n.count) {
		c := &t.nodes[n.first+i]
		if c.proof == lost || c.blocked() {
			continue
		}
		if x := policy[i] - (float64(c.visits)+float64(c.pending))/total; x > most {
			best, most = n.first+i, x
		}
	}
	return best
}
