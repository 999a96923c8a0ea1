package gpu

import (
	"errors"
	"time"
)

// Options select the devices of a Backend and its callbacks. The zero value is all devices and no callbacks.
type Options struct {
	Devices []int             // the driver's numbers; none: all devices
	Kernel  string            // the kernel of that name (Variants) on every device; empty: the best. Boards that it does not hold are errors
	Trial   []string          // command line of a program that calls Trial; empty: kernels are not tried (see New)
	Event   func(text string) // called when a device fails that has worked, and when it works again; concurrently
	Lost    func(err error)   // called once, when all devices are lost to this process (DeviceStats.Lost)
}

// withoutVariable names the environment variable with kernels that are not used, such as hopper_64,hopper_128. The kernel that a
// network needs on a board stays.
const withoutVariable = "EVALD_GPU_WITHOUT"

// errClosed is returned for batches after Close.
var errClosed = errors.New("gpu: the evaluator is closed")

// DeviceStats count what one device has done since the evaluator was made.
type DeviceStats struct {
	Index    int     // the driver's number
	Name     string  // as in driver.Device.String
	Kernel   string  // for 7x6
	Small    []Sized // other kernels for smaller batches of 7x6, by ascending size
	Times    Samples // of launches for 7x6 by kernel, as measured on a device of this kind; nil: they are predicted
	Working  bool    // works now; a device that failed is tried again unless it is Lost
	Lost     bool    // given up: no context can be made any more, which needs a new process
	Rows     uint64  // positions computed
	Launches uint64
	Busy     time.Duration // while a launch was under way
	Faults   uint64        // number of lost contexts: after a failed call or launch, or an impossible answer
	Tries    uint64        // attempts to make a new context after a fault
	Rebuilt  uint64        // attempts that succeeded
	Last     string        // the last fault, if any
}

// Sized is the kernel for batches of at most Most positions.
type Sized struct {
	Kernel string `json:"kernel"`
	Most   int    `json:"most"`
}

// Timing is the time that a device alone takes for positions that are already in its memory.
type Timing struct {
	Kernel  string
	Boards  int     // positions per block of threads
	Wave    int     // positions that all multiprocessors compute at a time
	Seconds float64 // of one launch
}

// Waves is the number of waves for n positions.
func (t Timing) Waves(n int) int { return (n + t.Wave - 1) / t.Wave }
