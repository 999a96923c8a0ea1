package solver

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/game"
)

// fast is the search for boards with gravity of at most 64 bits: one table, and a worker for each thread.
type fast struct {
	board   *game.Board
	geo     *geometry
	table   *table
	workers []*worker
	done    atomic.Bool // a worker has the answer; the others stop
}

// newFast returns a search for scores from -maxScore to maxScore. A score outside counts as the nearer of the two.
func newFast(b *game.Board, bytes, threads, maxScore int) *fast {
	g := newGeometry(b)
	f := &fast{board: b, geo: g, table: newTable(bytes, g.stride*g.columns, int(g.columns), maxScore)}
	var marks *busy
	if threads > 1 {
		marks = new(busy)
	}
	f.table.shared = threads > 1
	for i := range threads {
		f.workers = append(f.workers, &worker{
			geometry: g, table: f.table, busy: marks, shared: threads > 1, leader: i == 0, fast: f,
			frames: make([]node, (g.cells+1)*int(g.columns)),
		})
	}
	return f
}

// fastMiB is the minimum size in MiB of the fast search's table for a board.
func fastMiB(b *game.Board) int { return max(1, fastBytes(b, maxScore(b))>>20) }

// maxScore is the best score on a board.
func maxScore(b *game.Board) int { return (b.Cells() + 1) / 2 }

// fastBytes is the minimum size of a table for scores from -maxScore to maxScore.
func fastBytes(b *game.Board, maxScore int) int {
	bits, room := uint(b.Columns()*(b.Rows()+1)), roomOf(b.Columns(), maxScore)
	if bits+1 <= room {
		return int(unsafe.Sizeof(bucket{}))
	}
	return 1 << (bits + 1 - room) * int(unsafe.Sizeof(bucket{}))
}

func (f *fast) reset() {
	f.table.reset()
	for _, w := range f.workers {
		clear(w.history[:])
		w.nodes = 0 // so that a repeated search stops at the same node
		w.flushed.Store(0)
	}
}

func (f *fast) nodes() (n uint64) {
	for _, w := range f.workers {
		n += w.flushed.Load()
	}
	return n
}

func (f *fast) fill() float64 { return f.table.fill() }

// prove runs all workers until the first has an answer. They share the table; busy keeps them from searching the same positions. With one
// thread the number of nodes is the same in every run, and nothing is allocated. A search of few nodes uses one thread, because starting a
// second one on a busy machine may take longer than the search.
func (f *fast) prove(r *run, p game.Position, alpha int) (value, action int) {
	root := f.root(p)
	mirror := f.geo.columns > 1 && f.board.HasMirrorWord() && root.own&f.board.MirrorWord(root.all^root.own) == 0
	f.done.Store(false)
	if len(f.workers) == 1 || r.limit > 0 && r.limit-min(r.limit, f.nodes()) <= fewNodes {
		value, action, _ = f.workers[0].answer(r, root, mirror, alpha)
		return value, action
	}
	return f.together(r, root, mirror, alpha)
}

// fewNodes take about 20 ms on one thread.
const fewNodes = 1 << 17

// together is prove by several workers. A panic of one stops the others.
func (f *fast) together(r *run, root node, mirror bool, alpha int) (value, action int) {
	answer := func(w *worker) {
		ended := false
		defer func() {
			if !ended {
				f.done.Store(true)
			}
		}()
		if v, a, first := w.answer(r, root, mirror, alpha); first {
			value, action = v, a
		}
		ended = true
	}
	var all fault.Group
	for _, w := range f.workers[1:] {
		all.Go(func() { answer(w) })
	}
	all.Run(func() { answer(f.workers[0]) })
	all.Wait()
	return value, action
}

// answer searches from the root, and reports whether it was the first to end.
func (w *worker) answer(r *run, root node, mirror bool, alpha int) (value, action int, first bool) {
	w.run, w.mirrored, w.stopped, w.rootMove = r, mirror, false, -1
	w.next = r.pollAt(w.nodes)
	root.mixed, root.mirrored = w.key(root.own, root.all)
	value = w.search(&root, alpha, 0, -1)
	w.flushed.Store(w.nodes)
	if w.stopped {
		return 0, -1, false
	}
	action = -1
	if w.rootMove >= 0 {
		action = w.rootMove / int(w.stride)
	}
	return value, action, w.fast.done.CompareAndSwap(false, true)
}

func (f *fast) root(p game.Position) node {
	g := f.geo
	n := node{own: p.Own.Lo, all: p.All.Lo, stones: int32(p.Plies())}
	empty := g.full &^ n.all
	n.win, n.lose = g.threats(n.own)&empty, g.threats(n.all^n.own)&empty
	n.moves = quiet(g.landing(n.all), n.lose)
	return n
}

// busy marks the positions that a thread is searching (Kerrigan's simplification of Weill's ABDADA, 1996). Other threads defer these
// positions, and often find them answered when they come back to them. The marks are only hints, so collisions do no harm.
type busy [1 << busyBits]atomic.Uint64

const (
	busyBits = 14
	busyLeft = 14 // a position with fewer empty cells is not worth marking
)

func (b *busy) slot(mixed uint64) *atomic.Uint64 {
	return &b[bits.RotateLeft64(mixed*0xc2b2ae3d27d4eb4f, busyBits)&(1<<busyBits-1)]
}

func (b *busy) has(mixed uint64) bool { return b.slot(mixed).Load() == mixed }
func (b *busy) enter(mixed uint64)    { b.slot(mixed).Store(mixed) }
func (b *busy) leave(mixed uint64)    { b.slot(mixed).Store(0) }
