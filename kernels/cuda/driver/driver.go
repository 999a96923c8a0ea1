// Package driver gives access to the CUDA driver, if there is one.
//
// A program built with the tag gpu starts on every machine: no CUDA library is needed to build or run it. Find opens the driver's
// library at run time; its error says why that failed. A Worker is an operating system thread with a context of a device. A
// Context's methods are the driver's functions, through gorgonia.org/cu.
//
// The tag needs cgo on linux/amd64, and the paths of our cuda.h and loader for compiler and linker; make build sets them. Without
// the tag, Find returns an error that says so. EVALD_CUDA_DRIVER names the library to use instead of the system's: an
// installation in an unusual place, or the fake driver of the tests (see fake).
//
// # Decisions
//
// gorgonia.org/cu needs cuda.h and -lcuda, and ends a program that starts without a driver. So make build gives it a header of
// ours and a static library of ours under that name: a jump through a table for each function, which Find fills from the driver.
// Until then cuInit succeeds without doing anything, since the real one takes long and most commands need no GPU; every other
// call fails.
//
// The tag is gpu, because cuda is gorgonia's own and needs cuDNN. Without the tag, plain go build and go test work everywhere.
// The Worker is ours, because cu's Ctx panics if a context cannot be made, frees by finalizers, and destroys the context on
// another thread. The calls are cu's functions, except these:
//
//   - cuFuncSetAttribute, cuMemHostAlloc, cuMemHostGetDevicePointer, cuDeviceGetUuid_v2, cuGetErrorName
//     and cuGetErrorString. cu lacks them.
//   - cuLaunchKernel. cu passes eight bytes of each argument, and the only argument of our kernels is a
//     struct. It also allocates twice for each launch.
//   - cuStreamQuery. cu allocates its error NotReady, the usual answer to a thread that polls
//     (TestIdleAllocatesNothing, BenchmarkIdle).
package driver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Driver is an initialised CUDA driver.
type Driver struct {
	Library string   `json:"library"` // the name or path that was opened
	Version int      `json:"version"` // the supported version of CUDA: 12040 is 12.4
	Devices []Device `json:"devices"` // at least one
}

// Folders are where WSL, container runtimes and distributions put the driver's libraries, which the system's loader does not
// always search. Find searches them too.
var Folders = []string{
	"/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/run/opengl-driver/lib",
}

// Files match the device files of GPUs. A machine or a container that has one was given a GPU, whatever the driver's library finds. A
// container without a GPU has none, even if it sees the kernel's driver and has the library.
var Files = "/dev/nvidia[0-9]*"

// ErrNone is Find's error if there is no GPU: no driver, no device, or a program built without GPU support. All other errors of
// Find concern a GPU that should work, or the driver named by EVALD_CUDA_DRIVER.
var ErrNone = errors.New("no GPU")

// none is an ErrNone with a reason.
type none string

func (n none) Error() string        { return string(n) }
func (n none) Is(target error) bool { return target == ErrNone }

// noLibrary is the ErrNone of a machine without a driver. It lists the places searched, and why each failed.
type noLibrary string

func (noLibrary) Error() string {
	return "no CUDA driver library (evald devices -v says where it was searched)"
}
func (noLibrary) Is(target error) bool { return target == ErrNone }

// Details returns Find's error in full: if there is no driver, with the places searched.
func Details(err error) string {
	if n, ok := errors.AsType[noLibrary](err); ok {
		return "no CUDA driver library: " + string(n)
	}
	return err.Error()
}

// Device is a GPU.
type Device struct {
	Index           int    `json:"index"` // the driver's number, from 0, which may differ from nvidia-smi's
	UUID            string `json:"uuid"`  // GPU-..., or MIG-... for a MIG slice, as in nvidia-smi -L
	PCI             string `json:"pci"`   // the address: 0000:01:00.0
	Name            string `json:"name"`
	Major           int    `json:"major"` // compute capability: 9 and 0 are sm_90
	Minor           int    `json:"minor"`
	Memory          int64  `json:"memory_bytes"`
	Multiprocessors int    `json:"multiprocessors"`
	Shared          int    `json:"shared_bytes"` // maximum shared memory of one block
	Node            int    `json:"numa_node"`    // that it is attached to; -1: no NUMA, or unknown
}

// Select returns the devices with these numbers, in that order, or all if numbers is empty. Duplicate numbers and numbers without
// a device are errors.
func (d *Driver) Select(numbers []int) ([]Device, error) {
	if len(numbers) == 0 {
		return d.Devices, nil
	}
	var some []Device
	for i, n := range numbers {
		if n < 0 || n >= len(d.Devices) {
			return nil, fmt.Errorf("GPU %d: must be from 0 to %d: driver %s has %d", n, len(d.Devices)-1, d.Library, len(d.Devices))
		}
		if slices.Contains(numbers[:i], n) {
			return nil, fmt.Errorf("GPU %d: is named twice", n)
		}
		some = append(some, d.Devices[n])
	}
	return some, nil
}

func (d Device) String() string {
	return fmt.Sprintf("%d: %s, sm_%d%d, %d multiprocessors, %.1f GiB", d.Index, d.Name, d.Major, d.Minor, d.Multiprocessors, float64(d.Memory)/(1<<30))
}

// Emulated reports whether this is a device of the fake driver, which computes on the CPU.
func (d Device) Emulated() bool { return strings.HasPrefix(d.Name, "Fake GPU") }
