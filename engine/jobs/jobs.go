// Package jobs runs work on a bounded number of goroutines, until the first error or until a context ends. A Pool and Each work on a known
// number of items; a Stream works on items while it reads further ones. It imports nothing of ours.
//
// # Decisions
//
// A goroutine that runs out of items joins another call of its Pool. Otherwise a call that started while all goroutines were busy would
// have only its caller's goroutine, even after others have become idle.
//
// Each worker has a number, so that callers can give each worker its own memory without a lock.
//
// A panic of an item is its error, of type *fault.Error, because it would end the process in a
// goroutine that the caller cannot recover. What the worker had in its memory then is not sound:
// work makes it anew.
package jobs

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evald/evald/engine/fault"
)

// Pool runs jobs for any number of callers with a fixed total number of goroutines. In steady state a call allocates nothing.
type Pool[J any] struct {
	work    func(worker int, job J, first, last int) error
	workers chan int   // numbers of the workers that are idle
	calls   *sync.Pool // of *call[J]; they do not refer to this Pool, because the runtime keeps a sync.Pool and its content for two collections

	mu     sync.Mutex
	active []*call[J] // calls that workers may join, the oldest first
}

// NewPool makes a pool of the given number of workers, from 1. work handles the items from first up to last. Its worker is a number below
// workers that no concurrent call of work has.
func NewPool[J any](workers int, work func(worker int, job J, first, last int) error) *Pool[J] {
	p := &Pool[J]{work: work, workers: make(chan int, workers), calls: &sync.Pool{New: newCall[J]}}
	for i := range workers {
		p.workers <- i
	}
	return p
}

// Workers is the maximum number of goroutines that work at once, over all callers.
func (p *Pool[J]) Workers() int { return cap(p.workers) }

// Do works on items 0 to n-1 of a job, in blocks of at most block items. It waits until a worker is idle, works in the caller's goroutine,
// and lets other idle workers join. Workers claim blocks in order, and claim none after an error. Do returns the error of the lowest failed
// block, so the error does not depend on timing. If ctx ends before all items are claimed, the error is ctx.Err().
func (p *Pool[J]) Do(ctx context.Context, job J, n, block int) error {
	var worker int
	select {
	case worker = <-p.workers:
	case <-ctx.Done():
		return ctx.Err()
	}
	c := p.calls.Get().(*call[J])
	defer p.calls.Put(c)
	c.pool, c.ctx, c.job, c.n, c.block = p, ctx, job, n, block
	c.next.Store(0)
	c.stop.Store(false)
	shared := n > block
	if shared { // other workers may join
		p.mu.Lock()
		p.active = append(p.active, c)
		p.mu.Unlock()
		for range min(cap(p.workers), (n+block-1)/block) - 1 {
			if len(p.workers) == 0 {
				break
			}
			c.others.Add(1)
			go c.help()
		}
	}
	c.run(worker)
	if shared {
		p.mu.Lock()
		p.active = slices.DeleteFunc(p.active, func(other *call[J]) bool { return other == c })
		p.mu.Unlock()
	}
	p.release(worker)
	c.others.Wait()
	return c.end()
}

// release makes a worker idle. If a call has unclaimed items, a worker joins it.
func (p *Pool[J]) release(worker int) {
	p.workers <- worker
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.active {
		if !c.stop.Load() && int(c.next.Load()) < c.n {
			c.others.Add(1)
			go c.help()
			return
		}
	}
}

// call is one call of Do. Its memory is reused.
type call[J any] struct {
	pool     *Pool[J]
	help     func() // join
	ctx      context.Context
	job      J
	n, block int

	others sync.WaitGroup // goroutines that help the caller
	next   atomic.Int64   // the first unclaimed item
	stop   atomic.Bool

	mu  sync.Mutex
	at  int // first item of the failed block
	err error
}

func newCall[J any]() any {
	c := new(call[J])
	c.help = c.join // made once, because a closure for each goroutine would be an allocation
	return c
}

func (c *call[J]) end() error {
	var none J
	err := c.err
	c.pool, c.ctx, c.job, c.err = nil, nil, none, nil
	return err
}

func (c *call[J]) fail(item int, err error) {
	c.stop.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil || item < c.at {
		c.at, c.err = item, err
	}
}

// join works on the call, unless all workers are busy.
func (c *call[J]) join() {
	defer c.others.Done()
	select {
	case worker := <-c.pool.workers:
		c.run(worker)
		c.pool.release(worker)
	default:
	}
}

func (c *call[J]) run(worker int) {
	first := 0
	defer func() {
		if value := recover(); value != nil {
			c.fail(first, fault.New(value))
		}
	}()
	for !c.stop.Load() {
		first = int(c.next.Add(int64(c.block))) - c.block
		if first >= c.n {
			return
		}
		err := c.ctx.Err()
		if err == nil {
			err = c.pool.work(worker, c.job, first, min(first+c.block, c.n))
		}
		if err != nil {
			c.fail(first, err)
			return
		}
	}
}

// Each calls work for items 0 to n-1, in order, with at most workers calls at once. The first error cancels the context of the other calls,
// and Each returns that error when they have ended. If ctx ends first, the error is ctx.Err().
func Each(ctx context.Context, workers, n int, work func(ctx context.Context, worker, item int) error) error {
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	pool := NewPool(max(1, min(workers, n)), func(worker int, _ struct{}, item, _ int) (err error) {
		defer func() {
			if err != nil {
				stop(err) // only the first cause is kept
			}
		}()
		defer fault.Catch(&err)
		return work(inner, worker, item)
	})
	if err := pool.Do(inner, struct{}{}, n, 1); err == nil {
		return nil
	}
	if first := context.Cause(inner); first != context.Cause(ctx) {
		return first
	}
	return ctx.Err()
}

// grace is the time that work in progress has after an interrupt.
const grace = time.Second

// Finishing returns a context for work that began before ctx ends. The returned context ends a second after ctx: short work can finish, and
// long work is cancelled.
func Finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	release := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return inner, func() { release(); cancel() }
}
