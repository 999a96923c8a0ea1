//go:build gpu && cgo && linux && amd64

// Package fake is a CUDA driver for tests, made of host memory and host functions; src/state.c says what it does. It is a
// shared library that a test builds and that package driver then finds in place of the real one.
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

// Codes of failures to ask for.
const (
	OutOfMemory    = 2   // costs only the call
	NoDevice       = 100 // of cuInit
	IllegalAddress = 700 // costs the context
	LaunchFailed   = 719 // costs the context
	Spoil          = -1  // of "kernel": it succeeds, and what it wrote is damaged
	Hang           = -2  // of "kernel": it does not end before the next Reset
)

// Driver controls the fake that this process loaded.
type Driver struct{ library unsafe.Pointer }

// Install builds the fake driver in a folder and lets package driver find it. To be called before driver.Find, by
// TestMain.
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

// Compile makes a shared library of C sources. It finds headers in the folders.
func Compile(path string, sources []string, folders ...string) error {
	args := append([]string{"-shared", "-fPIC", "-O1", "-g", "-Wall", "-Wextra", "-pthread", "-o", path}, sources...)
	depends := slices.Clone(sources)
	for _, folder := range folders {
		args = append(args, "-I", folder)
		headers, _ := filepath.Glob(filepath.Join(folder, "*.h"))
		depends = append(depends, headers...)
	}
	for _, name := range depends { // what a test looks at, go test remembers: it runs again after a change
		if _, err := os.Stat(name); err != nil {
			return err
		}
	}
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("gcc %v: %w\n%s", args, err, out)
	}
	return nil
}

// UseKernels names the library whose functions (fake_kernel in fake.h) are the kernels of modules loaded from now on.
func UseKernels(path string) error { return os.Setenv("EVALD_FAKE_KERNELS", path) }

func (d *Driver) function(name string) unsafe.Pointer {
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	return C.dlsym(d.library, cName)
}

// Reset forgets calls, faults and what was counted, not what lives.
func (d *Driver) Reset() { C.call_reset(d.function("fake_reset")) }

// Fail lets the at-th call of that name from now on, the first is 1, and times-1 after it fail with a code; all of them
// where times is negative. Names are those that the library exports, cuMemAlloc_v2, and "kernel" for the execution of
// one. IllegalAddress and LaunchFailed are the answer to every later call in that context as well.
func (d *Driver) Fail(name string, at, times, code int) {
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	C.call_fail(d.function("fake_fail"), cName, C.long(at), C.long(times), C.int(code))
}

// Calls is how often each function was called since the Reset.
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

// Count is how many things there are, or were, that should not be.
type Count struct {
	Contexts, Memory, Host, Modules, Streams, Events int // that live
	Swept                                            int // that their context's end took, since the Reset
	Overruns                                         int // pieces of memory written before or behind, since the Reset
}

// Count counts.
func (d *Driver) Count() Count {
	live := func(kind C.int) int { return int(C.call_live(d.function("fake_live"), kind)) }
	return Count{
		live(C.FAKE_CONTEXT), live(C.FAKE_MEMORY), live(C.FAKE_HOST), live(C.FAKE_MODULE), live(C.FAKE_STREAM), live(C.FAKE_EVENT),
		int(C.call_number(d.function("fake_swept"))), int(C.call_number(d.function("fake_overruns"))),
	}
}
