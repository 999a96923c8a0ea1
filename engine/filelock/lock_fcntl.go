//go:build aix || (solaris && !illumos)

package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the lock of POSIX, which these systems have alone. It is the process's, and not the open file's: a process
// does not keep itself out.
func lock(f *os.File, held error) error {
	err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return held
	}
	return err
}
