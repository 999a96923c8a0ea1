//go:build !linux && !windows

package cpu

import (
	"runtime"
	"time"
)

// Processor returns only the architecture.
func Processor() string { return runtime.GOARCH }

// threadTime returns the elapsed time in place of the thread's processor time.
func threadTime() time.Duration { return sinceStart() }
