package solver

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/evald/evald/engine/game"
)

// fast is the search for boards with gravity of at most 64 bits: one table, and a worker for each thread.
type fast struct {
	board   *game.Board
	geo     *geometry
	table   *table
	workers []*worker
}

func newFast(b *game.Board, o Options) *fast {
	g := newGeometry(b)
	f := &fast{board: b, geo: g, table: newTable(o.TableMiB, g.stride*g.columns, int(g.columns), (g.cells+1)/2)}
	marks := new(busy)
	f.table.shared = o.Threads > 1
	for i := range o.Threads {
		f.workers = append(f.workers, &worker{
			geometry: g, table: f.table, busy: marks, shared: o.Threads > 1, leader: i == 0,
			frames: make([]node, (g.cells+1)*int(g.columns)),
		})
	}
	return f
}

// fastMiB is the least size of the fast search's table for a board.
func fastMiB(b *game.Board) int {
	bits, room := uint(b.Columns()*(b.Rows()+1)), roomOf(b.Columns(), (b.Cells()+1)/2)
	if bits+1 <= room {
		return 1
	}
	return max(1, 1<<(bits+1-room)*int(unsafe.Sizeof(bucket{}))>>20)
}

func (f *fast) reset() {
	f.table.reset()
	for _, w := range f.workers {
		clear(w.history[:])
		w.nodes = 0 // so that a search stops at the same node each time
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

// prove runs all workers until the first is done. Each fills the table for the others, and busy keeps them apart. With one
// thread the number of nodes is the same every time.
func (f *fast) prove(r *run, p game.Position, alpha int) (value, action int) {
	root := f.root(p)
	canMirror := f.geo.columns > 1 && f.board.HasMirrorWord() && root.own&f.board.MirrorWord(root.all^root.own) == 0
	var done atomic.Bool
	var once sync.Once
	answer := func(w *worker) {
		w.run, w.done, w.fast = r, &done, f
		w.mirrored, w.stopped, w.rootMove = canMirror, false, -1
		n := root
		n.mixed, n.mirrored = w.key(n.own, n.all)
		v := w.search(&n, alpha, 0, -1)
		w.flushed.Store(w.nodes)
		if w.stopped {
			return
		}
		once.Do(func() {
			value, action = v, -1
			if w.rootMove >= 0 {
				action = w.rootMove / int(f.geo.stride)
			}
			done.Store(true)
		})
	}
	var helpers sync.WaitGroup
	for _, w := range f.workers[1:] {
		helpers.Go(func() { answer(w) })
	}
	answer(f.workers[0])
	helpers.Wait()
	return value, action
}

// root returns p as a node.
func (f *fast) root(p game.Position) node {
	g := f.geo
	n := node{own: p.Own.Lo, all: p.All.Lo, stones: int32(p.Plies())}
	empty := g.full &^ n.all
	n.win, n.lose = g.threats(n.own)&empty, g.threats(n.all^n.own)&empty
	n.moves = quiet(g.landing(n.all), n.lose)
	return n
}

// busy marks the positions that some thread is searching (Kerrigan's simplification of Weill's ABDADA, 1996). Another thread
// defers them; by the time it returns to them they are often answered. The marks are only advice: collisions do no harm.
type busy [1 << busyBits]atomic.Uint64

const (
	busyBits = 14
	busyLeft = 14 // with fewer empty cells a position is not worth marking
)

func (b *busy) slot(mixed uint64) *atomic.Uint64 {
	return &b[bits.RotateLeft64(mixed*0xc2b2ae3d27d4eb4f, busyBits)&(1<<busyBits-1)]
}

func (b *busy) has(mixed uint64) bool { return b.slot(mixed).Load() == mixed }
func (b *busy) enter(mixed uint64)    { b.slot(mixed).Store(mixed) }
func (b *busy) leave(mixed uint64)    { b.slot(mixed).Store(0) }
