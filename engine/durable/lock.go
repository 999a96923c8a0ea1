package durable

import (
	"errors"
	"os"
	"runtime"

	"github.com/gofrs/flock"
)

// acquire locks a file, which it makes if there is none, without waiting. If another process has the lock, the error is held.
// The lock ends with release, and when the process is killed. acquire follows no link: in a folder that everybody can
// write, a link may be a trap.
func acquire(path string, held error) (*flock.Flock, error) {
	for {
		if err := inTheWay(path); err != nil {
			return nil, err
		}
		lock := flock.New(path, flock.SetPermissions(0o644))
		locked, err := lock.TryLock()
		if err != nil {
			return nil, err
		}
		if !locked {
			return nil, held
		}
		// The process that had the lock before may have removed the file between its opening and its locking here.
		mine, err := lock.Stat()
		if err == nil {
			if there, err := os.Lstat(path); err == nil && os.SameFile(mine, there) {
				return lock, nil
			}
		}
		if err := errors.Join(err, lock.Close()); err != nil {
			return nil, err
		}
	}
}

// release removes a locked file and ends the lock.
func release(lock *flock.Flock) error {
	if runtime.GOOS == "windows" { // which removes no open file: neither this one, nor one that another process has locked since
		err := lock.Close()
		_ = os.Remove(lock.Path())
		return err
	}
	return errors.Join(os.Remove(lock.Path()), lock.Close())
}

// inTheWay returns an error if something that is no regular file has this name.
func inTheWay(path string) error {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return errors.New(path + " is in the way: remove it")
	}
	return nil
}
