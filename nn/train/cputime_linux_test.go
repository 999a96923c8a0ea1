package train

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the CPU time of the process, over all processors.
func cpuTime() time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
