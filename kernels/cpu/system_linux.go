package cpu

import (
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Processor returns the model of this machine's processors, for users and files of measurements.
func Processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 1<<16)) // the entry of the first processor suffices
	return identity(string(text))
}

// identity returns the first processor's model from /proc/cpuinfo, on amd64 and arm64.
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

// threadTime returns this thread's processor time, which excludes the time in which other threads have the processor.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return sinceStart()
	}
	return time.Duration(t.Nano())
}
