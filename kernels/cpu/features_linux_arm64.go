package cpu

import "golang.org/x/sys/unix"

// has reports whether the processor has a feature, according to the operating system.
func has(f feature) bool {
	const key = 26 // AT_HWCAP2
	auxiliary, err := unix.Auxv()
	if err != nil {
		return false
	}
	for _, a := range auxiliary {
		if a[0] == key {
			return a[1]&f.flag != 0
		}
	}
	return false
}
