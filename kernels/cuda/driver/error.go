//go:build gpu && cgo && linux && amd64

package driver

// #include <cuda.h>
import "C"

import (
	"fmt"
	"reflect"
)

// Error is a call that the driver refused, or, where kernels and copies run on their own, the failure of an earlier
// one. After most failures on the device the driver gives the same answer to every later call until the context is
// destroyed.
type Error struct {
	Call string // as in the driver's documentation: cuMemAlloc
	Code int    // CUresult
	Name string // of the code: CUDA_ERROR_OUT_OF_MEMORY
	Text string // the driver's
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text) }

// wrap gives an error of cu the name of the call and the driver's words.
func wrap(call string, err error) error {
	if err == nil {
		return nil
	}
	v := reflect.ValueOf(err)
	if !v.CanInt() { // cu's type of results is an int that it does not export
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
