//go:build gpu && cgo && linux && amd64

// Package fake is a CUDA driver for tests, made of host memory and host functions; src/state.c describes it. It is a shared
// library that a test builds and package driver opens instead of the real one.
package fake

/*
#include <dlfcn.h>
#include <stdlib.h>
#include "fake.h"

static void call_reset(void *f) { ((void (*)(void))f)(); }
static void call_fail(void *f, const char *name, long at, long times, int code) {
	((void (*)(const char *, long, long, int))f)(name, at, times, code);
}
static const char *call_call(void *f, int i, long *count) { return ((const char *(*)(int, long *))f)(i, count); }
static long call_live(void *f, int kind) { return ((long (*)(int))f)(kind); }
static long call_number(void *f) { return ((long (*)(void))f)(); }
*/
import "C"

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"unsafe"
)

// Codes for Fail.
const (
	OutOfMemory    = 2   // only the call fails
	IllegalAddress = 700 // the context is lost
	LaunchFailed   = 719 // the context is lost
	ClusterSize    = 912 // for "cluster": only the launch fails
	Spoil          = -1  // for "kernel": it succeeds, but its output is damaged
	Hang           = -2  // for "kernel": it does not end before the next Reset
)

// Driver controls the fake driver that this process has loaded.
type Driver struct{ library unsafe.Pointer }

// Install builds the fake driver in a folder and makes package driver find it. TestMain must call it before driver.Find.
func Install(folder string) (*Driver, error) {
	_, file, _, _ := runtime.Caller(0)
	here := filepath.Dir(file)
	include := filepath.Join(here, "../include")
	path := filepath.Join(folder, "libcuda_fake.so")
	sources, err := filepath.Glob(filepath.Join(here, "src/*.c"))
	if err != nil {
		return nil, err
	}
	if err := Compile(path, sources, here, filepath.Join(here, "src"), include); err != nil {
		return nil, err
	}
	if err := os.Setenv("EVALD_CUDA_DRIVER", path); err != nil {
		return nil, err
	}
	cPath := C.CString(path)
	defer C.free(unsafe.Pointer(cPath))
	library := C.dlopen(cPath, C.RTLD_NOW|C.RTLD_LOCAL)
	if library == nil {
		return nil, fmt.Errorf("open %s: %s", path, C.GoString(C.dlerror()))
	}
	return &Driver{library}, nil
}

// Compile builds a shared library from C sources. folders are searched for headers.
func Compile(path string, sources []string, folders ...string) error {
	args := append([]string{"-shared", "-fPIC", "-O1", "-g", "-Wall", "-Wextra", "-pthread", "-o", path}, sources...)
	depends := slices.Clone(sources)
	for _, folder := range folders {
		args = append(args, "-I", folder)
		headers, _ := filepath.Glob(filepath.Join(folder, "*.h"))
		depends = append(depends, headers...)
	}
	for _, name := range depends { // go test records the files that a test opens, and reruns the test if they change
		if _, err := os.Stat(name); err != nil {
			return err
		}
	}
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("gcc %v: %w\n%s", args, err, out)
	}
	return nil
}

// UseKernels names the library whose functions (fake_kernel in fake.h) become the kernels of modules loaded later.
func UseKernels(path string) error { return os.Setenv("EVALD_FAKE_KERNELS", path) }

func (d *Driver) function(name string) unsafe.Pointer {
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	return C.dlsym(d.library, cName)
}

// Reset clears calls, faults and counts. Existing objects remain.
func (d *Driver) Reset() { C.call_reset(d.function("fake_reset")) }

// Fail makes calls with that name fail with a code: the at-th from now on, starting from 1, and the times-1 calls after it, or
// all calls after it if times is negative. Names are those that the library exports, such as cuMemAlloc_v2; "kernel" for the
// execution of any kernel; a kernel's own name for its execution; and "cluster" for the launch of a kernel with clusters. After
// IllegalAddress and LaunchFailed all later calls in that context fail too.
func (d *Driver) Fail(name string, at, times, code int) {
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	C.call_fail(d.function("fake_fail"), cName, C.long(at), C.long(times), C.int(code))
}

// Calls returns the number of calls of each function since the last Reset.
func (d *Driver) Calls() map[string]int {
	calls := map[string]int{}
	var n C.long
	for i := 0; ; i++ {
		name := C.call_call(d.function("fake_call"), C.int(i), &n)
		if name == nil {
			return calls
		}
		if n > 0 {
			calls[C.GoString(name)] = int(n)
		}
	}
}

// Count counts objects that still exist, and mistakes.
type Count struct {
	Contexts, Memory, Host, Modules, Streams, Events int // still existing
	Swept                                            int // objects that were freed only with their context, since the last Reset
	Overruns                                         int // pieces of memory with a write before or after them, since the last Reset
}

// Count returns the counts.
func (d *Driver) Count() Count {
	live := func(kind C.int) int { return int(C.call_live(d.function("fake_live"), kind)) }
	return Count{
		live(C.FAKE_CONTEXT), live(C.FAKE_MEMORY), live(C.FAKE_HOST), live(C.FAKE_MODULE), live(C.FAKE_STREAM), live(C.FAKE_EVENT),
		int(C.call_number(d.function("fake_swept"))), int(C.call_number(d.function("fake_overruns"))),
	}
}
