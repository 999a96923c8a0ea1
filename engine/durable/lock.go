package durable

import (
	"errors"
	"os"
	"runtime"

	"github.com/gofrs/flock"
)

// acquire creates the file if it is missing, and locks it without waiting. If another process has the lock, the error is held.
func acquire(files FS, path string, held error) (Lock, error) {
	lock, err := files.Lock(path)
	if errors.Is(err, ErrLocked) {
		return nil, held
	}
	return lock, err
}

// inTheWay returns an error if the path exists and is not a regular file.
func inTheWay(files FS, path string) error {
	if info, err := files.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return errors.New(path + " is in the way: remove it")
	}
	return nil
}

type systemLock struct{ *flock.Flock }

// Lock implements FS. It does not follow symbolic links: in a folder that every user can write, another user may have made the link as a
// trap.
func (system) Lock(path string) (Lock, error) {
	for {
		if err := inTheWay(OS, path); err != nil {
			return nil, err
		}
		lock := flock.New(path, flock.SetPermissions(0o644))
		locked, err := lock.TryLock()
		if err != nil {
			return nil, err
		}
		if !locked {
			return nil, ErrLocked
		}
		// Between opening and locking, the previous owner may have removed the file. Then the lock would be on a file without a name.
		mine, err := lock.Stat()
		if err == nil {
			if there, err := os.Lstat(path); err == nil && os.SameFile(mine, there) {
				return systemLock{lock}, nil
			}
		}
		if err := errors.Join(err, lock.Close()); err != nil {
			return nil, err
		}
	}
}

// Release implements Lock.
func (l systemLock) Release() error {
	if runtime.GOOS == "windows" { // Windows cannot remove an open file: neither this one, nor one that another process has locked since
		err := l.Close()
		_ = os.Remove(l.Path())
		return err
	}
	return errors.Join(os.Remove(l.Path()), l.Close())
}
