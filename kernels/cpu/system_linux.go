package cpu

import (
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Processor identifies the model of this machine's processors, for people and for files of measurements.
func Processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 1<<16)) // the first processor will do
	return identity(string(text))
}

// identity is what /proc/cpuinfo says of the model of the first processor, on amd64 and arm64.
func identity(cpuinfo string) string {
	var values []string
	first, _, _ := strings.Cut(cpuinfo, "\n\n")
	for line := range strings.Lines(first) {
		key, value, _ := strings.Cut(line, ":")
		if slices.Contains([]string{
			"vendor_id", "cpu family", "model", "model name", "stepping", "CPU implementer", "CPU variant", "CPU part", "CPU revision",
		}, strings.TrimSpace(key)) {
			values = append(values, strings.TrimSpace(value))
		}
	}
	return strings.Join(values, " ")
}

// threadTime is the processor time of this thread, which does not pass while others have the processor.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return sinceStart()
	}
	return time.Duration(t.Nano())
}
