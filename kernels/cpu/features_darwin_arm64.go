package cpu

import "golang.org/x/sys/unix"

// has reports whether the processor has a feature, according to the operating system.
func has(f feature) bool {
	known, err := unix.SysctlUint32("hw.optional.arm." + f.name)
	return err == nil && known == 1
}
