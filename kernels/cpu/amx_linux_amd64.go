package cpu

import "golang.org/x/sys/unix"

// permitAMX asks the operating system, once for the process and all its threads, to save the AMX registers, and reports whether
// it agrees.
func permitAMX() bool {
	const requestPermission, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
}
