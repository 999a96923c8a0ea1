package cpu

import "golang.org/x/sys/unix"

// has reports whether the kernel says that the processor has a feature.
func has(f feature) bool {
	known, err := unix.SysctlUint32("hw.optional.arm." + f.name)
	return err == nil && known == 1
}
