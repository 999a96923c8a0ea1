//go:build gpu && cgo && linux && amd64

package driver

import (
	"errors"
	"runtime"
	"sync"

	"gorgonia.org/cu"
)

// Worker is an operating system's thread with a context of one device. The driver ties contexts to threads, so all that
// is done with the device is done through Do.
//
// After a failure on the device (a kernel that faults, an error of the memory) every call in that context fails, and
// all that it holds is lost: Close the Worker and Start another.
type Worker struct {
	jobs  chan func(*Context)
	quit  chan struct{}
	ended chan struct{}
	close sync.Once
	err   error // of destroying the context; to be read after ended
}

// ErrClosed is Do's answer after Close.
var ErrClosed = errors.New("driver: the worker is closed")

// Start makes a context of the device, and a thread for it.
func (d Device) Start() (*Worker, error) {
	w := &Worker{jobs: make(chan func(*Context)), quit: make(chan struct{}), ended: make(chan struct{})}
	started := make(chan error)
	go w.run(cu.Device(d.Index), started)
	if err := <-started; err != nil {
		<-w.ended
		return nil, err
	}
	return w, nil
}

func (w *Worker) run(d cu.Device, started chan<- error) {
	defer close(w.ended)
	runtime.LockOSThread() // for good: the thread ends with the goroutine, and with it what the driver keeps there
	ctx, err := d.MakeContext(cu.SchedAuto)
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

// Do runs the function on the Worker's thread, one at a time, and returns its error. The Context is good until it
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

// Close waits for the function that runs, if one does, and destroys the context: memory, modules, streams and events in
// it are gone. A second call returns what the first did.
func (w *Worker) Close() error {
	w.close.Do(func() { close(w.quit) })
	<-w.ended
	return w.err
}
