package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// IsFull reports whether an error means that the disk, or the user's share of it, is full.
func IsFull(err error) bool {
	const windowsFull = syscall.Errno(112)
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || runtime.GOOS == "windows" && errors.Is(err, windowsFull)
}

// FS is a file system: OS, or a simulated disk (durabletest.Disk). Methods that also exist in package os return the same errors as there.
// Functions of this package whose names end with In take an FS; the others use OS.
type FS interface {
	OpenFile(path string, flag int, mode fs.FileMode) (Handle, error)
	ReadFile(path string) ([]byte, error)
	ReadDir(path string) ([]fs.DirEntry, error)
	Stat(path string) (fs.FileInfo, error)
	Lstat(path string) (fs.FileInfo, error)
	Mkdir(path string, mode fs.FileMode) error
	Rename(from, to string) error
	Remove(path string) error

	// SyncDir makes the names of a folder's files durable.
	SyncDir(path string) error
	// Lock creates the file if it is missing, and locks it without waiting. The error is ErrLocked if another process, or another caller in
	// this process, has the lock. Release ends the lock, and so does a kill of the process.
	Lock(path string) (Lock, error)
}

// Handle is an open file. Written bytes are durable after Sync.
type Handle interface {
	io.Writer
	io.ReaderAt
	io.WriterAt
	io.Closer
	Name() string
	Stat() (fs.FileInfo, error)
	Chmod(mode fs.FileMode) error
	Sync() error
}

// Lock is a locked file. Release removes the file and ends the lock.
type Lock interface{ Release() error }

// ErrLocked is the error of FS.Lock if the file is locked already.
var ErrLocked = errors.New("the file is locked")

// OS is the file system of the operating system.
var OS FS = system{}

type system struct{}

func (system) OpenFile(path string, flag int, mode fs.FileMode) (Handle, error) {
	f, err := os.OpenFile(path, flag, mode)
	if err != nil { // a Handle that contains a nil *os.File would not be nil
		return nil, err
	}
	return f, nil
}

func (system) ReadFile(path string) ([]byte, error)       { return os.ReadFile(path) }
func (system) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }
func (system) Stat(path string) (fs.FileInfo, error)      { return os.Stat(path) }
func (system) Lstat(path string) (fs.FileInfo, error)     { return os.Lstat(path) }
func (system) Mkdir(path string, mode fs.FileMode) error  { return os.Mkdir(path, mode) }
func (system) Rename(from, to string) error               { return os.Rename(from, to) }
func (system) Remove(path string) error                   { return os.Remove(path) }

// SyncDir does nothing where a folder cannot be synced: on Windows, in folders that this process may not read, and on file systems that
// return EINVAL.
func (system) SyncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	if err = f.Sync(); errors.Is(err, syscall.EINVAL) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// MkdirAllIn creates a folder and its missing parents. When it returns, the names of all created folders are durable. It also syncs an
// existing folder's name, because a process may have created the folder and been killed before it synced the name.
func MkdirAllIn(files FS, path string) error {
	above := filepath.Dir(path)
	info, err := files.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
	case err == nil:
		return files.SyncDir(above)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := MkdirAllIn(files, above); err != nil {
		return err
	}
	if err := files.Mkdir(path, 0o755); err != nil {
		if info, missing := files.Stat(path); missing != nil || !info.IsDir() { // or another process has made it
			return err
		}
	}
	return files.SyncDir(above)
}
