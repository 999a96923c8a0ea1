package mcts

import (
	"runtime"
	"unsafe"

	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/internal/prefetch"
)

// lanes is the number of trees that a worker descends in turns. The trees of many games do not fit the processor's caches: while nodes of
// one tree are loaded from memory, the worker advances the others.
const lanes = 8

// lane is a tree being descended.
type lane struct {
	tree   *Tree
	leaf   *Leaf
	turn   int // turns in the current visit
	leaves int // leaves of the tree in this wave so far
	free   int // visits that needed no evaluation
}

// freeVisits is the number of visits without an evaluation between two checks of the clock. A tree can make any number of such visits in a
// row, for example if all go to a proved draw that is better than the other moves.
const freeVisits = 256

// breathe yields every 16 trees, so that a service with many searches does not starve other goroutines.
func breathe(tree int) {
	if tree%16 == 0 {
		runtime.Gosched()
	}
}

// visitAll makes visits in each tree of w.taken. Visits that need an evaluation become rows of the batch, which must have room for the rows
// of all trees. A tree is done for this wave once it has limits.Leaves rows, can make no more visits, or is finished. If trees probe,
// several goroutines visit them.
func (s *search) visitAll(w *wave, probes bool) {
	w.next.Store(0)
	if helpers := min(runtime.GOMAXPROCS(0), len(w.taken)/2); probes && helpers > 1 {
		s.visitTogether(w, helpers)
	} else {
		s.visitNext(w, lanes)
	}
}

// visitTogether runs visitNext in several goroutines. Starting them takes less time than a probe.
func (s *search) visitTogether(w *wave, goroutines int) {
	w.shared = true
	var wait fault.Group
	for range goroutines {
		wait.Go(func() { s.visitNext(w, min(lanes, len(w.taken)/goroutines)) })
	}
	wait.Wait()
	w.shared = false
}

// visitNext visits trees of w.taken in order until none is left; several goroutines may share them. It descends up to width trees in turns.
func (s *search) visitNext(w *wave, width int) {
	var room [lanes]lane // a search of one tree uses one lane, because scanning empty lanes would cost 2% of a fast network's visits
	all := room[:min(width, len(w.taken))]
	busy := 0
	begin := func(l *lane) {
		*l = lane{}
		if next := int(w.next.Add(1)) - 1; next < len(w.taken) {
			breathe(len(w.taken) - next)
			l.tree, l.leaf = w.taken[next], w.spare()
			l.tree.prefetch()
			busy++
		}
	}
	for k := range all {
		begin(&all[k])
	}
	for busy > 0 {
		for k := range all {
			if l := &all[k]; l.tree != nil && !s.takeTurn(w, l) {
				if l.leaf != nil {
					w.keep(l.leaf)
				}
				busy--
				begin(l)
			}
		}
	}
}

// takeTurn advances a lane by one step, and reports whether its tree needs another turn. It prefetches the memory that the next turn will
// read.
func (s *search) takeTurn(w *wave, l *lane) (more bool) {
	t := l.tree
	l.turn++
	switch {
	case l.turn == 1:
		prefetch.Line(unsafe.Pointer(&t.nodes[rootNode]))
		if len(t.nodes) > rootNode+1 {
			prefetch.Lines(unsafe.Pointer(&t.nodes[rootNode+1])) // usually the root's moves
		}
		return true
	case l.turn == 2:
		if !s.goesOn(l) {
			return false
		}
		t.begin(s.ctx, l.leaf)
	}
	if t.step(l.leaf) {
		if first := t.nodes[l.leaf.path[l.leaf.depth]].first; first != 0 {
			prefetch.Lines(unsafe.Pointer(&t.nodes[first]))
		} else {
			t.prefetchPosition(l.leaf.Position)
		}
		return true
	}
	wants, free := t.arrive(l.leaf)
	switch {
	case wants:
		w.add(t, l.leaf)
		l.leaf = nil
		if l.leaves++; l.leaves == s.limits.Leaves {
			return false
		}
		l.leaf = w.spare()
	case !free:
		return false // every line leads to a pending leaf
	default:
		l.free++
	}
	l.turn = 1
	return true
}

// goesOn reports whether a lane's tree makes another visit in this wave.
func (s *search) goesOn(l *lane) bool {
	if (l.free%freeVisits == freeVisits-1 || l.tree.prober != nil) && s.over() { // a probe takes the time of many visits
		return false
	}
	if l.leaves > 0 {
		return !l.tree.finished()
	}
	return s.renew(l.tree) && (s.clock == nil || l.free%freeVisits > 0 || !s.clock.decided(l.tree, s.limits.Visits))
}

// prefetch loads the Tree struct.
func (t *Tree) prefetch() { prefetch.Lines(unsafe.Pointer(t)) }

// prefetchPosition prefetches the slot in which link will look for a position.
func (t *Tree) prefetchPosition(p game.Position) {
	if s := t.positions.slots; len(s) > 0 {
		prefetch.Line(unsafe.Pointer(&s[p.Hash()&uint64(len(s)-1)]))
	}
}

// prefetchPath prefetches the memory that Expand of a leaf will change: the nodes of its path, the memory for its moves, and the slot of
// its position.
func (t *Tree) prefetchPath(leaf *Leaf) {
	for _, i := range leaf.path[:leaf.depth+1] {
		prefetch.Line(unsafe.Pointer(&t.nodes[i]))
	}
	t.prefetchPosition(leaf.Position)
	if n := len(t.nodes); n < cap(t.nodes) {
		prefetch.Lines(unsafe.Pointer(&t.nodes[:n+1][n]))
	}
}
