package conv

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Pool owns the goroutines and the memory of the kernels. After the first call with a shape, nothing is allocated for it
// again. A Pool runs one kernel at a time; calls from several goroutines wait for each other.
type Pool struct {
	kernels *kernels
	wake    chan struct{} // one element for each goroutine that shall take part in a step
	busy    sync.WaitGroup
	ended   sync.WaitGroup
	workers chan *worker // idle workers

	call   sync.Mutex // guards the fields below, which belong to the current call
	job    job
	step   func(*job, *worker, int)
	pieces int
	next   atomic.Int64
}

// worker is what one thread owns: its scratch memory, and the sizes that it passes to a kernel.
type worker struct {
	scratch buffer
	d       dims
}

// buffer is memory that grows as needed.
type buffer struct{ floats []float32 }

func (b *buffer) of(size int) []float32 {
	if cap(b.floats) < size {
		b.floats = make([]float32, size)
	}
	return b.floats[:size]
}

// NewPool starts a pool that works on the given number of threads, including the caller's; 0 means GOMAXPROCS. The caller
// must Close it.
func NewPool(threads int) *Pool { return newPool(threads, fastest()) }

func newPool(threads int, k *kernels) *Pool {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	p := &Pool{kernels: k, wake: make(chan struct{}, threads), workers: make(chan *worker, threads)}
	for range threads {
		p.workers <- &worker{}
	}
	for range threads - 1 {
		p.ended.Go(func() {
			for range p.wake {
				p.work()
				p.busy.Done()
			}
		})
	}
	return p
}

// Close ends the pool's goroutines. The pool must not be used afterwards.
func (p *Pool) Close() {
	close(p.wake)
	p.ended.Wait()
}

// run runs a step of the job for every piece from 0 to pieces-1, on all threads. Which thread takes which piece is
// undefined, so no result may depend on it.
func (p *Pool) run(pieces int, step func(*job, *worker, int)) {
	p.step, p.pieces = step, pieces
	p.next.Store(0)
	for range min(cap(p.workers), pieces) - 1 {
		p.busy.Add(1)
		p.wake <- struct{}{}
	}
	p.work()
	p.busy.Wait()
}

func (p *Pool) work() {
	w := <-p.workers
	for {
		piece := int(p.next.Add(1)) - 1
		if piece >= p.pieces {
			break
		}
		p.step(&p.job, w, piece)
	}
	p.workers <- w
}
