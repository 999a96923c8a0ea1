package open

import "golang.org/x/sys/unix"

// Limits of a trial: memory in bytes, processor time in seconds.
const (
	trialMemory = 8 << 30
	trialCPU    = 100
)

// limitTrial limits the resources of another process from now on.
func limitTrial(pid int) error {
	for resource, most := range map[int]uint64{unix.RLIMIT_DATA: trialMemory, unix.RLIMIT_CPU: trialCPU, unix.RLIMIT_CORE: 0} {
		if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
			return err
		}
	}
	return nil
}
