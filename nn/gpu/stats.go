package gpu

import "errors"

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

// Timing is what a device alone takes for positions that are in its memory.
type Timing struct {
	Kernel  string
	Boards  int     // positions that a block of threads takes at a time
	Wave    int     // positions that all multiprocessors take at a time
	Seconds float64 // of one launch
}

// Waves is how many waves n positions are.
func (t Timing) Waves(n int) int { return (n + t.Wave - 1) / t.Wave }
