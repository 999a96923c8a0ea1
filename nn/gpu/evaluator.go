//go:build gpu && cgo && linux && amd64

package gpu

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/nn/net"
)

// Evaluator answers batches with a network on all GPUs of the machine, with Source eval.GPU.
//
// A batch is cut into launches of whole waves, several of which run at once, on one device or several. A position's answer
// does not depend on that.
//
// If a call to the driver fails, a launch takes longer than a minute, or an answer is impossible, the device's current
// batches fail (eval.Fallback then asks the next evaluator) and its context is destroyed. A new context is made and tested,
// after longer and longer waits until it works. While no device works, every batch fails at once.
type Evaluator struct {
	events  func(string)
	devices []*device
	calls   sync.Pool // of *call
	turn    atomic.Uint32

	serves *served

	mu   sync.Mutex // for changes to live
	live atomic.Pointer[[]*session]

	quit   chan struct{}
	closed atomic.Bool
}

// New finds the GPUs and uses those that pass a self-test with the network, which must not change from then on. The notes
// say which GPUs failed, and why. If all failed, the error says so. events, unless nil, is called when a device fails later
// and when it works again.
func New(n *net.Network, events func(string)) (e *Evaluator, notes []error, err error) {
	return NewOnly(n, "", events)
}

// NewOnly is New with the kernel of that name (see Variants) on every device, or the best if the name is empty. Boards that
// it does not hold are errors.
func NewOnly(n *net.Network, kernel string, events func(string)) (e *Evaluator, notes []error, err error) {
	found, err := driver.Find()
	if err != nil {
		return nil, nil, err
	}
	serves := newServed(n)
	serves.only = kernel
	return begin(serves, found.Devices, events, usualRetry)
}

func newEvaluator(n *net.Network, found []driver.Device, events func(string), r retry) (e *Evaluator, notes []error, err error) {
	return begin(newServed(n), found, events, r)
}

// begin starts the devices.
func begin(serves *served, found []driver.Device, events func(string), r retry) (e *Evaluator, notes []error, err error) {
	e = &Evaluator{events: events, serves: serves, quit: make(chan struct{})}
	e.calls.New = func() any { return newCall() }
	e.live.Store(new([]*session))
	started := make([]chan error, len(found))
	for i, info := range found {
		started[i] = make(chan error, 1)
		d := newDevice(e, info, r)
		e.devices = append(e.devices, d)
		go d.run(started[i])
	}
	working := e.devices[:0]
	for i, d := range e.devices {
		if err := <-started[i]; err != nil {
			<-d.ended
			notes = append(notes, err)
			continue
		}
		working = append(working, d)
	}
	e.devices = working
	if len(working) == 0 {
		return nil, nil, errors.Join(notes...)
	}
	return e, notes, nil
}

func (e *Evaluator) say(text string) {
	if e.events != nil {
		e.events(text)
	}
}

// change replaces the list of sessions that callers see.
func (e *Evaluator) change(f func(live []*session) []*session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	live := f(append([]*session(nil), *e.live.Load()...))
	e.live.Store(&live)
}

// Evaluate implements eval.Evaluator. If ctx is cancelled, it returns without waiting for the device.
func (e *Evaluator) Evaluate(ctx context.Context, b *eval.Batch) error {
	if err := b.Ready(ctx); err != nil {
		return err
	}
	if len(b.Pos) == 0 {
		return nil
	}
	if e.closed.Load() {
		return ErrClosed
	}
	c := e.calls.Get().(*call)
	defer e.calls.Put(c)
	return c.run(ctx, e, b)
}

// take returns a free slot of the device that has most of them. If there is none, it waits, or returns nil if wait is false.
func (e *Evaluator) take(ctx context.Context, wait bool) (*slot, error) {
	for {
		live := *e.live.Load()
		if len(live) == 0 {
			return nil, e.noDevice()
		}
		first, best := int(e.turn.Add(1)), (*session)(nil)
		for i := range live {
			if s := live[(first+i)%len(live)]; best == nil || len(s.free) > len(best.free) {
				best = s
			}
		}
		if !wait {
			select {
			case s := <-best.free:
				return s, nil
			default:
				return nil, nil
			}
		}
		select {
		case s := <-best.free:
			return s, nil
		case <-best.dead:
		case <-ctx.Done():
			return nil, fmt.Errorf("evaluate: %w", ctx.Err())
		}
	}
}

// noDevice returns an error that says why no device works.
func (e *Evaluator) noDevice() error {
	if e.closed.Load() {
		return ErrClosed
	}
	errs := make([]error, len(e.devices))
	for i, d := range e.devices {
		errs[i] = d.why()
	}
	return fmt.Errorf("gpu: no device works: %w", errors.Join(errs...))
}

// Stats returns the counts so far.
func (e *Evaluator) Stats() Stats {
	var s Stats
	for _, d := range e.devices {
		s.Devices = append(s.Devices, d.stats())
	}
	return s
}

// String names the kernel for 7x6 and the devices.
func (e *Evaluator) String() string {
	var texts []string
	for _, d := range e.devices {
		kernel := "no kernel"
		if p, err := e.serves.planned(testBoard, targetOf(d.info)); err == nil {
			kernel = p.Kernel.Name
		}
		texts = append(texts, fmt.Sprintf("%s on %v", kernel, d.info))
	}
	return strings.Join(texts, ", ")
}

// Close refuses new batches, waits for those in progress, and frees what the devices hold. If a device is stuck in a launch,
// Close leaves it behind and returns an error. Later calls do nothing.
func (e *Evaluator) Close() error {
	if e.closed.Swap(true) {
		return nil
	}
	close(e.quit)
	var errs []error
	for _, d := range e.devices {
		select {
		case <-d.ended:
			errs = append(errs, d.closing)
		case <-time.After(d.retry.hang):
			errs = append(errs, fmt.Errorf("GPU %d: %w", d.info.Index, errHung))
		}
	}
	return errors.Join(errs...)
}
