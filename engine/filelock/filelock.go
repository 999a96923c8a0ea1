// Package filelock keeps other processes from writing a file.
package filelock

import (
	"errors"
	"os"
)

// Lock locks an open file or folder, without waiting. If another process has the lock, the error is held. The lock ends
// when the file is closed, also by a kill.
func Lock(f *os.File, held error) error { return lock(f, held) }

// Open opens a file for reading and writing, makes it if there is none, and locks it. If whoever had the lock before has
// renamed or removed the file meanwhile, Open begins again with the file that has the name now.
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

// names reports whether an open file still has a path.
func names(path string, f *os.File) bool {
	there, err := os.Stat(path)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && os.SameFile(info, there)
}
