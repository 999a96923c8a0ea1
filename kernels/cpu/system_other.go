//go:build !linux

package cpu

import (
	"runtime"
	"time"
)

// Processor is the architecture, because other systems are not asked for the model.
func Processor() string { return runtime.GOARCH }

// threadTime is the time that has passed, because other systems are not asked for that of a thread.
func threadTime() time.Duration { return sinceStart() }
