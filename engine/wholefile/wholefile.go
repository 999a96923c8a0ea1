// Package wholefile writes files that appear under their names when they are complete, or not at all.
//
// Until then the bytes of NAME are in .NAME.evald-new beside it, which its writer has locked. So a second writer of NAME is
// refused at once, and the next writer takes over what a killed one has left.
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
	mode fs.FileMode // of the file that has the name already; 0 if there is none
	done bool
}

// Create begins a file. It will have the permissions of the file that has the name already, or 0644. Errors name the file.
func Create(path string) (*File, error) {
	w := &File{path: path}
	if info, err := os.Stat(path); err == nil {
		if !info.Mode().IsRegular() { // the rename would replace a device by a file
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

// Commit gives the file its name, and replaces the file that has it. If that fails, the new file is removed.
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
	return w.Close() // which ends the lock: the temporary name is free
}

// Abort removes the file, if it was not committed. Errors do not matter, because nobody wants the file.
func (w *File) Abort() {
	if !w.done {
		w.done = true
		_ = os.Remove(w.Name())
		_ = w.Close()
	}
}

// failed makes an error name the file, and not its temporary name.
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

// claim makes a file for this process alone, or takes over one that another has left. It follows no link: in a folder that
// everybody can write, a link may be a trap.
func claim(path string) (*os.File, error) {
	for {
		f, err := filelock.OpenFile(path, os.O_CREATE|os.O_EXCL)
		if errors.Is(err, fs.ErrExist) {
			if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
				return nil, errors.New(path + " is in the way: remove it")
			}
			f, err = filelock.OpenFile(path, 0)
		}
		if errors.Is(err, fs.ErrNotExist) && exists(filepath.Dir(path)) {
			continue // its writer has finished just now
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

// isAt reports whether an open file has this name itself, not through a link.
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

// Sweep removes the temporary files that killed writers have left in a folder. A file that somebody is writing stays.
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
