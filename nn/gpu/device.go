//go:build gpu && cgo && linux && amd64

package gpu

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/kernels/cuda/driver"
)

// device is one GPU. It works in sessions, one after the other.
type device struct {
	e       *Backend
	info    driver.Device
	retry   retry
	yields  bool          // the threads that poll, one a device, could keep all processors from the callers
	started chan error    // the result of starting the first session
	quit    chan struct{} // closed when the device is wanted no more
	ended   chan struct{}
	refused map[string]error // kernels that failed their self-test; only the session's thread uses it
	closing error            // of destroying the last context; read it after ended

	mu    sync.Mutex
	count DeviceStats // what is counted, and Lost
	last  error       // the last error; nil if there was none
}

// targetOf is what plans must know of a device.
func targetOf(d driver.Device) Target { return Target{d.Major, d.Minor, d.Shared, d.Multiprocessors} }

func newDevice(e *Backend, info driver.Device, r retry) *device {
	return &device{
		e: e, info: info, retry: r, refused: map[string]error{},
		started: make(chan error, 1), quit: make(chan struct{}), ended: make(chan struct{}),
	}
}

// run keeps the device working until quit, or until it is lost. If the first session does not start, run ends.
func (d *device) run() {
	defer close(d.ended)
	defer func() {
		if value := recover(); value != nil { // not of a session, whose errors are handled below: the device cannot be used any more
			err := fault.New(value)
			d.mu.Lock()
			d.last, d.count.Lost = err, true
			d.mu.Unlock()
			select {
			case d.started <- err:
			default: // the first session has started
			}
		}
	}()
	wait := time.Duration(0)
	fatal := 0 // attempts in a row that failed so
	for first := true; ; first = false {
		worked, err := d.live(func() {
			if first {
				d.started <- nil
				return
			}
			d.add(func(c *DeviceStats) { c.Rebuilt++ })
			d.e.say(fmt.Sprintf("GPU %v works again", d.info))
		})
		if err == nil {
			return
		}
		if first && worked == 0 {
			d.started <- err
			return
		}
		if of, ok := errors.AsType[*driver.Error](err); ok && of.Fatal() && worked == 0 {
			fatal++
		} else {
			fatal = 0
		}
		if fatal >= d.retry.lose {
			d.lose(err, fatal)
			return
		}
		wait = d.retry.after(wait, worked)
		select {
		case <-time.After(wait):
			d.add(func(c *DeviceStats) { c.Tries++ })
		case <-d.quit:
			return
		}
	}
}

// live runs one session, from a new context to its end, which frees all that is in it. It calls works when the session serves, and
// returns for how long it did. The error says why the session ended; it is nil after quit.
func (d *device) live(works func()) (worked time.Duration, err error) {
	w, err := d.info.Start()
	if err != nil {
		return 0, d.failed(err, false)
	}
	err = w.Do(func(c *driver.Context) error {
		s := newSession(d, c)
		if err := s.open(d.e.serves); err != nil || d.unwanted() {
			return err
		}
		began := time.Now()
		d.e.change(func(live []*session) []*session { return append(live, s) })
		works()
		err := s.loop()
		reason := s.over(err)
		s.stop(reason)
		worked = max(1, time.Since(began))
		if err != nil {
			return reason
		}
		return nil
	})
	closing := w.Close()
	if err == nil {
		d.closing = closing
	} else if worked == 0 {
		err = d.failed(err, false)
	}
	return worked, err
}

// unwanted reports whether the device was left behind, or the evaluator closed.
func (d *device) unwanted() bool {
	select {
	case <-d.quit:
		return true
	default:
		return false
	}
}

// add changes the counts.
func (d *device) add(f func(*DeviceStats)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(&d.count)
}

// failed adds the device's name to an error and stores it. If the device was working, it also counts and reports a fault.
func (d *device) failed(err error, worked bool) error {
	err = fmt.Errorf("GPU %d: %w", d.info.Index, err)
	d.mu.Lock()
	d.last = err
	if worked {
		d.count.Faults++
	}
	d.mu.Unlock()
	if worked {
		d.e.say(fmt.Sprintf("%v; it is tried again until it works", err))
	}
	return err
}

// lose gives up the device after this number of failures in a row, the last with err.
func (d *device) lose(err error, times int) {
	err = fmt.Errorf("%w; %d attempts to use it again have failed: it is LOST to this process, and only a new one can use it", err, times)
	d.mu.Lock()
	d.last, d.count.Lost = err, true
	d.mu.Unlock()
	d.e.say(err.Error())
	if int(d.e.lost.Add(1)) == len(d.e.devices) && d.e.options.Lost != nil {
		d.e.options.Lost(d.e.noDevice())
	}
}

// kernel names the kernel for large batches of 7x6.
func (d *device) kernel() string {
	p, err := d.e.serves.planned(testBoard, targetOf(d.info))
	if err != nil {
		return "no kernel"
	}
	return p.Kernel.Name
}

func (d *device) stats() DeviceStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.count
	s.Index, s.Name, s.Kernel, s.Small, s.Times = d.info.Index, d.info.String(), d.kernel(), d.small(), d.e.serves.measured[targetOf(d.info)]
	s.Working = slices.ContainsFunc(*d.e.live.Load(), func(x *session) bool { return x.device == d })
	if d.last != nil {
		s.Last = d.last.Error()
	}
	return s
}

// small says which other kernels are for smaller batches of 7x6.
func (d *device) small() (small []Sized) {
	p, err := d.e.serves.planned(testBoard, targetOf(d.info))
	if err != nil {
		return nil
	}
	for _, s := range p.sizes {
		name := p.plans[s.plan].Kernel.Name
		if n := len(small); n > 0 && small[n-1].Kernel == name {
			small[n-1].Most = s.most
		} else {
			small = append(small, Sized{name, s.most})
		}
	}
	return small[:len(small)-1] // the last one is for all larger batches
}

// retry says how long to wait before a device is tried again after a fault: first, then twice as long after each failure, up
// to most. After the device has worked for calm, the wait is first again. A launch that takes longer than hang is a fault.
// After lose attempts in a row that failed with a fatal error the device is lost. If trial is not 0, kernels are measured before
// the device serves, and one that takes longer than trial for a step of that is not used.
type retry struct {
	first, most, calm, hang time.Duration
	lose                    int
	trial                   time.Duration
}

// usualRetry loses a device after waits of 6.3 seconds in all.
var usualRetry = retry{100 * time.Millisecond, 30 * time.Second, time.Minute, time.Minute, 6, 30 * time.Second}

// after returns the next wait, if the last wait was last and the device has worked that long since.
func (r retry) after(last, worked time.Duration) time.Duration {
	if last == 0 || worked >= r.calm {
		return r.first
	}
	return min(2*last, r.most)
}
