//go:build gpu && cgo && linux && amd64

package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/pattern"
)

// Backend answers batches with a network on all GPUs of the machine, with Source eval.GPU.
//
// A batch is cut into launches of whole waves, several of which run at once, on one device or several. Less than a wave is
// shared by devices that have nothing else to do, if that is faster. Each launch is by the kernel that takes the least time for
// its number of positions (choice). A position's answer does not depend on any of that.
//
// If a call to the driver fails, a launch takes longer than a minute, or an answer is impossible, the device's current batches fail
// (eval.Fallback then asks the next evaluator), and a new context is made and tested, after longer and longer waits. While no device
// works, every batch fails at once. A device is lost, and not tried again, after six attempts in a row that failed with an error that a
// process does not survive (driver.Error.Fatal).
//
// A position for which a number of the network is too large for fp16 fails its batch alone.
type Backend struct {
	options Options
	devices []*device
	lost    atomic.Int32 // devices
	calls   sync.Pool    // of *call
	turn    atomic.Uint32

	serves *served

	mu   sync.Mutex // for changes to live
	live atomic.Pointer[[]*session]

	closed atomic.Bool
}

// New finds the GPUs and uses those of the options that pass a self-test with the network, which must not change from then
// on. The notes say which GPUs failed, and which kernels are not used, and why. If all failed, the error says so.
//
// Before that, a process of the program Options.Trial tries all kernels on a device of each kind, and measures them (tune). A
// kernel that faults or does not end costs that process alone. Without such a program no kernel is tried: those for every GPU
// evaluate, chosen by predicted times, and those for Hopper do not.
func New(n *net.Network, o Options) (e *Backend, notes []error, err error) {
	return start(convolutions{n}, o)
}

// NewTables is New for a network of pattern tables. Answers have the bits of the CPU's, on every device. The kernels run on sm_75 and later.
// Boards other than 7x6x4 are an error.
func NewTables(n *pattern.Network, o Options) (e *Backend, notes []error, err error) {
	return start(ofTables(n), o)
}

func start(n network, o Options) (e *Backend, notes []error, err error) {
	found, err := driver.Find()
	if err != nil {
		return nil, nil, err
	}
	devices, err := found.Select(o.Devices)
	if err != nil {
		return nil, nil, err
	}
	return newEvaluator(n, devices, o, limitsOf(devices))
}

// limitsOf is usualRetry, but times of emulated devices mean nothing: they are measured only for a rehearsal.
func limitsOf(devices []driver.Device) retry {
	r := usualRetry
	if devices[0].Emulated() && os.Getenv("EVALD_FAKE_TRIAL") == "" {
		r.trial = 0
	}
	return r
}

func newEvaluator(n network, found []driver.Device, o Options, r retry) (e *Backend, notes []error, err error) {
	serves := newServed(n)
	serves.only = o.Kernel
	failed.Lock()
	serves.barred = append(strings.FieldsFunc(os.Getenv(withoutVariable), func(r rune) bool { return r == ',' }), failed.kernels...)
	failed.Unlock()
	e = &Backend{options: o, serves: serves}
	e.calls.New = func() any { return newCall() }
	e.live.Store(new([]*session))
	var refused []error
	switch {
	case r.trial == 0 || o.Kernel != "":
	case len(o.Trial) > 0:
		found, refused, notes = e.tune(found, r)
	default:
		notes = e.untried(found)
	}
	for _, info := range found {
		_, _ = serves.planned(testBoard, targetOf(info)) // takes seconds, so what is waited for below is the device alone; its error comes again there
		d := newDevice(e, info, r)
		d.yields = runtime.GOMAXPROCS(0) <= len(found)
		e.devices = append(e.devices, d)
		go d.run()
	}
	working := e.devices[:0]
	for _, d := range e.devices {
		if err := d.wait(); err != nil {
			refused = append(refused, err)
			continue
		}
		working = append(working, d)
	}
	e.devices = working
	if len(working) == 0 {
		return nil, nil, errors.Join(append(notes, refused...)...)
	}
	for _, err := range refused {
		notes = append(notes, fmt.Errorf("%w; the other GPUs evaluate", err))
	}
	return e, notes, nil
}

// wait returns when the first session serves, or says why it does not. If its self-test does not end, the device is left behind.
func (d *device) wait() error {
	select {
	case err := <-d.started:
		if err != nil {
			<-d.ended
		}
		return err
	case <-time.After(d.retry.hang):
		close(d.quit)
		return d.failed(fmt.Errorf("self-test: %w: the device is LOST to this process, and only a new one can use it", errHung), false)
	}
}

func (e *Backend) say(text string) {
	if e.options.Event != nil {
		e.options.Event(text)
	}
}

// change replaces the list of sessions that callers see.
func (e *Backend) change(f func(live []*session) []*session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	live := f(append([]*session(nil), *e.live.Load()...))
	e.live.Store(&live)
}

// Attributes implements eval.Backend. With fewer rows per call the GPU waits for the CPU.
func (*Backend) Attributes() eval.Attributes { return eval.Attributes{Rows: 1024, Invariant: true} }

// Compute implements eval.Backend. If ctx is cancelled, it returns without waiting for the device.
func (e *Backend) Compute(ctx context.Context, b *eval.Batch) error {
	if e.closed.Load() {
		return errClosed
	}
	c := e.calls.Get().(*call)
	defer e.calls.Put(c)
	return c.run(ctx, e, b)
}

// take returns a free slot of the device that has most of them. If there is none, it waits, or returns nil if wait is false.
func (e *Backend) take(ctx context.Context, wait bool) (*slot, error) {
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

// idle is how many devices besides that of a session have nothing to do.
func (e *Backend) idle(but *session) (n int) {
	for _, s := range *e.live.Load() {
		if s != but && len(s.free) == slotsADevice {
			n++
		}
	}
	return n
}

// noDevice returns an error that says why no device works.
func (e *Backend) noDevice() error {
	if e.closed.Load() {
		return errClosed
	}
	errs := make([]error, len(e.devices))
	for i, d := range e.devices {
		d.mu.Lock()
		errs[i] = d.last
		d.mu.Unlock()
	}
	return fmt.Errorf("gpu: %w: %w", eval.ErrUnavailable, errors.Join(errs...))
}

// Stats returns the counts so far, of each device.
func (e *Backend) Stats() (all []DeviceStats) {
	for _, d := range e.devices {
		all = append(all, d.stats())
	}
	return all
}

// String names the kernel for 7x6 and the devices.
func (e *Backend) String() string {
	var texts []string
	for _, d := range e.devices {
		texts = append(texts, fmt.Sprintf("%s on %v", d.kernel(), d.info))
	}
	return strings.Join(texts, ", ")
}

// Close refuses new batches, waits for those in progress, and frees what the devices hold. If a device is stuck in a launch,
// Close leaves it behind and returns an error. Later calls do nothing.
func (e *Backend) Close() error {
	if e.closed.Swap(true) {
		return nil
	}
	for _, d := range e.devices {
		close(d.quit)
	}
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
