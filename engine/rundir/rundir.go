// Package rundir is what all runs that keep their state in a folder have in common:
//
//	rundir.go   one process at a time writes the folder, and the half-written files of a killed one are removed
//	config.go   the configuration, written once; a run continues only with the same one
//	journal.go  a file that grows line by line; a kill can tear its last line only
//	shards.go   the names of files of records, by which a run knows the games that it has
package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/evald/evald/engine/filelock"
	"github.com/evald/evald/engine/wholefile"
)

// ErrInUse is the error of a folder that another process has open.
var ErrInUse = errors.New("another run is writing this folder: name another one, or wait for it to end")

// Dir is a folder that this process alone writes. Close it.
type Dir struct {
	path string
	lock *os.File
}

// Open makes the folder if there is none, locks it without waiting, and removes what killed writers left in it under
// temporary names. The error names the folder; it wraps ErrInUse if another process has the folder open. The lock is the
// file "lock" in the folder.
func Open(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	lock, err := filelock.Open(filepath.Join(path, "lock"), ErrInUse)
	if errors.Is(err, ErrInUse) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err != nil {
		return nil, err
	}
	d := &Dir{path, lock}
	if err := wholefile.Sweep(path); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Path is the path of something in the folder.
func (d *Dir) Path(names ...string) string {
	return filepath.Join(append([]string{d.path}, names...)...)
}

// Sync makes durable which files the folder has, and under which names.
func (d *Dir) Sync() error {
	if runtime.GOOS == "windows" { // which cannot sync a folder
		return nil
	}
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Close lets other processes have the folder.
func (d *Dir) Close() error { return errors.Join(os.Remove(d.lock.Name()), d.lock.Close()) }
