// Package filelock keeps other processes from writing a file.
package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Lock locks an open file, without waiting; where another process has it, the error is held. The kernel gives the lock
// back when the file is closed, however that comes about.
func Lock(f *os.File, held error) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return held
	}
	return err
}
