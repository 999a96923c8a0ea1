package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lock locks a byte far behind the file's end: locks keep others from reading there.
func lock(f *os.File, held error) error {
	at := &windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return held
	}
	return err
}
