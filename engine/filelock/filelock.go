// Package filelock keeps other processes from writing a file.
package filelock

import (
	"errors"
	"os"
)

// Lock locks an open file or folder, without waiting; where another process has it, the error is held. The kernel gives
// the lock back when the file is closed, however that comes about.
func Lock(f *os.File, held error) error { return lock(f, held) }

// Open opens a file for reading and writing, which it makes where there is none, and locks it. What whoever had the lock
// renamed or removed meanwhile is no longer that file, and is opened anew.
func Open(path string, held error) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
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

// names reports whether a path is still that of an open file.
func names(path string, f *os.File) bool {
	there, err := os.Stat(path)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && os.SameFile(info, there)
}
