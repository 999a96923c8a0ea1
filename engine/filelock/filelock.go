// Package filelock keeps other processes from writing a file.
package filelock

import (
	"errors"
	"os"
)

// Lock locks an open file, or on Unix an open folder, without waiting. If another process has the lock, the error is held.
// The lock ends when the file is closed, also by a kill.
func Lock(f *os.File, held error) error { return lock(f, held) }

// OpenFile opens a file for reading and writing, as os.OpenFile does with os.O_RDWR; how is 0, os.O_CREATE, or that with
// os.O_EXCL. The file can be renamed and removed while it is open and locked, on Windows as on Unix.
func OpenFile(path string, how int) (*os.File, error) { return openFile(path, how) }

// Open opens a file as OpenFile does, makes it if there is none, and locks it. If whoever had the lock before has
// renamed or removed the file meanwhile, Open begins again with the file that has the name now.
func Open(path string, held error) (*os.File, error) {
	for {
		f, err := OpenFile(path, os.O_CREATE)
		if err != nil {
			return nil, err
		}
		if err := Lock(f, held); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if names(path, f) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// names reports whether an open file still has a path.
func names(path string, f *os.File) bool {
	there, err := os.Stat(path)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && os.SameFile(info, there)
}
