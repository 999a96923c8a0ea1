package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/gofrs/flock"
)

// ErrFolderInUse is the error of a folder that another process has open.
var ErrFolderInUse = errors.New("another run is writing this folder: name another one, or wait for it to end")

// Dir is a folder that this process alone writes. Close it.
type Dir struct {
	path string
	lock *flock.Flock
}

// OpenDir makes the folder if there is none, locks it without waiting, and removes what killed writers left in it under
// temporary names. The error names the folder; it wraps ErrFolderInUse if another process has the folder open. The lock is the
// file "lock" in the folder.
func OpenDir(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	lock, err := acquire(filepath.Join(path, "lock"), ErrFolderInUse)
	if errors.Is(err, ErrFolderInUse) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err != nil {
		return nil, err
	}
	d := &Dir{path, lock}
	if err := Sweep(path); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Path is the path of something in the folder.
func (d *Dir) Path(names ...string) string {
	return filepath.Join(append([]string{d.path}, names...)...)
}

// Sync is SyncDir of the folder.
func (d *Dir) Sync() error { return SyncDir(d.path) }

// SyncDir makes durable which files a folder has, and under which names.
func SyncDir(path string) error {
	if runtime.GOOS == "windows" { // which cannot sync a folder
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Close lets other processes have the folder.
func (d *Dir) Close() error { return release(d.lock) }
