package conv

import (
	"context"
	"runtime"
	"sync"

	"github.com/evald/evald/engine/jobs"
)

// Pool owns the kernels' memory and limits the number of their goroutines. It allocates memory at the first call with a shape, and none at
// later ones. A Pool runs one kernel at a time; concurrent calls wait for each other.
type Pool struct {
	kernels *kernels
	workers []worker
	pool    *jobs.Pool[step]

	call sync.Mutex // guards job, which belongs to the current call
	job  job
}

// step computes a piece of a job.
type step func(*job, *worker, int)

// worker is a goroutine's scratch memory, and the sizes that it passes to a kernel.
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

// NewPool returns a pool that uses the given number of threads, including the caller's; 0 means GOMAXPROCS.
func NewPool(threads int) *Pool { return newPool(threads, fastest()) }

func newPool(threads int, k *kernels) *Pool {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	p := &Pool{kernels: k, workers: make([]worker, threads)}
	p.pool = jobs.NewPool(threads, func(worker int, s step, piece, _ int) error {
		s(&p.job, &p.workers[worker], piece)
		return nil
	})
	return p
}

// run runs a step of the job for every piece from 0 to pieces-1, on all threads. The threads take pieces in an undefined order, so no
// result may depend on it.
func (p *Pool) run(pieces int, s step) {
	if err := p.pool.Do(context.Background(), s, pieces, 1); err != nil {
		panic(err) // a panic of a step: steps have no other errors
	}
}
