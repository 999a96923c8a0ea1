//go:build gpu && cgo && linux && amd64

package driver

import (
	"errors"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
	"gorgonia.org/cu"
)

// Worker is an operating system thread with a context of one device. The driver ties contexts to threads, so all work on the
// device goes through Do.
//
// After a failure on the device (a kernel that faults, a memory error), every call in that context fails, and its contents are
// lost: Close the Worker and Start another one.
type Worker struct {
	jobs  chan func(*Context)
	quit  chan struct{}
	ended chan struct{}
	close sync.Once
	err   error // of destroying the context; valid after ended
}

// ErrClosed is returned by Do after Close.
var ErrClosed = errors.New("driver: the worker is closed")

// Start creates a context of the device, and a thread for it.
func (d Device) Start() (*Worker, error) {
	w := &Worker{jobs: make(chan func(*Context)), quit: make(chan struct{}), ended: make(chan struct{})}
	started := make(chan error)
	go w.run(d, started)
	if err := <-started; err != nil {
		<-w.ended
		return nil, err
	}
	return w, nil
}

func (w *Worker) run(d Device, started chan<- error) {
	defer close(w.ended)
	runtime.LockOSThread() // never unlocked: the thread, and the driver's state in it, end with the goroutine
	prefer(d.Node)
	ctx, err := cu.Device(d.Index).MakeContext(cu.SchedAuto)
	started <- wrap("cuCtxCreate", err)
	if err != nil {
		return
	}
	c := &Context{}
	for {
		select {
		case job := <-w.jobs:
			job(c)
		case <-w.quit:
			w.err = wrap("cuCtxDestroy", ctx.Destroy())
			return
		}
	}
}

// prefer makes the kernel allocate this thread's memory, including pinned memory, on a NUMA node while that has some, so that
// copies between it and the device do not cross to another node. Without a node, or where a container forbids the call, memory
// comes from the node on which the thread runs.
func prefer(node int) {
	if node < 0 || node > 63 {
		return
	}
	const preferred = 1 // MPOL_PREFERRED
	mask := uint64(1) << node
	_, _, _ = unix.Syscall(unix.SYS_SET_MEMPOLICY, preferred, uintptr(unsafe.Pointer(&mask)), 65)
}

// Do runs the function on the Worker's thread, one at a time, and returns its error. The Context is valid until the function
// returns.
func (w *Worker) Do(f func(c *Context) error) error {
	done := make(chan error, 1)
	select {
	case w.jobs <- func(c *Context) { done <- f(c) }:
		return <-done
	case <-w.quit:
		return ErrClosed
	}
}

// Close waits for the function in progress, if any, and destroys the context with all its memory, modules, streams and events.
// Later calls return the same result.
func (w *Worker) Close() error {
	w.close.Do(func() { close(w.quit) })
	<-w.ended
	return w.err
}
