package cpu

import "golang.org/x/sys/unix"

// hasBF16 reports whether the kernel says that the processor has FEAT_BF16.
func hasBF16() bool {
	const key, flag = 26, 1 << 14 // AT_HWCAP2, HWCAP2_BF16
	auxiliary, err := unix.Auxv()
	if err != nil {
		return false
	}
	for _, a := range auxiliary {
		if a[0] == key {
			return a[1]&flag != 0
		}
	}
	return false
}
