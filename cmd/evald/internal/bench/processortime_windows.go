package bench

import (
	"time"

	"golang.org/x/sys/windows"
)

// processorTime returns the processor time that this process has used, summed over all cores.
func processorTime() time.Duration {
	var created, exited, kernel, user windows.Filetime
	if windows.GetProcessTimes(windows.CurrentProcess(), &created, &exited, &kernel, &user) != nil {
		return 0
	}
	return spent(kernel) + spent(user)
}

// spent converts a span of time, which Windows counts in units of 100 ns.
func spent(t windows.Filetime) time.Duration {
	return 100 * time.Duration(uint64(t.HighDateTime)<<32|uint64(t.LowDateTime))
}
