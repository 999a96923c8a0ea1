package mcts

import "github.com/evald/evald/engine/game"

// Known is what searches have found for a position. Its values are for the side to move.
type Known struct {
	Visits uint32
	Value  float32     // mean value in -1..1
	Draw   float32     // mean probability of a draw
	Result game.Result // Win, Draw or Loss if proved; else Ongoing
}

// Each calls f with the results for the root and for all positions below it that have at least the given number of visits (1 or more), once
// for each position. It does not look below a node whose position has fewer visits. So if a position is reached only through several such
// nodes, f may not be called for it, even if its visits through all of them suffice.
func (t *Tree) Each(visits int, f func(p game.Position, k Known)) {
	t.each(rootNode, t.root, uint32(max(1, visits)), map[uint32]bool{}, f)
}

func (t *Tree) each(at uint32, p game.Position, visits uint32, seen map[uint32]bool, f func(game.Position, Known)) {
	n := &t.nodes[at]
	k := Known{Visits: t.had(n), Draw: n.draw}
	if k.Visits < visits || t.board.Result(p) != game.Ongoing || seen[n.first] {
		return
	}
	switch {
	case n.proof != open:
		k.Value, k.Draw, k.Result = float32(0-t.known(n)), n.proof.draw(), n.proof.flip().result()
	case n.first != 0 && t.shares:
		k.Value = float32(0 - t.value(n))
	default:
		k.Value = float32(0 - t.mean(n))
	}
	k.Draw = min(k.Draw, 1-max(k.Value, -k.Value)) // as in Tree.WDL
	seen[n.first] = n.first != 0
	f(p, k)
	for i := range uint32(n.count) {
		t.each(n.first+i, t.board.Play(p, int(t.nodes[n.first+i].action)), visits, seen, f)
	}
}

// Warm gives a tree without visits the known results of its root and of the positions below it, as if the tree had made those visits. If
// moves of a position are known, their priors are their shares of the visits. A position without known moves gets no moves: the search will
// evaluate it.
func (t *Tree) Warm(known func(game.Position) (Known, bool)) {
	if k, ok := known(t.root); ok && t.Visits() == 0 {
		t.warm(rootNode, t.root, k, known)
		t.startRoot()
	}
}

func (t *Tree) warm(at uint32, p game.Position, k Known, known func(game.Position) (Known, bool)) {
	n := &t.nodes[at]
	n.plies = uint8(t.board.Cells() - p.Plies()) // Known has no distance, so assume the latest possible end of the game, a full board
	n.visits, n.sum, n.raw, n.draw = k.Visits, -float64(k.Value)*float64(k.Visits), int16(-rawUnit*k.Value), k.Draw
	n.proof = proofOf(k.Result)
	if t.link(at, p) {
		return
	}
	var children [game.MaxBits]Known
	var policy [game.MaxBits]float32
	total := float32(0)
	legal := t.board.Legal(p)
	for l := legal; !l.IsZero(); l = l.WithoutFirst() {
		a := t.board.Action(l.First())
		child := t.board.PlayCell(p, l.LowBit())
		if t.board.Result(child) != game.Ongoing {
			continue
		}
		if c, ok := known(child); ok {
			children[a] = c
			total += float32(c.Visits)
		}
	}
	if total == 0 {
		return
	}
	// Each move gets one extra visit, so that unknown moves remain possible.
	for l := legal; !l.IsZero(); l = l.WithoutFirst() {
		a := t.board.Action(l.First())
		policy[a] = (float32(children[a].Visits) + 1) / (total + float32(legal.OnesCount()))
	}
	t.grow(at, p, t.safe(p), policy[:], false)
	first, count := t.nodes[at].first, uint32(t.nodes[at].count)
	for i := range count {
		a := int(t.nodes[first+i].action)
		if children[a].Visits > 0 {
			t.warm(first+i, t.board.Play(p, a), children[a], known)
		}
	}
}
