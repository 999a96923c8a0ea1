package gpu

import (
	"errors"
	"time"
)

// ErrClosed is the error of batches after Close.
var ErrClosed = errors.New("gpu: the evaluator is closed")

// Stats is what an evaluator's devices have done since it was made.
type Stats struct {
	Devices []DeviceStats
}

// DeviceStats counts for one device.
type DeviceStats struct {
	Name     string // as String of driver.Device has it
	Working  bool   // now; a device that failed is tried again
	Rows     uint64 // positions computed
	Launches uint64
	Faults   uint64 // how often its context was lost: a failed call or launch, or an answer that cannot be
	Tries    uint64 // to make a new context after that
	Rebuilt  uint64 // how often one worked
	Last     string // the last fault, if there was one
}

// retry says how long a device is left alone after a fault: first, and twice as long each time that it fails again, up to
// most. After working for calm it begins anew.
type retry struct{ first, most, calm time.Duration }

var usualRetry = retry{100 * time.Millisecond, 30 * time.Second, time.Minute}

// after is the wait after one that took last, where the device worked for so long since.
func (r retry) after(last, worked time.Duration) time.Duration {
	if last == 0 || worked >= r.calm {
		return r.first
	}
	return min(2*last, r.most)
}
