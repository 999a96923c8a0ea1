package open

import "syscall"

// The most that a trial may take: memory in bytes, and processor time in seconds.
const (
	trialMemory = 8 << 30
	trialCPU    = 100
)

// limitTrial bounds what this process may take from now on.
func limitTrial() error {
	for resource, most := range map[int]uint64{syscall.RLIMIT_DATA: trialMemory, syscall.RLIMIT_CPU: trialCPU, syscall.RLIMIT_CORE: 0} {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return err
		}
	}
	return nil
}
