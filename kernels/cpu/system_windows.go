package cpu

import (
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Processor returns only the architecture.
func Processor() string { return runtime.GOARCH }

var (
	kernel32           = windows.NewLazySystemDLL("kernel32.dll")
	performanceCounter = kernel32.NewProc("QueryPerformanceCounter")
	performanceRate    = kernel32.NewProc("QueryPerformanceFrequency")
)

// threadTime returns the elapsed time in place of the thread's processor time. On Windows Go's clock advances in steps of up to 16 ms, and the
// thread's processor time too, which is longer than a trial.
func threadTime() time.Duration {
	var count, perSecond int64
	ok1, _, _ := performanceCounter.Call(uintptr(unsafe.Pointer(&count)))
	ok2, _, _ := performanceRate.Call(uintptr(unsafe.Pointer(&perSecond)))
	if ok1 == 0 || ok2 == 0 || perSecond <= 0 {
		return sinceStart()
	}
	return time.Duration(float64(count) / float64(perSecond) * float64(time.Second))
}
