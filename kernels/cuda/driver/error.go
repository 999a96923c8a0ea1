//go:build gpu && cgo && linux && amd64

package driver

// #include <cuda.h>
import "C"

import (
	"fmt"
	"reflect"
	"slices"
)

// Error is a call that failed, or that reports the failure of an earlier kernel or copy. After most failures on the device
// every later call returns the same error until the context is destroyed.
type Error struct {
	Call string // as in the driver's documentation: cuMemAlloc
	Code int    // CUresult
	Name string // of the code: CUDA_ERROR_OUT_OF_MEMORY
	Text string // the driver's description
}

// Fatal reports whether the error leaves the whole process unable to use the device, as CUDA says of it. A new context works
// nevertheless on most machines; if none can be made, only a new process helps.
func (e *Error) Fatal() bool { return slices.Contains(fatal, e.Code) }

// fatal are ECC_UNCORRECTABLE, NVLINK_UNCORRECTABLE, ILLEGAL_ADDRESS, LAUNCH_TIMEOUT, ASSERT, HARDWARE_STACK_ERROR to
// LAUNCH_FAILED, and UNKNOWN.
var fatal = []int{214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text) }

// wrap adds the name of the call and the driver's description to an error of cu.
func wrap(call string, err error) error {
	if err == nil {
		return nil
	}
	v := reflect.ValueOf(err)
	if !v.CanInt() { // cu's type of results is an unexported int
		return fmt.Errorf("%s: %w", call, err)
	}
	return failed(call, C.CUresult(v.Int()))
}

// failed is nil after a success.
func failed(call string, result C.CUresult) error {
	if result == C.CUDA_SUCCESS {
		return nil
	}
	e := &Error{Call: call, Code: int(result), Name: "unknown error", Text: "no text"}
	var s *C.char
	if C.cuGetErrorName(result, &s) == C.CUDA_SUCCESS && s != nil {
		e.Name = C.GoString(s)
	}
	if C.cuGetErrorString(result, &s) == C.CUDA_SUCCESS && s != nil {
		e.Text = C.GoString(s)
	}
	return e
}
