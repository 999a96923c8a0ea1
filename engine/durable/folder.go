package durable

import (
	"errors"
	"fmt"
	"path/filepath"
)

// ErrFolderInUse is the error of OpenDir if another process has the folder open.
var ErrFolderInUse = errors.New("another run is writing this folder: name another one, or wait for it to end")

// Dir is a folder that only this process writes. It must be closed.
type Dir struct {
	FS
	path string
	lock Lock
}

// OpenDir creates the folder if it is missing, locks it without waiting, and removes temporary files of killed writers. The names that
// remain in it are then durable. Errors name the folder, and wrap ErrFolderInUse if another process has it open. The lock is the file
// "lock" in the folder.
func OpenDir(path string) (*Dir, error) { return OpenDirIn(OS, path) }

// OpenDirIn is OpenDir in any file system.
func OpenDirIn(files FS, path string) (*Dir, error) {
	if err := MkdirAllIn(files, path); err != nil {
		return nil, err
	}
	lock, err := acquire(files, filepath.Join(path, "lock"), ErrFolderInUse)
	if errors.Is(err, ErrFolderInUse) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err != nil {
		return nil, err
	}
	d := &Dir{files, path, lock}
	if err := SweepIn(files, path); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := d.Sync(); err != nil { // a killed process may have named files without syncing the folder
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Path returns the path of a file or folder in the folder.
func (d *Dir) Path(names ...string) string {
	return filepath.Join(append([]string{d.path}, names...)...)
}

// Sync is SyncDir of the folder.
func (d *Dir) Sync() error { return d.SyncDir(d.path) }

// SyncDir makes the names of a folder's files durable, in OS.
func SyncDir(path string) error { return OS.SyncDir(path) }

// Close unlocks the folder for other processes.
func (d *Dir) Close() error { return d.lock.Release() }
