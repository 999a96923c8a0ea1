// Package driver is the CUDA driver, where there is one.
//
// A program built with the tag gpu starts on every machine: it needs no CUDA library to be built or to run. Find opens
// the driver's library while the program runs, and says why where that fails. A Worker then is an operating system's
// thread with a context of a device; the functions of a Context are the driver's, through gorgonia.org/cu.
//
// The tag needs cgo on linux/amd64, and a compiler and a linker that are told where our cuda.h and our loader are; make
// build does that. Without the tag Find says so. EVALD_CUDA_DRIVER names another library than the system's: an
// installation at an uncommon place, or the fake driver of the tests (see fake).
package driver

import (
	"errors"
	"fmt"
	"strings"
)

// Driver is a CUDA driver that was found and initialised.
type Driver struct {
	Library string   `json:"library"` // the name or path under which it was found
	Version int      `json:"version"` // of CUDA that it implements: 12040 is 12.4
	Devices []Device `json:"devices"` // at least one
}

// ErrNone is what Find's error is where there is no GPU: no driver, no device, or a program that was built without support.
// Any other error of Find is about a GPU that should work, or about a driver that was asked for by name.
var ErrNone = errors.New("no GPU")

// none is an error that is ErrNone and says why.
type none string

func (n none) Error() string        { return string(n) }
func (n none) Is(target error) bool { return target == ErrNone }

// Device is a GPU.
type Device struct {
	Index           int    `json:"index"` // as the driver counts, from 0
	Name            string `json:"name"`
	Major           int    `json:"major"` // compute capability: 9 and 0 are sm_90
	Minor           int    `json:"minor"`
	Memory          int64  `json:"memory_bytes"`
	Multiprocessors int    `json:"multiprocessors"`
	Shared          int    `json:"shared_bytes"` // shared memory that one block may ask for
}

func (d Device) String() string {
	return fmt.Sprintf("%d: %s, sm_%d%d, %d multiprocessors, %.1f GiB", d.Index, d.Name, d.Major, d.Minor, d.Multiprocessors, float64(d.Memory)/(1<<30))
}

// Emulated says that this is no GPU, but a device of the fake driver, which computes on the CPU.
func (d Device) Emulated() bool { return strings.HasPrefix(d.Name, "Fake GPU") }
