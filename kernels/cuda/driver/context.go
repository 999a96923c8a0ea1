//go:build gpu && cgo && linux && amd64

package driver

/*
#include <cuda.h>

static CUresult launch(CUfunction f, unsigned blocks, unsigned threads, unsigned shared, CUstream s, void *argument) {
	void *arguments[] = {argument};
	return cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, shared, s, arguments, NULL);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"gorgonia.org/cu"
)

// Objects of a context. All are handles, which may be copied and are invalid in other contexts.
type (
	Memory   = cu.DevicePtr // an address in the device's memory; arithmetic is allowed
	Module   = cu.Module    // compiled kernels
	Function = cu.Function  // a kernel
	Stream   = cu.Stream    // a queue: its operations run in order, and concurrently with those of other streams
	Event    = cu.Event     // a point in a Stream
)

// Context calls the driver on a Worker's thread. Errors are of type *Error. Calls that take a Stream return before the operation
// is done. If it fails later, a later call returns the error, at the latest Wait.
type Context struct{}

// Alloc allocates n > 0 bytes of the device's memory.
func (*Context) Alloc(n int) (Memory, error) {
	m, err := cu.MemAlloc(int64(n))
	return m, wrap("cuMemAlloc", err)
}

// Free frees memory of Alloc.
func (*Context) Free(m Memory) error { return wrap("cuMemFree", cu.MemFree(m)) }

// Upload copies to the device, and returns when the copy is done.
func (*Context) Upload(to Memory, from []byte) error {
	if err := cu.MemcpyHtoD(to, unsafe.Pointer(unsafe.SliceData(from)), int64(len(from))); err != nil {
		return wrap("cuMemcpyHtoD", err)
	}
	// The driver may return before the copy in stream 0 is done, and other streams do not wait for stream 0.
	return wrap("cuStreamSynchronize", cu.NoStream.Synchronize())
}

// Host is pinned host memory, so that copies to and from the device can run in a Stream.
type Host struct {
	bytes  []byte
	device Memory
}

// Bytes returns the memory, valid until it is freed. During a copy, or a kernel that uses it, it belongs to the device.
func (h Host) Bytes() []byte { return h.bytes }

// Device returns the address at which kernels access this memory directly, or 0 if the device does not support that.
func (h Host) Device() Memory { return h.device }

// AllocHost allocates n > 0 bytes of pinned memory.
func (c *Context) AllocHost(n int) (Host, error) {
	var p unsafe.Pointer
	if err := failed("cuMemHostAlloc", C.cuMemHostAlloc(&p, C.size_t(n), C.CU_MEMHOSTALLOC_DEVICEMAP)); err != nil {
		return Host{}, err
	}
	h := Host{bytes: unsafe.Slice((*byte)(p), n)}
	var address C.CUdeviceptr
	switch result := C.cuMemHostGetDevicePointer(&address, p, 0); result {
	case C.CUDA_SUCCESS:
		h.device = Memory(address)
	case C.CUDA_ERROR_INVALID_VALUE, C.CUDA_ERROR_NOT_SUPPORTED: // not supported by the device; copies still work
	default:
		return Host{}, errors.Join(failed("cuMemHostGetDevicePointer", result), c.FreeHost(h))
	}
	return h, nil
}

// FreeHost frees memory of AllocHost.
func (*Context) FreeHost(h Host) error {
	return wrap("cuMemFreeHost", cu.MemFreeHost(unsafe.Pointer(unsafe.SliceData(h.bytes))))
}

// CopyToDevice queues a copy of the first n bytes.
func (*Context) CopyToDevice(to Memory, from Host, n int, s Stream) error {
	p := unsafe.Pointer(unsafe.SliceData(from.bytes[:n]))
	return wrap("cuMemcpyHtoDAsync", cu.MemcpyHtoDAsync(to, p, int64(n), s))
}

// CopyToHost queues a copy to the first n bytes.
func (*Context) CopyToHost(to Host, from Memory, n int, s Stream) error {
	p := unsafe.Pointer(unsafe.SliceData(to.bytes[:n]))
	return wrap("cuMemcpyDtoHAsync", cu.MemcpyDtoHAsync(p, from, int64(n), s))
}

// Load compiles PTX for the device. The error includes the compiler's messages.
func (*Context) Load(ptx string) (Module, error) {
	said := make([]byte, 8<<10)
	m, err := cu.LoadDataEx(ptx, &cu.JITErrorLogBuffer{Buffer: said})
	runtime.KeepAlive(said)
	err = wrap("cuModuleLoadDataEx", err)
	if text, _, _ := strings.Cut(string(said), "\x00"); err != nil && strings.TrimSpace(text) != "" {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(text))
	}
	return m, err
}

// LoadMachineCode loads a module compiled for the device's architecture. If the driver cannot use it, ok is false and err is nil:
// the PTX may work.
func (*Context) LoadMachineCode(cubin []byte) (m Module, ok bool, err error) {
	m, err = cu.LoadDataEx(string(cubin))
	err = wrap("cuModuleLoadDataEx", err)
	if of := new(Error); errors.As(err, &of) && slices.Contains(unusable, of.Code) {
		return m, false, nil
	}
	return m, err == nil, err
}

// unusable are INVALID_IMAGE, NO_BINARY_FOR_GPU, UNSUPPORTED_PTX_VERSION and INVALID_SOURCE: the errors of drivers for machine
// code of another architecture, or newer than they are.
var unusable = []int{200, 209, 222, 300}

// Unload frees a module of Load.
func (*Context) Unload(m Module) error { return wrap("cuModuleUnload", m.Unload()) }

// Function returns the kernel with that name.
func (*Context) Function(m Module, name string) (Function, error) {
	f, err := m.Function(name)
	if err != nil {
		return f, fmt.Errorf("kernel %s: %w", name, wrap("cuModuleGetFunction", err))
	}
	return f, nil
}

// AllowShared allows blocks of the kernel up to n bytes of shared memory at launch, at most Device.Shared. The default is 48 KiB.
func (*Context) AllowShared(f Function, n int) error {
	// cu does not have this call. A cu.Function is just the driver's handle.
	handle := *(*C.CUfunction)(unsafe.Pointer(&f))
	return failed("cuFuncSetAttribute", C.cuFuncSetAttribute(handle, C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(n)))
}

// Resident returns the number of blocks, with that many threads and bytes of shared memory, that one multiprocessor runs at once.
func (*Context) Resident(f Function, threads, shared int) (int, error) {
	n, err := f.MaxActiveBlocksPerMultiProcessor(threads, int64(shared))
	return n, wrap("cuOccupancyMaxActiveBlocksPerMultiprocessor", err)
}

// Launch queues a kernel in the stream, in blocks with that many threads and bytes of shared memory. Its only argument is the
// struct at this address, which must contain no Go pointers and must not be part of a larger one. It is copied before the call
// returns. Nothing is allocated.
func (*Context) Launch(f Function, blocks, threads, shared int, s Stream, argument unsafe.Pointer) error {
	return failed("cuLaunchKernel", C.launch(*(*C.CUfunction)(unsafe.Pointer(&f)), C.uint(blocks), C.uint(threads), C.uint(shared), *(*C.CUstream)(unsafe.Pointer(&s)), argument))
}

// NewStream creates an empty stream.
func (*Context) NewStream() (Stream, error) {
	s, err := cu.MakeStream(cu.NonBlocking)
	return s, wrap("cuStreamCreate", err)
}

// DestroyStream destroys a stream.
func (*Context) DestroyStream(s Stream) error { return wrap("cuStreamDestroy", s.Destroy()) }

// Wait returns when everything in the stream is done.
func (*Context) Wait(s Stream) error { return wrap("cuStreamSynchronize", s.Synchronize()) }

// Idle reports whether everything in the stream is done, without waiting.
func (*Context) Idle(s Stream) (bool, error) {
	result := C.cuStreamQuery(*(*C.CUstream)(unsafe.Pointer(&s)))
	if result == C.CUDA_ERROR_NOT_READY {
		return false, nil
	}
	return result == C.CUDA_SUCCESS, failed("cuStreamQuery", result)
}

// NewEvent creates an event that measures time.
func (*Context) NewEvent() (Event, error) {
	e, err := cu.MakeEvent(cu.DefaultEvent)
	return e, wrap("cuEventCreate", err)
}

// DestroyEvent destroys an event.
func (*Context) DestroyEvent(e Event) error { return wrap("cuEventDestroy", cu.DestroyEvent(&e)) }

// Record queues the event in the stream.
func (*Context) Record(e Event, s Stream) error { return wrap("cuEventRecord", e.Record(s)) }

// WaitEvent waits for the event.
func (*Context) WaitEvent(e Event) error { return wrap("cuEventSynchronize", e.Synchronize()) }

// Elapsed returns the milliseconds between two events that have happened.
func (*Context) Elapsed(from, to Event) (float64, error) {
	ms, err := from.Elapsed(to)
	return ms, wrap("cuEventElapsedTime", err)
}

// Error is a failed call, or the later report of a failed kernel or copy. After most failures on the device, every later call
// returns the same error until the context is destroyed.
type Error struct {
	Call string // as in the driver's documentation: cuMemAlloc
	Code int    // CUresult
	Name string // of the code: CUDA_ERROR_OUT_OF_MEMORY
	Text string // the driver's description
}

// Fatal reports whether, according to CUDA's documentation, the error leaves the whole process unable to use the device. A new
// context may work nevertheless. If none can be made, as on an H100 after error 700, only a new process helps.
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
