// Package wholefile writes files that appear under their names when they are complete, or not at all.
//
// Until then the bytes of NAME are in .NAME.evald-new beside it, which the writer holds by a lock. So a second writer of
// NAME is refused at once, and what a killed one has left is taken over by the next.
package wholefile

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/evald/evald/engine/filelock"
)

// ErrInUse is the error of a file that another program is writing.
var ErrInUse = errors.New("another program is writing this file: name another one, or wait for it to end")

// File is a file that is being written. Commit or Abort it.
type File struct {
	*os.File // under its temporary name

	path string
	mode fs.FileMode // of the file that is there already, else 0
	done bool
}

// Create begins a file. Its permissions will be those of the file that has the name already, else 0644. Errors name it.
func Create(path string) (*File, error) {
	w := &File{path: path}
	if info, err := os.Stat(path); err == nil {
		if !info.Mode().IsRegular() { // a device would be gone
			return nil, w.failed(errors.New("is not a regular file: name another one"))
		}
		w.mode = info.Mode().Perm()
	}
	var err error
	if w.File, err = claim(temporary(path)); err != nil {
		return nil, w.failed(err)
	}
	err = w.Truncate(0)
	if err == nil && w.mode != 0 {
		err = w.Chmod(w.mode | 0o200) // the next one must be able to take it over
	}
	if err != nil {
		w.Abort()
		return nil, w.failed(err)
	}
	return w, nil
}

// Commit gives the file its name, in place of one that has it. Where that fails the file is gone.
func (w *File) Commit() error {
	var err error
	if w.mode != 0 && w.mode&0o200 == 0 {
		err = w.Chmod(w.mode)
	}
	err = cmp.Or(err, w.Sync())
	if err == nil {
		err = os.Rename(w.Name(), w.path)
	}
	if err != nil {
		w.Abort()
		return w.failed(err)
	}
	w.done = true
	return w.Close() // and so the lock goes, after the name that it was for
}

// Abort drops the file, if it was not committed; errors of a file that goes away anyway do not matter.
func (w *File) Abort() {
	if !w.done {
		w.done = true
		_ = os.Remove(w.Name())
		_ = w.Close()
	}
}

// failed names the file in an error, and not its temporary name.
func (w *File) failed(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		err = path.Err
	case errors.As(err, &link):
		err = link.Err
	}
	return &fs.PathError{Op: "write", Path: w.path, Err: err}
}

// Write writes a whole file.
func Write(path string, content []byte) error {
	w, err := Create(path)
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		w.Abort()
		return w.failed(err)
	}
	return w.Commit()
}

const suffix = ".evald-new"

func temporary(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+suffix)
}

// claim makes a file for this process alone, or takes over what another has left. No link is followed: in a folder that
// everybody can write it may be somebody's trap.
func claim(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
				return nil, errors.New(path + " is in the way: remove it")
			}
			f, err = os.OpenFile(path, os.O_RDWR, 0)
		}
		if errors.Is(err, fs.ErrNotExist) && exists(filepath.Dir(path)) {
			continue // whoever was writing it has finished just now
		}
		if err != nil {
			return nil, err
		}
		if err := filelock.Lock(f, ErrInUse); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if isAt(f, path) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// isAt reports whether an open file has this name, and not by a link.
func isAt(f *os.File, path string) bool {
	there, err := os.Lstat(path)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && os.SameFile(info, there)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Sweep removes what killed writers have left in a folder under temporary names. What somebody is writing stays.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") || !strings.HasSuffix(e.Name(), suffix) || !e.Type().IsRegular() {
			continue
		}
		f, err := claim(filepath.Join(dir, e.Name()))
		if errors.Is(err, ErrInUse) {
			continue
		}
		if err != nil {
			return err
		}
		if err := errors.Join(os.Remove(f.Name()), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
