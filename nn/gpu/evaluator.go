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

	current  atomic.Pointer[version]
	swapping sync.Mutex

	mu   sync.Mutex // for changes to live
	live atomic.Pointer[[]*session]

	quit   chan struct{}
	closed atomic.Bool
}

// New finds the GPUs and uses those that pass a self-test with the network, which must not change from then on. The notes
// say which GPUs failed, and why. If all failed, the error says so. events, unless nil, is called when a device fails later
// and when it works again.
func New(n *net.Network, events func(string)) (e *Evaluator, notes []error, err error) {
	found, err := driver.Find()
	if err != nil {
		return nil, nil, err
	}
	return newEvaluator(n, found.Devices, events, usualRetry)
}

func newEvaluator(n *net.Network, found []driver.Device, events func(string), r retry) (e *Evaluator, notes []error, err error) {
	e = &Evaluator{events: events, quit: make(chan struct{})}
	e.calls.New = func() any { return newCall() }
	e.live.Store(new([]*session))
	e.current.Store(newVersion(n))
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

// hold returns the current version, which the caller must release.
func (e *Evaluator) hold() *version {
	for {
		if v := e.current.Load(); v.hold() {
			return v
		}
	}
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
	v := e.hold()
	defer v.release()
	c := e.calls.Get().(*call)
	defer e.calls.Put(c)
	return c.run(ctx, e, v, b)
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

// Swap replaces the network; the new one must not change from then on. It is first loaded and tested on every device. If
// that fails, the old network stays and the error says why. Batches in progress are answered by the network that they began
// with. Swap returns when the old network is freed, or with the context's error after the new network has taken over.
func (e *Evaluator) Swap(ctx context.Context, n *net.Network) error {
	e.swapping.Lock()
	defer e.swapping.Unlock()
	if e.closed.Load() {
		return ErrClosed
	}
	v := newVersion(n)
	for _, d := range e.devices { // done here because it may take long, while devices serve
		if _, err := v.planned(testBoard, targetOf(d.info)); err != nil {
			return err
		}
	}
	err := e.each(func(s *session) (outcome, fatal error) {
		p, err := v.planned(testBoard, targetOf(s.device.info))
		if err != nil {
			return err, nil
		}
		switch err := s.load(p.layout); {
		case err == nil || errors.Is(err, errSelfTest), outOfMemory(err):
			return err, nil // the old network still works
		default:
			return err, err
		}
	})
	old := v
	if err == nil {
		old = e.current.Swap(v)
	}
	old.release()
	select {
	case <-old.unused:
	case <-ctx.Done():
		return errors.Join(err, fmt.Errorf("swap networks: %w", ctx.Err()))
	}
	_ = e.each(func(s *session) (outcome, fatal error) { return nil, s.sweep() }) // a device that fails here reports it itself
	return err
}

// each runs a function on the thread of every session, one after the other, and joins the outcomes. A fatal error ends the
// session.
func (e *Evaluator) each(f func(*session) (outcome, fatal error)) error {
	var errs []error
	for _, s := range *e.live.Load() {
		var outcome error
		o := order{done: make(chan struct{}), do: func() (fatal error) {
			outcome, fatal = f(s)
			return fatal
		}}
		select {
		case s.orders <- o:
			select {
			case <-o.done:
			case <-s.dead:
			}
			if outcome != nil {
				errs = append(errs, fmt.Errorf("GPU %d: %w", s.device.info.Index, outcome))
			}
		case <-s.dead: // its next session will load the current version
		}
	}
	return errors.Join(errs...)
}

// outOfMemory reports whether the error is lack of memory, which leaves the context usable.
func outOfMemory(err error) bool {
	const code = 2 // CUDA_ERROR_OUT_OF_MEMORY
	var failed *driver.Error
	return errors.As(err, &failed) && failed.Code == code
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
	v := e.hold()
	defer v.release()
	var texts []string
	for _, d := range e.devices {
		kernel := "no kernel"
		if p, err := v.planned(testBoard, targetOf(d.info)); err == nil {
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
